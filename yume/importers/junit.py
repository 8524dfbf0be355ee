"""JUnit XML, as pytest, Maven, node and many others write it: each test case is a run of the test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from xml.parsers import expat

from yume.importers.records import Imported, Json, Piece, Unread, record, verdict, without
from yume.importers.streams import File, files

NAMES: Final = ("junit", "junit-xml")
ABOUT: Final = "JUnit XML reports: a run for each test case"

TEXT_CHARS: Final = 100_000  # kept of one element's text
DEEPEST: Final = 100
_CHUNK: Final = 1 << 16
_ROOTS: Final = ("testsuites", "testsuite")
_CASE: Final = "testcase"
_FAILED: Final = ("failure", "error")
_FAILED_BEFORE: Final = ("flakyFailure", "flakyError", "rerunFailure", "rerunError")  # what a rerun followed
_NEVER_RAN: Final = ("skipped", "disabled")
_OUTPUT: Final = {"system-out": "output", "system-err": "stderr"}
_TEXTS: Final = (*_FAILED, *_FAILED_BEFORE, *_NEVER_RAN, *_OUTPUT)
_NOT_RUN_STATUS: Final = ("notrun", "disabled", "skipped")

Attributes = Mapping[str, str]


class RefusedError(ValueError):
    """A document that is not read further, and why."""


@dataclass(slots=True)
class Part:
    """An element inside a case: its tag, attributes and the start of its text."""

    tag: str
    attributes: Attributes
    text: list[str] = field(default_factory=list)
    kept: int = 0
    lost: int = 0

    def add(self, text: str) -> None:
        """Keep as much of a text as there is room for."""
        room = TEXT_CHARS - self.kept
        if room > 0:
            self.text.append(text[:room])
        self.kept += min(room, len(text))
        self.lost += max(0, len(text) - room)

    @property
    def whole(self) -> str:
        """Return the text, with a note of what is not kept of it."""
        said = "".join(self.text).strip()
        return f"{said}\n({self.lost} more characters)" if self.lost else said


@dataclass(slots=True)
class Case:
    """A test case as it is read: where it starts, its suite, and what stands in it."""

    line: int
    byte: int
    attributes: Attributes
    suite: Attributes
    parts: list[Part] = field(default_factory=list)


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every test case; one that was skipped is cancelled, or blocked where it waited for another."""
    for file in files(root, "*.xml"):
        reader = Reader()
        try:
            with file.path.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    reader.feed(chunk)
                    yield from _pieces(file, reader, series)
            reader.feed(b"", last=True)
        except (RefusedError, expat.ExpatError, ValueError, LookupError) as error:
            yield from _pieces(file, reader, series)
            if file.path.stat().st_size:
                why = f"the rest cannot be read: {error}"
                yield Unread(f"{file.name} line {reader.line}", why)


def _pieces(file: File, reader: Reader, series: str) -> Iterator[Piece]:
    cases, reader.done = reader.done, []
    for case in cases:
        yield Imported(f"{file.name} line {case.line}", _record(file, case, series))


class Reader:
    """Takes the test cases out of a document that is fed to it; nothing else of it is kept.

    A document that declares entities is refused: they can make a small file as large as they like.
    """

    def __init__(self) -> None:
        self.done: list[Case] = []
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._tags: list[str] = []
        self._suites: list[Attributes] = []
        self._case: Case | None = None
        self._part: Part | None = None

    @property
    def line(self) -> int:
        """The line that is being read, from 1."""
        return self._parser.CurrentLineNumber

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """Read on; ExpatError where it is no XML, RefusedError where it is none that is read."""
        self._parser.Parse(data, last)

    def _start(self, tag: str, attributes: Attributes) -> None:
        if not self._tags and tag not in _ROOTS:
            raise RefusedError(f"a <{tag[:40]}> document is no JUnit report")
        if len(self._tags) == DEEPEST:
            raise RefusedError(f"elements stand {DEEPEST} deep in one another")
        self._tags.append(tag)
        if tag == "testsuite":
            self._suites.append(attributes)
        elif tag == _CASE and self._case is None:
            parser, suite = self._parser, self._suites[-1] if self._suites else {}
            self._case = Case(parser.CurrentLineNumber, parser.CurrentByteIndex, attributes, suite)
        elif self._case is not None and tag in _TEXTS and self._part is None:
            self._part = Part(tag, attributes)

    def _text(self, text: str) -> None:
        if self._part is not None:
            self._part.add(text)

    def _end(self, tag: str) -> None:
        self._tags.pop()
        if self._part is not None and tag == self._part.tag:
            if self._case is not None:
                self._case.parts.append(self._part)
            self._part = None
        elif tag == _CASE and self._case is not None and _CASE not in self._tags:
            self.done.append(self._case)
            self._case = None
        elif tag == "testsuite" and self._suites:
            self._suites.pop()

    def _doctype(self, *_: object) -> None:
        raise RefusedError("it declares a document type, which no test report needs")


