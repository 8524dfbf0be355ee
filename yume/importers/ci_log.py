"""Plain logs of CI jobs: each file is a run. Which of its lines says how it ended: see ci_endings.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from yume.domain.text import raw_lines
from yume.errors import PermanentError
from yume.importers.ci_endings import ENDED, Ending, Line, Said, closed, opened, plain, told
from yume.importers.ci_github import Runner
from yume.importers.ci_text import Text, kept
from yume.importers.documents import zoned
from yume.importers.records import FAILED, SUCCEEDED, Imported, Json, Piece, Unread, record
from yume.importers.streams import File, files

NAMES: Final = ("ci-log", "ci-logs", "log")
ABOUT: Final = "plain logs of CI jobs (*.log, *.txt but README, LICENSE and the like): a run for each file"

_JUDGED_LINES: Final = 400  # the last ones, in which a log says how it ended
_SAID_SHOWN: Final = 200
_GENERIC: Final = re.compile(
    r"(?:fail(?:ed|ure)?|pass(?:ed)?|success|log|build|output|console|job)[\d_.-]*", re.IGNORECASE
)
_NAMES: Final = (
    (re.compile(r"(?<![a-z])fail(?!over)", re.IGNORECASE), FAILED),
    (re.compile(r"(?<![a-z])(?:pass(?:ed)?|success)(?![a-z])", re.IGNORECASE), SUCCEEDED),
)
_NO_LOGS: Final = re.compile(
    r"(?:licen[cs]e|copying|notice|read_?me|change(?:s|log)|authors|contributors|requirements|constraints"
    r"|cmakelists|robots)(?:[-_.].*)?\.txt",
    re.IGNORECASE,
)


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read every log; a task is named by its folder where the file's name says only how it ended."""
    for file in _logs(root):
        runner = Runner()
        text = kept(file, runner.watch)
        if text.is_binary:
            share = f"{text.controls:,} of its {text.size:,} bytes are control characters"
            yield Unread(file.name, f"no text: {share}; if it is packed, unpack it first")
        elif text.size:
            yield Imported(file.name, _record(file, text, runner, series))


def _logs(root: Path) -> list[File]:
    found = files(root, "*.log", "*.txt")
    logs = [file for file in found if file.path == root or not _NO_LOGS.fullmatch(file.path.name)]
    if not logs:
        raise PermanentError(f"{root}: no log in it, only {found[0].name}; a log is named *.log or *.txt")
    return logs


def _record(file: File, text: Text, runner: Runner, series: str) -> Json:
    parts = text.parts()
    last = [plain(line) for line in raw_lines(parts[-1][1])[-_JUDGED_LINES:]]
    ended, said = _ended(last, runner, cut_off=opened(parts[0][1])) or _named(file) or (Ending(ENDED), None)
    task = {
        "id": _task_name(file),
        "series_id": series,
        "kind": "ci",
        "status": ended.status,
        "finished_at": next((at for line in reversed(last) if (at := zoned(line.at))), None),
    }
    run = {
        "id": file.name,
        "failure_reason": ended.reason,
        "artifacts": [{"name": file.path.name, "uri": file.name, "sha256": text.sha256, "size": text.size}],
    }
    events = [{"kind": "log", "text": part, "data": {"first_line": line}} for line, part in parts]
    if text.left_out:
        events.insert(1, {"kind": "note", "data": {"bytes_left_out": text.left_out}})
    source = {"ended_by": said and said[:_SAID_SHOWN]}
    return record(task, run, source=source, events=events, finished=file.modified)


def _ended(last: list[Line], runner: Runner, *, cut_off: bool) -> Said | None:
    """Say how a log ended by its own words, in the order that ci_endings.py gives.

    It is `cut_off` if no closing word is found in it.
    """
    texts = [line.text for line in last if line.text]
    if not runner.is_here and (word := closed(texts)):
        return word
    if runner.said or runner.is_open:
        return runner.said
    word = told(texts)
    if word and word[0].status == SUCCEEDED:
        return None if cut_off or runner.is_cut_off or len(runner.jobs) > 1 else word
    return None if runner.is_done else word


def _named(file: File) -> Said | None:
    """Say how a log that does not tell ended by its file's name."""
    words = (status for pattern, status in _NAMES if pattern.search(file.path.stem))
    status = next(words, None)
    return (Ending(status), f"the file's name, {file.path.name}") if status else None


def _task_name(file: File) -> str:
    stem = file.path.stem
    return file.path.resolve().parent.name if _GENERIC.fullmatch(stem) else stem
