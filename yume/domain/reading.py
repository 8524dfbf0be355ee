"""From the raw record's bytes to a `Record`: tolerant of what is unknown, strict about the contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from yume.domain.runs import Attempt, BrokenRecord, Event, Inquiry, Record, Task, Verdict
from yume.domain.text import rendered

T = TypeVar("T")


FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 2999


def read_document(raw: bytes) -> dict[str, Any]:
    """Parse the raw record; invalid UTF-8 is replaced, the last of two equal keys counts."""
    try:
        document = json.loads(raw.decode("utf-8-sig", errors="replace"))
    except RecursionError:
        raise BrokenRecord("", "nested too deeply to be read") from None
    except ValueError as error:
        raise BrokenRecord("", f"{len(raw)} bytes that are no JSON: {error}") from None
    if not isinstance(document, dict):
        raise BrokenRecord("", f"an object was expected, not {_named(document)}")
    return document


def write_document(document: Mapping[str, Any]) -> bytes:
    """Return a record as it is archived: its values, lone surrogates as the escapes they came as."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def read_record(raw: bytes) -> Record:
    """Read what S1 archived; BrokenRecord names the first place that breaks the contract."""
    return record_of(read_document(raw))


def record_of(document: Mapping[str, Any]) -> Record:
    """Read a record that is parsed already; BrokenRecord as above."""
    attempts = _each(document, "runs", _attempt)
    return Record(
        task=_task(_Fields(document.get("task"), "/task")),
        attempts=tuple(sorted(attempts, key=lambda attempt: (attempt.number, attempt.index))),
        events=tuple(_each(document, "events", _event)),
        inquiries=tuple(_each(document, "inquiries", _inquiry)),
    )


def _task(task: _Fields) -> Task:
    return Task(
        id=task.required("id"),
        series_id=task.required("series_id"),
        status=task.required("status"),
        finished_at=task.required_time("finished_at"),
        kind=task.text("kind"),
        title=task.text("title"),
        created_at=task.time("created_at"),
        started_at=task.time("started_at"),
        template_version=task.text("template_version"),
        agent_model=task.text("agent_model"),
        verdict=task.verdict("verdict"),
        verdict_stated=task.states("verdict"),
    )


def _attempt(run: _Fields, index: int) -> Attempt:
    run.required("task_id")
    return Attempt(
        index=index,
        id=run.required("id"),
        number=run.required_integer("attempt"),
        started_at=run.time("started_at"),
        finished_at=run.time("finished_at"),
        exit_code=run.integer("exit_code"),
        signal=run.text("signal"),
        failure_reason=run.text("failure_reason"),
        verdict=run.verdict("verdict"),
        verdict_stated=run.states("verdict"),
        verdict_details=run.get("verdict_details"),
        template_version=run.text("template_version"),
        memory_version=run.memory_version(),
        artifacts=run.get("artifacts"),
    )


def _event(event: _Fields, index: int) -> Event:
    return Event(
        index=index,
        at=event.required_time("at"),
        kind=event.required("kind"),
        text=event.text("text"),
        run_id=event.text("run_id"),
        data=event.get("data"),
    )


def _inquiry(inquiry: _Fields, index: int) -> Inquiry:
    inquiry.required("task_id")
    return Inquiry(
        index=index,
        id=inquiry.required("id"),
        run_id=inquiry.text("run_id"),
        asked_at=inquiry.time("asked_at"),
        question=inquiry.text("question"),
        answered_at=inquiry.time("answered_at"),
        answer=inquiry.text("answer"),
        by=inquiry.text("by"),
        effect=inquiry.text("effect"),
        outcome=inquiry.verdict("outcome"),
    )


def _each(document: Mapping[str, Any], name: str, read: Callable[[_Fields, int], T]) -> list[T]:
    rows = document.get(name)
    if rows is None:
        return []
    if not isinstance(rows, list):
        raise BrokenRecord(f"/{name}", f"a list was expected, not {_named(rows)}")
    return [read(_Fields(row, f"/{name}/{index}"), index) for index, row in enumerate(rows)]


def _named(value: Any) -> str:
    return f"{type(value).__name__} {rendered(value)[:40]!r}"


@dataclass(frozen=True, slots=True)
class _Fields:
    """One of the platform's objects, and where it lies."""

    row: Any
    path: str

    def __post_init__(self) -> None:
        if not isinstance(self.row, dict):
            raise BrokenRecord(self.path, f"an object was expected, not {_named(self.row)}")

    def get(self, name: str) -> Any:
        return self.row.get(name)

    def states(self, name: str) -> bool:
        return name in self.row

    def text(self, name: str) -> str | None:
        value = self.get(name)
        return None if value is None else rendered(value)

    def required(self, name: str) -> str:
        value = self.text(name)
        if not value:
            raise self._broken(name, "a required field is missing")
        return value

    def integer(self, name: str) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            number = None
        if number is None or isinstance(value, bool) or (isinstance(value, float) and number != value):
            raise self._broken(name, f"a whole number was expected, not {_named(value)}")
        return number

    def required_integer(self, name: str) -> int:
        value = self.integer(name)
        if value is None:
            raise self._broken(name, "a required field is missing")
        return value

    def time(self, name: str) -> datetime | None:
        value = self.get(name)
        if value is None:
            return None
        try:
            read = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            raise self._broken(name, f"a time by RFC 3339 was expected, not {_named(value)}") from None
        if read.tzinfo is None:
            raise self._broken(name, f"a time without zone: {value!r}")
        if not FIRST_YEAR <= read.year <= LAST_YEAR:
            raise self._broken(name, f"a time outside of {FIRST_YEAR} to {LAST_YEAR}: {value!r}")
        return read

    def required_time(self, name: str) -> datetime:
        value = self.time(name)
        if value is None:
            raise self._broken(name, "a required field is missing")
        return value

    def verdict(self, name: str) -> Verdict | None:
        match self.get(name):
            case None:
                return None
            case "pass":
                return "pass"
            case "fail":
                return "fail"
            case other:
                raise self._broken(name, f"'pass', 'fail' or null was expected, not {_named(other)}")

    def memory_version(self) -> str | None:
        if not self.states("memory_version"):
            return None
        return self.text("memory_version") or "0"

    def _broken(self, name: str, why: str) -> BrokenRecord:
        return BrokenRecord(f"{self.path}/{name}", why)
