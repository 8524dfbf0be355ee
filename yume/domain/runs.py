"""One task as its platform recorded it, and how it ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from yume.domain import patterns
from yume.domain.text import raw_lines, rendered
from yume.errors import PermanentError

Outcome = Literal["success", "failure", "infrastructure", "cancelled", "unknown"]
Verdict = Literal["pass", "fail"]
VersionSource = Literal["reported", "inferred", "unknown", "mixed"]

CLOCKS_DIFFER: Final = timedelta(seconds=60)
NOTHING_INJECTED: Final = "0"
VERDICT_MAY_COME: Final = timedelta(days=7)
LOG_KINDS: Final = frozenset({"log", "stderr", "output", "error"})
_INFRASTRUCTURE: Final = frozenset({"environment_fault", "blocked_by_dependency"})
_TAIL_LINES: Final = (
    20  # a fault of the environment ends the attempt: earlier lines are the agent's own story
)
_TAIL_CHARS: Final = 20_000


class BrokenRecord(PermanentError):  # noqa: N818  # named for what is broken
    """A record breaks the contract; the message names the place as a JSON pointer."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path or '/'}: {why}")
        self.path = path


@dataclass(frozen=True, slots=True)
class Task:
    """The task itself; `verdict_stated` tells null (nobody has judged yet) from absent (unknown)."""

    id: str
    series_id: str
    status: str
    finished_at: datetime
    kind: str | None = None
    title: str | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    template_version: str | None = None
    agent_model: str | None = None
    verdict: Verdict | None = None
    verdict_stated: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try; `memory_version` "0" means that nothing was injected, None that nobody said."""

    index: int
    id: str
    number: int
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    signal: str | None = None
    failure_reason: str | None = None
    verdict: Verdict | None = None
    verdict_stated: bool = False
    verdict_details: Any = None
    template_version: str | None = None
    memory_version: str | None = None
    artifacts: Any = None


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the task's story: `text` as sent, or None and then `data` is what there is."""

    index: int
    at: datetime
    kind: str
    text: str | None = None
    run_id: str | None = None
    data: Any = None

    @property
    def source(self) -> tuple[str, str]:
        """The field that is read for evidence, and its text."""
        if self.text or self.data is None:
            return "text", self.text or ""
        return "data", rendered(self.data)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question to a person, and what became of it."""

    index: int
    id: str
    run_id: str | None = None
    asked_at: datetime | None = None
    question: str | None = None
    answered_at: datetime | None = None
    answer: str | None = None
    by: str | None = None
    effect: str | None = None
    outcome: Verdict | None = None

    @property
    def rescues(self) -> bool:
        """Tell whether a person answered and so kept the task from its own end."""
        answered = self.answer is not None or self.answered_at is not None
        return answered and self.effect in {"resumed", "abandoned"}


@dataclass(frozen=True, slots=True)
class Record:
    """A task with its attempts (by number), events and inquiries (as the platform ordered them)."""

    task: Task
    attempts: tuple[Attempt, ...] = ()
    events: tuple[Event, ...] = ()
    inquiries: tuple[Inquiry, ...] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The platform's words for how a task ended, and which kinds of task a verifier judges."""

    statuses: Mapping[str, str] = field(default_factory=dict)
    verifier: Mapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome; `settled` is False while a verdict may still come."""

    outcome: Outcome
    rescued: bool
    settled: bool


def judge(record: Record, capabilities: Capabilities, *, now: datetime) -> Judgement:
    """Say how the task ended: the rules of measurement.md section 2, the first that matches."""
    status = capabilities.statuses.get(record.task.status, record.task.status)
    if status == "cancelled":
        return Judgement("cancelled", rescued=False, settled=True)
    if final := overturned_to(record):
        return Judgement(_by_verdict(final), rescued=False, settled=True)
    if any(inquiry.rescues for inquiry in record.inquiries):
        return Judgement("failure", rescued=True, settled=True)
    verdict = verdict_of(record)
    pending = verdict is None and _asks_for_verdict(record)
    settled = not (pending and now - record.task.finished_at < VERDICT_MAY_COME)
    return Judgement(_unaided(record, capabilities, verdict, status), rescued=False, settled=settled)


def _unaided(record: Record, capabilities: Capabilities, verdict: Verdict | None, status: str) -> Outcome:
    last = record.attempts[-1] if record.attempts else None
    if verdict == "pass":
        return "success"
    if last and blamed_on(last, events_by_attempt(record)[last.index]):
        return "infrastructure"
    if verdict == "fail":
        return "failure"
    if capabilities.verifier.get(record.task.kind or "", _asks_for_verdict(record)):
        return "unknown"
    if last and last.exit_code is not None:
        return "success" if last.exit_code == 0 else "failure"
    by_status: dict[str, Outcome] = {"succeeded": "success", "failed": "failure"}
    return by_status.get(status, "unknown")


def verdict_of(record: Record) -> Verdict | None:
    """Return the last attempt's verdict, else the one kept on the task."""
    return (record.attempts[-1].verdict if record.attempts else None) or record.task.verdict


