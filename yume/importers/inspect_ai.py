"""Inspect AI evaluation logs: each sample is a run, from a `.json` document or a `.eval` archive."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from yume.domain.text import rendered
from yume.importers import archives
from yume.importers.documents import head, items, zoned
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
from yume.importers.streams import File, files

NAMES: Final = ("inspect-ai", "inspect")
ABOUT: Final = "Inspect AI evaluation logs: .eval archives and .json logs"

_HEAD: Final = ("eval", "status")
_HEADERS: Final = ("header.json", "_journal/start.json")  # the second is all that an unfinished log has
_MESSAGES: Final = 500  # kept of one sample, the last ones
_CALLS: Final = 50  # of one message
_CHARS: Final = 20_000  # of one message
_VALUES: Final = {
    "c": 1,
    "i": 0,
    "n": 0,
    "p": 0.5,
    "correct": 1,
    "incorrect": 0,
    "yes": 1,
    "true": 1,
    "no": 0,
    "false": 0,
}
_LETTERS: Final = frozenset("CINP")
_KINDS: Final = {"tool": "output"}
_TAKEN: Final = ("messages", "events", "events_data", "attachments")


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every sample; epochs are independent runs of one task.

    The first scorer judges: correct, or at least 1, is a pass, anything less a failure (partly correct too).
    A value that is no grade is no verdict, and no score is none either.
    """
    for file in files(root, "*.eval", "*.json"):
        if file.path.suffix == ".eval":
            yield from _archive(file, series)
        elif file.path.name != "facts.json":
            yield from _document(file, series)


def _document(file: File, series: str) -> Iterator[Piece]:
    known = head(file, _HEAD)
    piece = None
    for piece in items(file, "samples.item"):
        if isinstance(piece, Unread):
            yield piece
        else:
            number, sample = piece
            yield _piece(file, f"{file.name} item {number}", sample, known, series)
    if piece is None and "eval" not in known:
        yield Unread(file.name, "no log of Inspect AI: there is no 'eval' and no sample in it")


def _archive(file: File, series: str) -> Iterator[Piece]:
    try:
        with archives.opened(file.path) as archive:
            known = _header(archive)
            for member in archive.infolist():
                if member.filename.startswith("samples/") and member.filename.endswith(".json"):
                    yield _sample(file, archive, member, known, series)
    except archives.BROKEN as error:
        yield Unread(file.name, f"no archive that can be read: {error}")


def _header(archive: archives.Archive) -> Json:
    """Read what a log says of all its samples; one whose header is broken still has them."""
    for name in _HEADERS:
        if name in archive.NameToInfo:
            try:
                found = _json(archives.unpacked(archive, archive.getinfo(name)))
            except archives.BROKEN:
                continue
            if isinstance(found, dict):
                return found
    return {}


def _sample(
    file: File, archive: archives.Archive, member: archives.Member, known: Json, series: str
) -> Piece:
    place = f"{file.name} {member.filename}"
    try:
        sample = _json(archives.unpacked(archive, member))
    except archives.BROKEN as error:
        return Unread(place, f"it cannot be read: {error}")
    return _piece(file, place, sample, known, series)


def _json(data: bytes) -> Any:
    return json.loads(data, parse_constant=lambda _: None)


def _piece(file: File, place: str, sample: Any, known: Json, series: str) -> Piece:
    if not isinstance(sample, dict):
        return Unread(place, "an object was expected")
    try:
        return Imported(place, _record(file, sample, known, series))
    except NotOfFormatError as error:
        return Unread(place, str(error))


