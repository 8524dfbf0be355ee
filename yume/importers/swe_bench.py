"""SWE-bench: verdicts on instances, from a line each, a map, a run's report or an instance's own report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import ijson

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
from yume.importers.streams import BROKEN, File, files, is_document, json_pieces, members, rest_unread

NAMES: Final = ("swe-bench", "swe-bench-pro")
ABOUT: Final = "SWE-bench: verdicts.jsonl, eval_results.json, a run's report or report.json of an instance"

_BROKE: Final = "platform error: the evaluation of this instance broke"
# The lists of a run's report, the most telling first: an instance counts by the first that names it.
_LISTS: Final[dict[str, tuple[bool | None, str | None]]] = {
    "resolved_ids": (True, None),
    "infra_failure_ids": (None, _BROKE),
    "error_ids": (None, _BROKE),
    "empty_patch_ids": (False, "the patch is empty"),
    "unresolved_ids": (False, None),
    "incomplete_ids": (None, None),
    "completed_ids": (None, None),
    "submitted_ids": (None, None),
}
_RANKS: Final = {name: rank for rank, name in enumerate(_LISTS)}
_REPORT_BYTES: Final = 8 << 20  # of a run's report: over 50,000 instances, each in three lists
_GENERIC: Final = frozenset({"report", "eval_results", "verdicts", "results"})
_TESTED: Final = ("FAIL_TO_PASS", "PASS_TO_PASS")

Told = frozenset[tuple[str, str]]


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every instance's verdict; labels that a model gave (`error_analysis`) are no runs.

    Where a run's report and reports of its instances lie in one folder, the latter tell more and count.
    """
    found = [file for file in files(root, "verdicts.jsonl", "*.json") if file.path.name != "facts.json"]
    reports = (file for file in found if file.path.name == "report.json" and file.path.stat().st_size)
    told = frozenset(map(_place_of, reports))
    for file in found:
        if not is_document(file):
            yield from json_pieces(file, partial(_line, series=series))
        elif (report := _run_report(file)) is not None:
            yield from _listed(file, report, series, told)
        else:
            yield from _map(file, series)


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of one run of the benchmark."""

    id: str
    run: str
    series: str


@dataclass(slots=True)
class Report:
    """What a run's report says: each instance's most telling list, and why some failed."""

    lists: set[str] = field(default_factory=set)
    listed: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    broken: Unread | None = None

    def take(self, name: str, rest: str, value: str) -> None:
        """Take a text at `name.rest`."""
        if name == "failure_reasons":
            self.reasons[rest] = value
        elif rest == "item" and value and _RANKS[name] <= _RANKS[self.listed.get(value, name)]:
            self.listed[value] = name


def _run_report(file: File) -> Report | None:
    """Read a run's report; None for a document without any of its lists."""
    report = Report()
    if file.path.stat().st_size > _REPORT_BYTES:
        return None
    with file.path.open("rb") as stream:
        try:
            for prefix, event, value in ijson.parse(stream, use_float=True):
                name, _, rest = prefix.partition(".")
                if event == "start_array" and prefix in _LISTS:
                    report.lists.add(prefix)
                elif event == "string" and (name in report.lists or name == "failure_reasons"):
                    report.take(name, rest, value)
        except BROKEN as error:
            report.broken = rest_unread(file, len(report.listed), error)
    return report if report.lists else None


def _listed(file: File, report: Report, series: str, told: Told) -> Iterator[Piece]:
    run = _run_name(file)
    for instance, name in report.listed.items():
        if (run, instance) in told:
            continue
        passed, stated = _LISTS[name]
        reason = report.reasons.get(instance)
        said = {"listed_in": name} | ({"failure_reason": reason} if reason else {})
        made = _record(file, Instance(instance, run, series), passed, said)
        made["runs"][0]["failure_reason"] = f"{stated}: {reason}" if stated and reason else stated
        yield Imported(f"{file.name} {name} {instance}", made)
    if report.broken:
        yield report.broken


def _line(file: File, place: str, item: Json, *, series: str) -> Imported:
    instance, _ = needed(item, "instance_id", "value")
    run = item.get("_run")
    about = Instance(_id(instance), run if isinstance(run, str) and run else _run_name(file), series)
    rest = without(item, "instance_id", "value")
    return Imported(place, _record(file, about, judged(item, "value"), rest))


def _map(file: File, series: str) -> Iterator[Piece]:
    """Read {instance: verdict}, or {instance: its report}."""
    piece = None
    for piece in members(file, ""):
        if isinstance(piece, Unread):
            yield piece
            continue
        place = f"{file.name} instance {piece[0]}"
        try:
            yield Imported(place, _member(file, *piece, series))
        except NotOfFormatError as error:
            yield Unread(place, str(error))
    if piece is None:
        yield Unread(file.name, f"neither a map of instances nor a run's report: no {', '.join(_LISTS)}")


def _member(file: File, instance: str, value: Any, series: str) -> Json:
    report = value if isinstance(value, dict) else {"resolved": value}
    needed(report, "resolved")
    passed = judged(report, "resolved")
    about = Instance(_id(instance), _run_name(file, instance), series)
    made = _record(file, about, passed, without(report, "resolved"))
    if not passed:
        made["runs"][0] |= _details(report)
    return made


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
    if report.get("infra_failure") is True:
        reason = report.get("infra_failure_reason")
        return {"failure_reason": f"{_BROKE}: {reason}" if isinstance(reason, str) and reason else _BROKE}
    if report.get("patch_exists") is False or report.get("patch_is_None") is True:
        return {"failure_reason": "the patch is empty"}
    if report.get("patch_successfully_applied") is False:
        return {"failure_reason": "the patch could not be applied"}
    failed = [{"status": "failed", "message": f"failed: {name}"} for name in _failed_tests(report)]
    return {"verdict_details": failed} if failed else {}


def _failed_tests(report: Json) -> Iterator[str]:
    stated = report.get("tests_status")
    tests: Json = stated if isinstance(stated, dict) else {}
    for name in _TESTED:
        group = tests.get(name)
        failed = group.get("failure") if isinstance(group, dict) else None
        if isinstance(failed, list):
            yield from (each for each in failed if isinstance(each, str))


def _id(instance: Any) -> str:
    if not isinstance(instance, str) or not instance:
        raise NotOfFormatError("an instance is named by a text")
    return instance


def _run_name(file: File, instance: str | None = None) -> str:
    """Name the run by its file, else by its folder; of an instance's report as its run's report is named."""
    stem, (run, name) = file.path.stem, _place_of(file)
    if stem == "report" and name == instance:
        return run
    return file.path.resolve().parent.name if stem in _GENERIC else stem


def _place_of(file: File) -> tuple[str, str]:
    """Return run and instance by `<run>/<model>/<instance>/report.json`, as the harness lays reports out."""
    folder = file.path.resolve().parent
    return f"{folder.parent.name}.{folder.parent.parent.name}", folder.name
