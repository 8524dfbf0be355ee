"""SWE-bench: verdicts on instances, from a line each, a map, a run's report or an instance's own report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from yume.importers.records import (
    Imported,
    Json,
    NotOfFormatError,
    Piece,
    Unread,
    judged,
    needed,
    record,
    status,
    verdict,
    without,
)
from yume.importers.streams import File, fields, files, is_document, json_pieces, members

NAMES: Final = ("swe-bench", "swe-bench-pro")
ABOUT: Final = "SWE-bench: verdicts.jsonl, eval_results.json, a run's report or report.json of an instance"

# The lists of a run's report, the most telling first: an instance counts by the first that names it.
_LISTS: Final[dict[str, tuple[bool | None, str | None]]] = {
    "resolved_ids": (True, None),
    "error_ids": (None, "platform error: the evaluation of this instance broke"),
    "empty_patch_ids": (False, "the patch is empty"),
    "unresolved_ids": (False, None),
    "incomplete_ids": (None, None),
}
_GENERIC: Final = frozenset({"report", "eval_results", "verdicts", "results"})


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every instance's verdict; labels that a model gave (`error_analysis`) are no runs."""
    for file in files(root, "verdicts.jsonl", "*.json"):
        if file.path.name == "facts.json":
            continue
        if not is_document(file):
            yield from json_pieces(file, partial(_line, series=series))
        elif _is_map(file):
            yield from _map(file, series)
        else:
            yield from _run_report(file, series)


def _is_map(file: File) -> bool:
    """Tell a map of instances from a run's report, which starts with a count or a list."""
    first = next(members(file, ""), None)
    return isinstance(first, tuple) and (first[1] is None or isinstance(first[1], bool | dict))


def _line(file: File, place: str, item: Json, *, series: str) -> Imported:
    instance, _ = needed(item, "instance_id", "value")
    run = str(item.get("_run") or _run_name(file))
    rest = without(item, "instance_id", "value")
    return Imported(place, _record(file, Instance(str(instance), run, series), judged(item, "value"), rest))


def _map(file: File, series: str) -> Iterator[Piece]:
    """Read {instance: verdict}, or {instance: its report}."""
    run = _run_name(file)
    for piece in members(file, ""):
        if isinstance(piece, Unread):
            yield piece
            continue
        instance, value = piece
        place = f"{file.name} instance {instance}"
        try:
            report = value if isinstance(value, dict) else {"resolved": value}
            needed(report, "resolved")
            about, rest = Instance(instance, run, series), without(report, "resolved")
            made = _record(file, about, judged(report, "resolved"), rest)
            made["runs"][0] |= _details(report)
            yield Imported(place, made)
        except NotOfFormatError as error:
            yield Unread(place, str(error))


def _run_report(file: File, series: str) -> Iterator[Piece]:
    lists = fields(file, tuple(_LISTS))
    if not lists:
        yield Unread(file.name, f"neither a map of instances nor a run's report: no {', '.join(_LISTS)}")
    seen: set[str] = set()
    run = _run_name(file)
    for name, (passed, reason) in _LISTS.items():
        listed = lists.get(name)
        for instance in listed if isinstance(listed, list) else ():
            if isinstance(instance, str) and instance not in seen:
                seen.add(instance)
                about = Instance(instance, run, series)
                made = _record(file, about, passed, {"listed_in": name})
                made["runs"][0]["failure_reason"] = reason
                yield Imported(f"{file.name} {name} {instance}", made)


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of one run of the benchmark."""

    id: str
    run: str
    series: str


def _record(file: File, about: Instance, passed: object, rest: Json) -> Json:
    task = {
        "id": about.id,
        "series_id": about.series,
        "kind": "issue",
        "status": status(passed),
        "template_version": about.run,
        "verdict": verdict(passed),
    }
    name = f"{about.run}/{about.id}"
    attempt = {"id": name, "verdict": verdict(passed), "template_version": about.run}
    return record(task, attempt, source=rest, finished=file.modified)


def _details(report: Json) -> Json:
    """Say what an instance's report says of its patch, and name the tests that failed."""
    if report.get("patch_exists") is False or report.get("patch_is_None") is True:
        return {"failure_reason": "the patch is empty"}
    if report.get("patch_successfully_applied") is False:
        return {"failure_reason": "the patch could not be applied"}
    failed = [{"status": "failed", "message": f"failed: {name}"} for name in _failed_tests(report)]
    return {"verdict_details": failed} if failed else {}


def _failed_tests(report: Json) -> Iterator[str]:
    tests = report.get("tests_status")
    for group in tests.values() if isinstance(tests, dict) else ():
        failed = group.get("failure") if isinstance(group, dict) else None
        if isinstance(failed, list):
            yield from (each for each in failed if isinstance(each, str))


def _run_name(file: File) -> str:
    """Name the run by its file, or by the folder where the file's name says nothing."""
    stem = file.path.stem
    return file.path.resolve().parent.name if stem in _GENERIC else stem