def overturned_to(record: Record) -> Verdict | None:
    """Return a person's final word; the latest, if there are several."""
    words = [inquiry for inquiry in record.inquiries if inquiry.effect == "overturned" and inquiry.outcome]
    words.sort(key=lambda inquiry: (inquiry.answered_at or record.task.finished_at, inquiry.index))
    return words[-1].outcome if words else None


def blamed_on(attempt: Attempt, events: Iterable[Event]) -> patterns.Rule | None:
    """Return the rule by which the environment, and not the agent, ended the attempt.

    The platform's words count first. The log counts by its last lines, by unmistakable ones alone, and
    not at all where the attempt ended with exit code 0.
    """
    log = [] if attempt.exit_code == 0 else _log_tail(events)
    platform = [attempt.failure_reason or "", attempt.signal or ""]
    return patterns.first_match(_INFRASTRUCTURE, platform=platform, log=log)


def events_by_attempt(record: Record) -> dict[int, list[Event]]:
    """Deal the events out to the attempts, by run id, else by time; keyed by the attempt's `index`."""
    dealt: dict[int, list[Event]] = {attempt.index: [] for attempt in record.attempts}
    by_id = {attempt.id: attempt for attempt in record.attempts}
    for event in record.events:
        owner = by_id.get(event.run_id) if event.run_id else _running_at(record.attempts, event.at)
        if owner:
            dealt[owner.index].append(event)
    return dealt


def memory_version_of(record: Record) -> tuple[str | None, VersionSource]:
    """Name the slot version that the first attempt read; attempts that differ are mixed."""
    versions = [attempt.memory_version for attempt in record.attempts]
    first = versions[0] if versions else None
    if len(set(versions)) > 1:
        return first, "mixed"
    return first, "unknown" if first is None else "reported"


def version_read(
    record: Record, switches: Sequence[tuple[datetime, str]]
) -> tuple[str | None, VersionSource]:
    """Name the version that the first attempt read: as reported, else as the slot stood when it started.

    `switches` say when the slot was written and under which version, the oldest first. A start within a
    minute of a switch tells nothing: two clocks may differ by that much.
    """
    version, source = memory_version_of(record)
    first = record.attempts[0] if record.attempts else None
    started = (first.started_at if first else None) or record.task.started_at
    if source != "unknown" or started is None:
        return version, source
    if any(abs(started - at) <= CLOCKS_DIFFER for at, _ in switches):
        return None, "unknown"
    before = [name for at, name in switches if at < started]
    return (before[-1] if before else NOTHING_INJECTED), "inferred"


def _by_verdict(verdict: Verdict) -> Outcome:
    return "success" if verdict == "pass" else "failure"


def _asks_for_verdict(record: Record) -> bool:
    return record.task.verdict_stated or any(attempt.verdict_stated for attempt in record.attempts)


def _running_at(attempts: tuple[Attempt, ...], at: datetime) -> Attempt | None:
    if len(attempts) == 1:
        return attempts[0]
    for attempt in attempts:
        started, finished = attempt.started_at, attempt.finished_at
        timed = started is not None or finished is not None
        if timed and (started is None or started <= at) and (finished is None or at <= finished):
            return attempt
    return None


def _log_tail(events: Iterable[Event]) -> list[str]:
    tail: list[str] = []
    for event in reversed([event for event in events if event.kind in LOG_KINDS]):
        tail = [line for line in raw_lines(event.source[1][-_TAIL_CHARS:]) if line.strip()] + tail
        if len(tail) >= _TAIL_LINES:
            break
    return tail[-_TAIL_LINES:]