def _record(file: File, sample: Json, known: Json, series: str) -> Json:
    sample_id, epoch = _identity(sample)
    about = known.get("eval")
    eval_: Json = about if isinstance(about, dict) else {}
    name = str(eval_.get("task") or file.path.stem)
    score = _score(sample.get("scores"))
    passed = _passes(score.get("value"))
    stopped = passed is None and known.get("status") == "cancelled" and not sample.get("error")
    version = _version(eval_, name)
    task = {
        "id": f"{name}/{sample_id}",
        "series_id": series,
        "kind": "evaluation",
        "title": _asked(sample.get("input")),
        "status": "cancelled" if stopped else status(passed),
        "started_at": zoned(sample.get("started_at")),
        "finished_at": zoned(sample.get("completed_at")),
        "template_version": version,
        "agent_model": eval_.get("model"),
        "verdict": verdict(passed),
    }
    run = {
        "id": str(sample.get("uuid") or f"{eval_.get('run_id') or file.name}/{sample_id}/{epoch}"),
        "failure_reason": _broken(sample),
        "verdict": verdict(passed),
        "verdict_details": _details(score),
        "template_version": version,
    }
    rest = {**without(sample, *_TAKEN), "eval": without(eval_, "dataset")}
    return record(
        task, run, source=rest, events=list(_events(sample.get("messages"))), finished=file.modified
    )


def _identity(sample: Json) -> tuple[str | int, int]:
    sample_id, epoch = needed(sample, "id", "epoch")
    if isinstance(sample_id, bool) or not isinstance(sample_id, str | int) or sample_id == "":
        raise NotOfFormatError("the id of a sample is a text or a number")
    if isinstance(epoch, bool) or not isinstance(epoch, int):
        raise NotOfFormatError("the epoch of a sample is a whole number")
    return sample_id, epoch


def _asked(said: Any) -> str | None:
    """Return what a sample asks: of a conversation the last thing that the user says."""
    if isinstance(said, list):
        asked = (_text(each.get("content")) for each in reversed(said) if _is_from_user(each))
        return next((text for text in asked if text), None)
    return _text(said) or None


def _is_from_user(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "user"


def _score(scores: Any) -> Json:
    """Return what the first scorer says, with its name."""
    if not isinstance(scores, dict) or not scores:
        return {}
    name, score = next(iter(scores.items()))
    return {**score, "scorer": name} if isinstance(score, dict) else {}


def _passes(value: Any) -> bool | None:
    """Read a grade as Inspect AI turns it into a number; None for what is no grade."""
    if isinstance(value, str):
        value = _grade(value)
    # What differs from itself is NaN, the mark of a sample that was left unscored.
    return value >= 1 if isinstance(value, int | float) and value == value else None  # noqa: PLR0124


def _grade(word: str) -> float | None:
    if len(word) == 1 and word.isalpha() and word not in _LETTERS:
        return None
    try:
        value = _VALUES[word.lower()] if word.lower() in _VALUES else float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _details(score: Mapping[str, Any]) -> Json | None:
    said = {name: score.get(name) for name in ("value", "scorer", "explanation", "answer")}
    return {name: text for name, text in said.items() if text not in (None, "")} or None


def _broken(sample: Json) -> str | None:
    """Say what ended a sample before its end: an error, or one of its limits."""
    error, limit = sample.get("error"), sample.get("limit")
    if isinstance(error, dict):
        return rendered(error.get("message") or "error")[:_CHARS]
    if isinstance(limit, dict):
        timed = limit.get("type") in ("time", "working")
        return f"{'timed out: ' if timed else ''}{limit.get('type')} limit of {limit.get('limit')} reached"[
            :_CHARS
        ]
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
        for call in calls[:_CALLS] if isinstance(calls, list) else ():
            if isinstance(call, dict):
                said = f"{call.get('function')} {rendered(call.get('arguments'))}"
                yield {"kind": "tool_call", "text": said[:_CHARS]}


def _text(content: Any) -> str:
    """Return a message's words; of a list the parts that are text."""
    if isinstance(content, list):
        parts = (each.get("text") for each in content if isinstance(each, dict))
        content = "\n".join(part for part in parts if isinstance(part, str))
    return content[:_CHARS] if isinstance(content, str) else ""
