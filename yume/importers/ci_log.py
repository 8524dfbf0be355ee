"""Plain logs of CI jobs: each file is a run, and what it says at its end is how it ended."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from yume.domain.text import clean, raw_lines
from yume.importers.records import FAILED, SUCCEEDED, Imported, Json, Piece, Unread, record
from yume.importers.streams import File, files

NAMES: Final = ("ci-log", "ci-logs", "log")
ABOUT: Final = "plain logs of CI jobs (*.log, *.txt): a run for each file"

HEAD_BYTES: Final = 256 << 10  # of a log, kept from its start
TAIL_BYTES: Final = 4 << 20  # and from its end, where failures lie
_CHUNK: Final = 1 << 16
_TAIL_CHUNKS: Final = TAIL_BYTES // _CHUNK
_JUDGED_LINES: Final = 400  # the last ones, in which a log says how it ended
_GENERIC: Final = re.compile(
    r"(?:fail(?:ed|ure)?|pass(?:ed)?|success|log|build|output|console|job)[\d_.-]*", re.IGNORECASE
)
_TIME: Final = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*Z\s?")
_BINARY: Final = b"\x00"


@dataclass(frozen=True, slots=True)
class Ending:
    """Words by which a kind of CI says how a job ended: a status of the contract, and a reason."""

    pattern: re.Pattern[str]
    status: str
    reason: str | None = None


def _ending(pattern: str, status: str, reason: str | None = None) -> Ending:
    return Ending(re.compile(pattern), status, reason)


# In the order of trust: whoever ran the job, before a tool in it.
ENDINGS: Final = (
    _ending(r"^Finished: SUCCESS$", SUCCEEDED),
    _ending(r"^Finished: (?:FAILURE|UNSTABLE)$", FAILED),
    _ending(r"^Finished: ABORTED$", "cancelled"),
    _ending(r"^Finished: NOT_BUILT$", "ended", "not run: the job was not built"),
    _ending(r"^##\[error\]The operation was canceled\.$", "cancelled"),
    _ending(
        r"^##\[error\].*\blost communication with the server", "ended", "lost communication with the runner"
    ),
    _ending(r"^##\[error\]", FAILED),
    _ending(r"^Done\. Your build exited with 0\.?$", SUCCEEDED),
    _ending(r"^Done\. Your build exited with [1-9]\d*\.?$", FAILED),
    _ending(r"^Job succeeded$", SUCCEEDED),
    _ending(r"^ERROR: Job failed", FAILED),
    _ending(r"^\[(?:ERROR|INFO)\] BUILD FAILURE$", FAILED),
    _ending(r"^\[INFO\] BUILD SUCCESS$", SUCCEEDED),
    _ending(r"^(?:Process|Command|Script) (?:completed|exited|failed) with (?:exit )?code [1-9]", FAILED),
)
_NAMES: Final = (
    (re.compile(r"(?<![a-z])fail(?!over)", re.IGNORECASE), FAILED),
    (re.compile(r"(?<![a-z])(?:pass(?:ed)?|success)(?![a-z])", re.IGNORECASE), SUCCEEDED),
)
# GitHub says nothing of success: its last line, without an error before it, has to do.
_QUIET: Final = _ending(r"^Cleaning up orphan processes$", SUCCEEDED)
_UNKNOWN: Final = _ending(r"(?!)", "ended")


@dataclass(slots=True)
class Text:
    """A log's kept bytes: its start, its end, and what lay between."""

    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    sha256: str = ""
    size: int = 0
    lines_before_tail: int = 0
    left_out: int = 0
    before_tail: bytes = b""
    binary: bool = False


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every log; a task is named by its folder where the file's name says only how it ended."""
    for file in files(root, "*.log") if any(root.rglob("*.log")) else files(root, "*.txt"):
        text = _kept(file)
        if text.binary:
            yield Unread(file.name, "no text: it holds zero bytes")
        elif text.size:
            yield Imported(file.name, _record(file, text, series))


def _kept(file: File) -> Text:
    """Read a log once, however large, keeping its two ends."""
    text, digest = Text(), hashlib.sha256()
    with file.path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            text.size += len(chunk)
            text.binary |= _BINARY in chunk
            room = max(0, HEAD_BYTES - len(text.head))
            text.head += chunk[:room]
            if rest := chunk[room:]:
                text.tail.append(rest)
            if len(text.tail) > _TAIL_CHUNKS:
                dropped = text.tail.popleft()
                text.left_out += len(dropped)
                after = text.before_tail or bytes(text.head[-1:])
                text.lines_before_tail += _line_ends(dropped, after=after)
                text.before_tail = dropped[-1:]
    text.sha256 = digest.hexdigest()
    return text


def _line_ends(data: bytes, *, after: bytes = b"") -> int:
    r"""Count line ends: \n, \r\n and a bare \r, each as one; `after` is the byte before the data."""
    split = after == b"\r" and data.startswith(b"\n")
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n") - split


def _record(file: File, text: Text, series: str) -> Json:
    parts = _parts(text)
    last = [clean(line) for line in raw_lines(parts[-1][1])[-_JUDGED_LINES:]]
    ended, said = _ended(file, last)
    finished = next((found[1] + "Z" for line in reversed(last) if (found := _TIME.match(line))), None)
    name = _task_name(file)
    task = {
        "id": name,
        "series_id": series,
        "kind": "ci",
        "status": ended.status,
        "finished_at": _time(finished),
    }
    run = {
        "id": file.name,
        "failure_reason": ended.reason,
        "artifacts": [{"name": file.path.name, "uri": file.name, "sha256": text.sha256, "size": text.size}],
    }
    events = [{"kind": "log", "text": part, "data": {"first_line": line}} for line, part in parts]
    if text.left_out:
        events.insert(1, {"kind": "note", "data": {"bytes_left_out": text.left_out}})
    return record(task, run, source={"ended_by": said}, events=events, finished=file.modified)


def _parts(text: Text) -> list[tuple[int, str]]:
    """Return what was kept with its first line: one text, or two where something is left out between."""
    head, tail = bytes(text.head), b"".join(text.tail)
    if not text.left_out:
        return [(1, (head + tail).decode("utf-8", "replace"))]
    if text.before_tail == b"\r":
        tail = tail.removeprefix(b"\n")  # the second half of a line end that was counted
    first = 1 + _line_ends(head) + text.lines_before_tail
    return [(1, head.decode("utf-8", "replace")), (first, tail.decode("utf-8", "replace"))]


def _ended(file: File, last: list[str]) -> tuple[Ending, str | None]:
    """Say how a log ended by its own last lines, else by its file's name, and by which words."""
    lines = [_TIME.sub("", line).strip() for line in last]
    for ending in ENDINGS:
        said = next((line for line in reversed(lines) if ending.pattern.search(line)), None)
        if said is not None:
            return ending, said[:200]
    for pattern, status in _NAMES:
        if pattern.search(file.path.stem):
            return Ending(pattern, status), f"the file's name, {file.path.name}"
    quiet = next((line for line in reversed(lines) if _QUIET.pattern.search(line)), None)
    return (_UNKNOWN, None) if quiet is None else (_QUIET, quiet)


def _task_name(file: File) -> str:
    stem = file.path.stem
    return file.path.resolve().parent.name if _GENERIC.fullmatch(stem) else stem


def _time(stated: str | None) -> str | None:
    try:
        return stated and datetime.fromisoformat(stated).isoformat()
    except ValueError:
        return None
