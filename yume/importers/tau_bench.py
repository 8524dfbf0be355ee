"""tau-bench: conversations of an agent with a customer, each with its reward."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from yume.importers.records import (
    Imported,
    Json,
    NotOfFormatError,
    Piece,
    needed,
    record,
    status,
    verdict,
    without,
)
from yume.importers.streams import File, files, json_pieces

NAMES: Final = ("tau-bench", "tau")
ABOUT: Final = "tau-bench results: task_id, reward and traj of every trial"

_WON: Final = 1 - 1e-6  # tau-bench counts a reward this near to 1 as a success
_KINDS: Final = {"tool": "output"}  # a tool's answer is what the agent's work put out; the rest is talk


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every trial."""
    for file in files(root, "*.jsonl", "*.json"):
        if file.path.name != "facts.json":
            yield from json_pieces(file, partial(_made, series=series))


def _made(file: File, place: str, trial: Json, *, series: str) -> Imported:
    task_id, reward = needed(trial, "task_id", "reward")
    won = None if reward is None else _number(reward) >= _WON
    stated = trial.get("info")
    info: Json = stated if isinstance(stated, dict) else {}
    number = trial.get("trial")
    task = {
        "id": str(task_id),
        "series_id": series,
        "kind": "conversation",
        "title": _instruction(info),
        "status": status(won),
        "verdict": verdict(won),
    }
    run = {
        "id": f"{task_id}/{place if number is None else number}",
        "attempt": 1,
        "verdict": verdict(won),
        "verdict_details": _said(info.get("reward_info")),
    }
    events = [event for message in _messages(trial.get("traj")) for event in _events(message)]
    rest = without(trial, "task_id", "traj")
    return Imported(place, record(task, run, source=rest, events=events, finished=file.modified))


def _number(reward: Any) -> float:
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise NotOfFormatError(f"a reward is a number, not {json.dumps(reward)[:40]}")
    return float(reward)


def _instruction(info: Json) -> str | None:
    task = info.get("task")
    return str(task["instruction"]) if isinstance(task, dict) and task.get("instruction") else None


def _said(reward_info: Any) -> str | None:
    """Say what the benchmark's check found: its two marks in words, as it gives no text of its own."""
    marks = reward_info.get("info") if isinstance(reward_info, dict) else None
    if not isinstance(marks, dict):
        return None
    found = []
    if "r_actions" in marks and not marks["r_actions"]:
        found.append("the data at the end differ from the expected data")
    if "r_outputs" in marks and not marks["r_outputs"]:
        found.append("the answers lack an expected output")
    return "; ".join(found) or None


def _messages(traj: Any) -> list[Json]:
    return [each for each in traj if isinstance(each, dict)] if isinstance(traj, list) else []


def _events(message: Json) -> Iterator[Json]:
    """Turn a message into what was said, and each call of a tool in it into one of its own."""
    role = str(message.get("role") or "message")
    if message.get("content"):
        yield {"kind": _KINDS.get(role, role), "text": message["content"]}
    for call in message.get("tool_calls") or ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield {
                "kind": "tool_call",
                "text": f"{function.get('name')} {function.get('arguments')}",
            }
