"""Terminal-Bench: the trials of a harness run, from `results.json` or a line each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from yume.importers.records import Imported, Json, Piece, judged, needed, record, status, verdict, without
from yume.importers.streams import File, files, json_pieces, table

NAMES: Final = ("terminal-bench", "tbench")
ABOUT: Final = "Terminal-Bench trials: results.json of a run, or trials.jsonl"

_ENDED_BY_ITSELF: Final = "unset"
_TAKEN: Final = ("id", "task_id", "is_resolved", "failure_mode", "parser_results", "recording_path")
_TIMES: Final = ("trial_started_at", "trial_ended_at")
_NAME: Final = re.compile(r"\.(\d+)-of-\d+\.(?P<run>.+)$")  # hello-world.1-of-3.2025-10-22__09-19-22

Table = Mapping[str, Json]


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every trial; tasks.jsonl beside it gives the instructions, batches.jsonl the commits."""
    for file in files(root, "trials.jsonl", "results.json"):
        beside = file.path.parent
        tasks, batches = table(beside / "tasks.jsonl", "task_id"), table(beside / "batches.jsonl", "_batch")
        make = partial(_made, series=series, tasks=tasks, batches=batches)
        yield from json_pieces(file, make, items="results.item")


def _made(file: File, place: str, trial: Json, *, series: str, tasks: Table, batches: Table) -> Imported:
    task_id, _ = needed(trial, "task_id", "is_resolved")
    resolved = judged(trial, "is_resolved")
    mode = trial.get("failure_mode")
    batch = trial.get("_batch")
    named = _NAME.search(str(trial.get("trial_name") or ""))
    version = batch or (named["run"] if named else None)
    name = str(trial.get("id") or trial.get("trial_name") or place)
    started, ended = (trial.get(each) for each in _TIMES)
    task = {
        "id": str(task_id),
        "series_id": series,
        "kind": "terminal",
        "title": tasks.get(str(task_id), trial).get("instruction"),
        "status": status(resolved),
        "started_at": started,
        "finished_at": ended,
        "template_version": version,
        "verdict": verdict(resolved),
    }
    run = {
        "id": name,
        "attempt": int(named[1]) if named else 1,
        "started_at": started,
        "finished_at": ended,
        "failure_reason": None if mode in (None, _ENDED_BY_ITSELF) else str(mode),
        "verdict": verdict(resolved),
        "verdict_details": _checks(trial.get("parser_results")),
        "template_version": version,
        "artifacts": _recording(trial.get("recording_path")),
    }
    rest = without(trial, *_TAKEN, *_TIMES) | {"agent_commit": batches.get(str(batch), {}).get("commit_hash")}
    return Imported(place, record(task, run, source=rest, finished=file.modified))


def _checks(results: Any) -> list[Json] | None:
    """Turn {test: passed or failed} into checks; of a failed one the name is all that is known."""
    if not isinstance(results, dict):
        return None
    return [
        {"status": word, "name": name} if word == "passed" else {"status": word, "message": f"failed: {name}"}
        for name, word in results.items()
    ]


def _recording(path: Any) -> list[Json]:
    return [{"name": "recording", "uri": str(path)}] if path else []
