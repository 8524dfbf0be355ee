"""Auto-GPT benchmark reports: `report.json` as agbenchmark writes it, or its tests a line each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

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
from yume.importers.streams import File, fields, files, is_document, json_pieces, members, table

NAMES: Final = ("agbench", "auto-gpt", "auto-gpt-benchmarks")
ABOUT: Final = "Auto-GPT benchmark reports: report.json, or results.jsonl with reports.jsonl"

_HEAD: Final = ("completion_time", "agent_git_commit_sha", "benchmark_git_commit_sha", "benchmark_start_time")
_SUITES_DEEP: Final = 5
_COMMIT: Final = re.compile(r"/tree/([0-9a-f]{7,40})")
_REPOSITORY: Final = re.compile(r"[^/]+/([^/]+)/tree/")
_NEVER_RAN: Final = re.compile(r"depends on|not eligible", re.IGNORECASE)

Heads = Mapping[str, Json]


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every test that is no suite; a suite's tests are runs of their own."""
    for file in files(root, "results.jsonl", "report.json"):
        if is_document(file):
            yield from _report(file, series)
        else:
            heads = table(file.path.parent / "reports.jsonl", "_report")
            yield from json_pieces(file, partial(_line, series=series, heads=heads))


def _report(file: File, series: str) -> Iterator[Piece]:
    head = fields(file, _HEAD)
    agent = _agent(head, file.path.parent.parent.name)
    for piece in members(file, "tests"):
        if isinstance(piece, Unread):
            yield piece
            continue
        name, test = piece
        for path, leaf in _leaves(name, test):
            place = f"{file.name} test {'/'.join(path)}"
            try:
                test = Test(file.name, path[-1], "/".join(path[:-1]), agent, series)
                yield Imported(place, _record(file, leaf, test, head))
            except NotOfFormatError as error:
                yield Unread(place, str(error))


def _leaves(name: str, test: Any, depth: int = 0) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = test.get("tests") if isinstance(test, dict) else None
    if not isinstance(inner, dict) or depth == _SUITES_DEEP:
        yield (name,), test
        return
    for below, leaf in inner.items():
        for path, found in _leaves(below, leaf, depth + 1):
            yield (name, *path), found


def _line(file: File, place: str, item: Json, *, series: str, heads: Heads) -> Imported:
    report, name = needed(item, "_report", "_test")
    head = heads.get(str(report), {})
    agent = _agent(head, str(item.get("_agent") or "") or None)
    test = Test(str(report), str(name), str(item.get("_suite") or ""), agent, series)
    return Imported(place, _record(file, item, test, head))


@dataclass(frozen=True, slots=True)
class Test:
    """A test in a report, and whose it is."""

    report: str
    name: str
    suite: str
    agent: str | None
    series: str


def _record(file: File, said: Any, test: Test, head: Json) -> Json:
    if not isinstance(said, dict):
        raise NotOfFormatError("a test is an object with its metrics")
    (metrics,) = needed(said, "metrics")
    if not isinstance(metrics, dict):
        raise NotOfFormatError("the metrics of a test are an object")
    needed(metrics, "success")
    passed = judged(metrics, "success")
    finished = _zoned(head.get("completion_time"))
    version = _version(head, test.agent)
    task = {
        "id": test.name,
        "series_id": test.series,
        "kind": "benchmark",
        "title": _text(said.get("task")),
        "status": status(passed),
        "finished_at": finished,
        "template_version": version,
        "verdict": verdict(passed),
    }
    run = {
        "id": "/".join(each for each in (test.report, test.suite, test.name) if each),
        **({} if passed else _reasons(said, metrics)),
        "verdict": verdict(passed),
        "template_version": version,
        "finished_at": finished,
    }
    rest = {**without(said, "task"), "report": {name: head.get(name) for name in _HEAD}}
    return record(task, run, source=rest, finished=file.modified)


def _reasons(test: Json, metrics: Json) -> Json:
    """Tell the words of the benchmark's check from those that say why a test never ran or was stopped."""
    said = _text(metrics.get("fail_reason"))
    if said and _NEVER_RAN.search(said):
        return {"failure_reason": said}
    if metrics.get("attempted") is False:
        return {"failure_reason": f"not attempted: {said or 'no reason given'}"}
    if said:
        return {"verdict_details": {"message": said}}
    stopped = test.get("reached_cutoff") is True
    return {"failure_reason": "timed out: the time limit was reached"} if stopped else {}


def _agent(head: Json, known: str | None) -> str | None:
    found = _REPOSITORY.search(str(head.get("agent_git_commit_sha") or ""))
    return known or (found[1] if found else None)


def _version(head: Json, agent: str | None) -> str | None:
    """Name the agent and, where the report knows it, the commit that it ran from."""
    found = _COMMIT.search(str(head.get("agent_git_commit_sha") or ""))
    return f"{agent or 'agent'}@{found[1][:12]}" if found else agent


def _zoned(time: Any) -> str | None:
    """Return a time that has a zone; one without is not guessed."""
    text = str(time or "")
    return text if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)", text) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
