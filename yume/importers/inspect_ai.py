"""Inspect AI evaluation logs: each sample is a run, from a `.json` document or a `.eval` archive."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from yume.domain.text import rendered
from yume.importers.records import (
    Imported,
    Json,
    NotOfFormatError,
    Piece,
    Unread,
    needed,
    record,
    status,
    verdict,
    without,
)
from yume.importers.streams import PIECE_BYTES, File, fields, files, json_pieces

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile  # the archives are packed with zstd, which zipfile learns in 3.14

NAMES: Final = ("inspect-ai", "inspect")
ABOUT: Final = "Inspect AI evaluation logs: .eval archives and .json logs"

_HEAD: Final = ("eval", "status")
_HEADERS: Final = ("header.json", "_journal/start.json")  # the second is all that an unfinished log has
_MESSAGES: Final = 500  # kept of one sample, the last ones
_CHARS: Final = 20_000  # of one message
_PASSES: Final = ("C", "correct", "yes", "true")
_KINDS: Final = {"tool": "output"}
_TAKEN: Final = ("messages", "scores", "events", "events_data", "attachments")


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every sample; epochs are independent runs of one task.

    The first scorer judges: correct, true or 1 is a pass, anything less a failure, no score a verdict that
    nobody gave. A sample that broke was not judged.
    """
    for file in files(root, "*.eval", "*.json"):
        if file.path.suffix == ".eval":
            yield from _archive(file, series)
        elif file.path.name != "facts.json":
            head = fields(file, _HEAD)
            yield from json_pieces(file, partial(_made, head=head, series=series), items="samples.item")


def _archive(file: File, series: str) -> Iterator[Piece]:
    try:
        with zipfile.ZipFile(file.path) as archive:
            head = _header(archive)
            for member in archive.infolist():
                if member.filename.startswith("samples/") and member.filename.endswith(".json"):
                    yield _sample(file, archive, member, head=head, series=series)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        yield Unread(file.name, f"no archive that can be read: {error}")


def _header(archive: zipfile.ZipFile) -> Json:
    for name in _HEADERS:
        if name in archive.NameToInfo:
            found = json.loads(_unpacked(archive, archive.getinfo(name)))
            return found if isinstance(found, dict) else {}
    return {}


def _sample(
    file: File, archive: zipfile.ZipFile, member: zipfile.ZipInfo, *, head: Json, series: str
) -> Piece:
    place = f"{file.name} {member.filename}"
    try:
        item = json.loads(_unpacked(archive, member))
        if not isinstance(item, dict):
            raise NotOfFormatError("an object was expected")
        return _made(file, place, item, head=head, series=series)
    except (ValueError, RecursionError, zipfile.BadZipFile, OSError, EOFError) as error:
        return Unread(place, f"it cannot be read: {error}")


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Unpack a member under the bound that every piece has, whatever size it claims."""
    if member.flag_bits & 1:
        raise NotOfFormatError("it is encrypted")
    with archive.open(member) as stream:
        data = stream.read(PIECE_BYTES + 1)
    if len(data) > PIECE_BYTES:
        raise NotOfFormatError(f"longer than {PIECE_BYTES >> 20} MiB")
    return data


def _made(file: File, place: str, sample: Json, *, head: Json, series: str) -> Imported:
    sample_id, epoch = needed(sample, "id", "epoch")
    about = head.get("eval")
    eval_: Json = about if isinstance(about, dict) else {}
    name = str(eval_.get("task") or file.path.stem)
    value, score = _score(sample.get("scores"))
    passed = _passes(value)
    stopped = passed is None and head.get("status") == "cancelled" and not sample.get("error")
    version = _version(eval_, name)
    task = {
        "id": f"{name}/{sample_id}",
        "series_id": series,
        "kind": "evaluation",
        "title": rendered(sample.get("input") or "")[:_CHARS],
        "status": "cancelled" if stopped else status(passed),
        "started_at": sample.get("started_at"),
        "finished_at": sample.get("completed_at"),
        "template_version": version,
        "agent_model": eval_.get("model"),
        "verdict": verdict(passed),
    }
    run = {
        "id": str(sample.get("uuid") or f"{eval_.get('run_id') or file.name}/{sample_id}/{epoch}"),
        "failure_reason": _broken(sample),
        "verdict": verdict(passed),
        "verdict_details": None if passed is None else _details(value, score),
        "template_version": version,
    }
    rest = {**without(sample, *_TAKEN), "eval": without(eval_, "dataset")}
    events = list(_events(sample.get("messages")))
    return Imported(place, record(task, run, source=rest, events=events, finished=file.modified))


def _score(scores: Any) -> tuple[Any, Json]:
    """Return the first scorer's value and what it says of it."""
    if not isinstance(scores, dict) or not scores:
        return None, {}
    name, score = next(iter(scores.items()))
    return (score.get("value"), {"scorer": name, **score}) if isinstance(score, dict) else (None, {})


def _passes(value: Any) -> bool | None:
    match value:
        case bool():
            return value
        case int() | float():
            return None if math.isnan(value) else value >= 1
        case str():
            return value in _PASSES
        case _:
            return None


def _details(value: Any, score: Mapping[str, Any]) -> Json:
    said = {"explanation": score.get("explanation"), "answer": score.get("answer")}
    return {
        "value": value,
        "scorer": score.get("scorer"),
        **{name: text for name, text in said.items() if text},
    }


def _broken(sample: Json) -> str | None:
    """Say what ended a sample before its end: an error, or one of its limits."""
    error, limit = sample.get("error"), sample.get("limit")
    if isinstance(error, dict):
        return rendered(error.get("message") or "error")
    if isinstance(limit, dict):
        timed = limit.get("type") in {"time", "working"}
        return f"{'timed out: ' if timed else ''}{limit.get('type')} limit of {limit.get('limit')} reached"
    return None


def _version(eval_: Json, name: str) -> str:
    revision = eval_.get("revision")
    commit = revision.get("commit") if isinstance(revision, dict) else None
    at = f"@{commit[:12]}" if isinstance(commit, str) else ""
    solver = f" with {eval_['solver']}" if isinstance(eval_.get("solver"), str) else ""
    return f"{name} v{eval_.get('task_version', 0)}{at}{solver}"


def _events(messages: Any) -> Iterator[Json]:
    rows = messages[-_MESSAGES:] if isinstance(messages, list) else []
    for each in rows:
        if not isinstance(each, dict):
            continue
        role = str(each.get("role") or "message")
        if text := _text(each.get("content")):
            yield {"kind": _KINDS.get(role, role), "text": text}
        calls = each.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                said = f"{call.get('function')} {rendered(call.get('arguments'))}"
                yield {"kind": "tool_call", "text": said[:_CHARS]}


def _text(content: Any) -> str:
    """Return a message's words; of a list the parts that are text."""
    if isinstance(content, list):
        parts = (each.get("text") for each in content if isinstance(each, dict))
        content = "\n".join(part for part in parts if isinstance(part, str))
    return content[:_CHARS] if isinstance(content, str) else ""
