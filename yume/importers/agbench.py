"""Auto-GPT benchmark reports: `report.json` as agbenchmark writes it, or its tests a line each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from yume.domain.patterns import first_match
from yume.importers.documents import head, zoned
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
from yume.importers.streams import File, files, is_document, json_pieces, members, table

NAMES: Final = ("agbench", "auto-gpt", "auto-gpt-benchmarks")
ABOUT: Final = "Auto-GPT benchmark reports: report.json, or results.jsonl with reports.jsonl"

_FILES: Final = (
    "results.jsonl",
    "report.json",
    "file[0-9]*_*.json",
    "[0-9]*_*.json",
)  # the last two are older
_HEAD: Final = ("completion_time", "agent_git_commit_sha", "benchmark_git_commit_sha", "benchmark_start_time")
_SUITES_DEEP: Final = 5
_URL_CHARS: Final = 500
_COMMIT: Final = re.compile(r"/tree/([0-9a-f]{7,40})")
_REPOSITORY: Final = re.compile(r"/([^/]+)/tree/")
_NEVER_RAN: Final = re.compile(r"depends on|not eligible", re.IGNORECASE)
_BLOCKED: Final = frozenset({"blocked_by_dependency"})

Table = Mapping[str, Json]


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every test that is no suite; a suite's tests are runs of their own."""
    for file in files(root, *_FILES):
        if is_document(file):
            yield from _report(file, series)
        else:
            beside = file.path.parent
            heads, texts = (
                table(beside / "reports.jsonl", "_report"),
                table(beside / "tests_catalog.jsonl", "_static"),
            )
            yield from json_pieces(file, partial(_line, series=series, heads=heads, texts=texts))


@dataclass(frozen=True, slots=True)
class Test:
    """A test in a report, whose it is, and what its suite or the catalog says of it."""

    report: str
    name: str
    suite: str
    agent: str | None
    series: str
    title: Any
    cut_off: bool


def _report(file: File, series: str) -> Iterator[Piece]:
    known = head(file, _HEAD)
    agent = _repository(known) or _folder(file)
    for piece in members(file, "tests"):
        if isinstance(piece, Unread):
            yield piece
            continue
        for path, leaf, said in _leaves(*piece, {}):
            place = f"{file.name} test {'/'.join(path)}"
            suite, name = "/".join(path[:-1]), path[-1]
            cut_off = said.get("reached_cutoff") is True
            test = Test(file.name, name, suite, agent, series, said.get("task"), cut_off)
            try:
                yield Imported(place, _record(file, leaf, test, known))
            except NotOfFormatError as error:
                yield Unread(place, str(error))


def _leaves(name: str, test: Any, suite: Json, depth: int = 0) -> Iterator[tuple[tuple[str, ...], Any, Json]]:
    """Yield the tests that are no suites, each with its path and with what it and its suites say together."""
    said = {**suite, **test} if isinstance(test, dict) else suite
    inner = test.get("tests") if isinstance(test, dict) else None
    if not isinstance(inner, dict) or depth == _SUITES_DEEP:
        yield (name,), test, said
        return
    for below, leaf in inner.items():
        for path, found, told in _leaves(below, leaf, without(said, "tests"), depth + 1):
            yield (name, *path), found, told


def _line(file: File, place: str, item: Json, *, series: str, heads: Table, texts: Table) -> Imported:
    report, name = needed(item, "_report", "_test")
    if not (isinstance(report, str) and isinstance(name, str) and name):
        raise NotOfFormatError("_report and _test are names")
    known = heads.get(report, {})
    agent = _text(item.get("_agent")) or _repository(known)
    title = item.get("task") or texts.get(str(item.get("_static")), {}).get("task")
    cut_off = item.get("reached_cutoff") is True
    test = Test(report, name, _text(item.get("_suite")) or "", agent, series, title, cut_off)
    return Imported(place, _record(file, item, test, known))


def _record(file: File, said: Any, test: Test, known: Json) -> Json:
    passed, metrics = _verdict(said)
    finished = zoned(known.get("completion_time"))
    version = _version(known, test.agent)
    task = {
        "id": test.name,
        "series_id": test.series,
        "kind": "benchmark",
        "title": _text(test.title),
        "status": status(passed),
        "finished_at": finished,
        "template_version": version,
        "verdict": verdict(passed),
    }
    run = {
        "id": "/".join(each for each in (test.report, test.suite, test.name) if each),
        **({} if passed else _reasons(metrics, cut_off=test.cut_off)),
        "verdict": verdict(passed),
        "template_version": version,
        "finished_at": finished,
    }
    rest = {**without(said, "task"), "report": {name: known.get(name) for name in _HEAD}}
    return record(task, run, source=rest, finished=file.modified)


def _verdict(said: Any) -> tuple[bool | None, Json]:
    if not isinstance(said, dict):
        raise NotOfFormatError("a test is an object with its metrics")
    (metrics,) = needed(said, "metrics")
    if not isinstance(metrics, dict):
        raise NotOfFormatError("the metrics of a test are an object")
    needed(metrics, "success")
    return judged(metrics, "success"), metrics


def _reasons(metrics: Json, *, cut_off: bool) -> Json:
    """Tell the words of the benchmark's check from those that say why a test never ran or was stopped."""
    said, attempted = _text(metrics.get("fail_reason")), metrics.get("attempted")
    blocked = said is not None and first_match(_BLOCKED, platform=[said], log=()) is not None
    if attempted is False and not blocked:
        # On a line of its own: a line that speaks of what was expected counts as a verdict.
        return {"failure_reason": f"not attempted\n{said}" if said else "not attempted: no reason given"}
    if said and (attempted is False or (attempted is not True and _NEVER_RAN.search(said))):
        return {"failure_reason": said}
    if said:
        return {"verdict_details": {"message": said}}
    return {"failure_reason": "timed out: the time limit was reached"} if cut_off else {}


def _repository(known: Json) -> str | None:
    found = _REPOSITORY.search(_url(known))
    return found[1] if found else None


def _folder(file: File) -> str | None:
    """Name the agent by its folder: of `report.json` the one above the run's."""
    folder = file.path.resolve().parent
    return (folder.parent if file.path.name == "report.json" else folder).name or None


def _version(known: Json, agent: str | None) -> str | None:
    """Name the agent and, where the report knows it, the commit that it ran from."""
    found = _COMMIT.search(_url(known))
    return f"{agent or 'agent'}@{found[1][:12]}" if found else agent


def _url(known: Json) -> str:
    return (_text(known.get("agent_git_commit_sha")) or "")[:_URL_CHARS]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
