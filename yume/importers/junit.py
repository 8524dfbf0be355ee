"""JUnit XML, as pytest, Maven, node and many others write it: each test case is a run of the test.

A case with a failure or an error has failed, wherever the error happened: also the code that a test loads or
sets up with is what is tested. It is the surroundings' fault only where the report leaves no doubt, such as a
full disk. What a suite itself printed stands behind its cases and is not kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import Final
from xml.parsers import expat

from yume.importers.documents import zoned
from yume.importers.junit_reader import Case, Part, Reader, RefusedError, Suite
from yume.importers.records import Imported, Json, Piece, Unread, record, verdict, without
from yume.importers.streams import File, files

NAMES: Final = ("junit", "junit-xml")
ABOUT: Final = "JUnit XML reports: a run for each test case"

_CHUNK: Final = 1 << 16
_FAILED: Final = ("failure", "error")
_FAILED_BEFORE: Final = ("flakyFailure", "flakyError", "rerunFailure", "rerunError")  # what a rerun followed
_NEVER_RAN: Final = ("skipped", "disabled")
_NOT_RUN_STATUS: Final = ("notrun", "disabled", "skipped")
_OUTPUT: Final = {"system-out": "output", "system-err": "stderr", "error": "error"}
_TOLD: Final = (*_FAILED, *_FAILED_BEFORE, *_NEVER_RAN, *_OUTPUT)
_WAITED: Final = re.compile(
    r"(?:method )?(?:\S+ )?depends on (?!the\b|an?\b)\S|blocked by \S|dependency \S+ (?:failed|was skipped)",
    re.IGNORECASE,
)


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


def _record(file: File, case: Case, series: str) -> Json:
    never = next((each for each in case.parts if each.tag in _NEVER_RAN), None)
    failed = [each for each in case.parts if each.tag in _FAILED]
    skipped = never is not None or case.attributes.get("status") in _NOT_RUN_STATUS
    attempts = _attempts(case, failed, never, skipped=skipped)
    runs = [_attempt(f"{file.name}@{case.byte}", n, each) for n, each in enumerate(attempts, start=1)]
    suite = case.suites[-1] if case.suites else Suite({})
    task = {
        "id": _name(case) or f"{file.name} line {case.line}",
        "series_id": series,
        "kind": "test",
        "status": _status(never, failed=bool(failed), skipped=skipped),
        "finished_at": _ended(suite),
        **({} if skipped else {"verdict": verdict(not failed)}),
    }
    source = _source(case, suite)
    made = record(task, runs[-1], source=source, events=_events(case), finished=file.modified)
    made["runs"] = [run | {"task_id": task["id"], "attempt": n} for n, run in enumerate(runs, start=1)]
    return made


def _name(case: Case) -> str:
    """Name the test: by its class and name, by the suites inside the outermost, and by its file.

    The file counts where the class does not name it already, as it does in pytest's reports.
    """
    classname, name = (case.attributes.get(each, "").strip() for each in ("classname", "name"))
    outer = [each.attributes.get("name", "").strip() for each in case.suites[1:]]
    stated = [case.attributes, *(each.attributes for each in reversed(case.suites))]
    file = next((each["file"].strip() for each in stated if each.get("file")), "")
    known = not file or PurePath(file.replace("\\", "/")).stem in classname
    inner = [each for each in outer if each != classname]
    return "::".join(each for each in ("" if known else file, *inner, classname, name) if each)


def _ended(suite: Suite) -> str | None:
    """Return when the suite ended, if it says when it began, in which zone, and how long it took."""
    began = zoned(suite.attributes.get("timestamp"))
    try:
        took = float(suite.attributes.get("time", "0").replace(",", ""))
        if began is None or not math.isfinite(took):
            return began
        return zoned((datetime.fromisoformat(began) + timedelta(seconds=took)).isoformat())
    except (ValueError, OverflowError):
        return began


def _source(case: Case, suite: Suite) -> Json:
    other = [each for each in case.parts if each.tag not in _TOLD and each.whole]
    more = {
        "properties": case.properties,
        "suite_properties": suite.properties,
        "other": [{"tag": each.tag, "text": each.whole} for each in other],
        "parts_left_out": case.parts_lost,
    }
    return {
        "testcase": dict(case.attributes),
        "testsuite": without(suite.attributes, "hostname"),
        "parts": [{"tag": each.tag, **each.attributes} for each in case.parts],
        **{name: value for name, value in more.items() if value},
    }


def _attempts(
    case: Case, failed: Sequence[Part], never: Part | None, *, skipped: bool
) -> Iterator[Sequence[Part] | str]:
    """Yield what was wrong with each attempt, maybe nothing; reruns stand in the order of time."""
    before = [[each] for each in case.parts if each.tag in _FAILED_BEFORE]
    if failed:
        yield failed
    yield from before
    if skipped and not failed:
        yield f"not run: {(never and _words(never)) or 'skipped'}"
    elif not failed:
        yield ()


def _attempt(case_id: str, number: int, wrong: Sequence[Part] | str) -> Json:
    run_id = case_id if number == 1 else f"{case_id}/{number}"
    if isinstance(wrong, str):
        return {"id": run_id, "verdict": None, "failure_reason": wrong}
    if not wrong:
        return {"id": run_id, "verdict": "pass"}
    first, *others = wrong
    output = [first.whole, *("\n".join([each.attributes.get("message", ""), each.whole]) for each in others)]
    details = {"message": first.attributes.get("message"), "output": "\n\n".join(output).strip()}
    return {
        "id": run_id,
        "verdict": "fail",
        "verdict_details": {name: text for name, text in details.items() if text},
    }


def _words(part: Part) -> str:
    return part.attributes.get("message") or part.whole.partition("\n")[0]


def _status(never: Part | None, *, failed: bool, skipped: bool) -> str:
    if failed:
        return "failed"
    if not skipped:
        return "succeeded"
    waited = never is not None and _WAITED.match(_words(never).strip())
    return "ended" if waited else "cancelled"


def _events(case: Case) -> list[Json]:
    return [
        {"kind": _OUTPUT[each.tag], "text": text, "run_id": None}
        for each in case.parts
        if each.tag in _OUTPUT and (text := _printed(each))
    ]


def _printed(part: Part) -> str:
    """Return what was printed; of an error its message too, last, since a log is judged by its last lines."""
    return "\n".join(each for each in (part.whole, part.attributes.get("message")) if each)