def _record(file: File, case: Case, series: str) -> Json:
    said = {each.tag: each for each in case.parts}
    name = "::".join(each for each in (_attribute(case, "classname"), _attribute(case, "name")) if each)
    never = next((said[tag] for tag in _NEVER_RAN if tag in said), None)
    skipped = never is not None or case.attributes.get("status") in _NOT_RUN_STATUS
    failed = next((said[tag] for tag in _FAILED if tag in said), None)
    run_id = f"{file.name}@{case.byte}"
    runs = [_attempt(run_id, each) for each in _attempts(case, failed, skipped=skipped)]
    task = {
        "id": name or f"{file.name} line {case.line}",
        "series_id": series,
        "kind": "test",
        "status": _status(failed, never, skipped=skipped),
        "finished_at": _zoned(case.suite.get("timestamp")),
        **({} if skipped else {"verdict": verdict(failed is None)}),
    }
    source = {
        "testcase": dict(case.attributes),
        "testsuite": without(case.suite, "hostname"),
        "parts": [{"tag": each.tag, **each.attributes} for each in case.parts],
    }
    made = record(task, runs[-1], source=source, events=_events(case), finished=file.modified)
    made["runs"] = [run | {"task_id": task["id"], "attempt": n} for n, run in enumerate(runs, start=1)]
    return made


def _attempts(case: Case, failed: Part | None, *, skipped: bool) -> Iterator[Part | str | None]:
    """Yield what was wrong with each attempt, None where nothing was; reruns stand in the order of time."""
    before = [each for each in case.parts if each.tag in _FAILED_BEFORE]
    if failed is not None:
        yield from [failed, *before]
        return
    yield from before
    never = next((each for each in case.parts if each.tag in _NEVER_RAN), None)
    yield f"not run: {(never and _words(never)) or 'skipped'}" if skipped else None


def _attempt(run_id: str, wrong: Part | str | None) -> Json:
    if wrong is None:
        return {"id": run_id, "verdict": "pass"}
    if isinstance(wrong, str):
        return {"id": run_id, "verdict": None, "failure_reason": wrong}
    details = {"message": wrong.attributes.get("message"), "output": wrong.whole}
    run = {
        "id": f"{run_id}/{wrong.tag}",
        "verdict": "fail",
        "verdict_details": {name: text for name, text in details.items() if text},
    }
    broke = wrong.tag.lower().endswith("error")  # no assertion failed: something went wrong around it
    return run | ({"failure_reason": _words(wrong)} if broke else {})


def _words(part: Part) -> str:
    return part.attributes.get("message") or part.whole.partition("\n")[0]


def _status(failed: Part | None, never: Part | None, *, skipped: bool) -> str:
    if failed is not None:
        return "failed"
    if not skipped:
        return "succeeded"
    waited = never is not None and "depend" in _words(never).lower()
    return "ended" if waited else "cancelled"


def _events(case: Case) -> list[Json]:
    return [
        {"kind": _OUTPUT[each.tag], "text": text, "run_id": None}
        for each in case.parts
        if each.tag in _OUTPUT and (text := each.whole)
    ]


def _attribute(case: Case, name: str) -> str:
    return case.attributes.get(name, "").strip()


def _zoned(stated: str | None) -> str | None:
    """Return a suite's time if it names its zone: many writers leave it out, and it is not guessed."""
    try:
        return stated if stated and datetime.fromisoformat(stated).tzinfo else None
    except ValueError:
        return None
