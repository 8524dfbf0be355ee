"""What GitHub's runner says in a log: errors anywhere in it, and never that a job succeeded.

"Cleaning up orphan processes" ends the logs of jobs that failed too, and of those that failed without a word
(a step in a container), so it proves nothing. An error is a failure if no step began after it. If one did,
the job may have been told to go on after errors: its end is open. So it is after an error that only marks a
place in a file. `gh run view --log` puts several jobs in one log: one that failed fails them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from yume.importers.ci_endings import (
    CANCELLED,
    ENDED,
    LOST,
    SHUT_DOWN,
    TIMED_OUT,
    Line,
    Said,
    plain,
    word,
)
from yume.importers.records import FAILED

_JOBS: Final = 1_000  # told apart in one log
_LINE_SHOWN: Final = 4_000  # bytes of a line that are looked at
_WORDS: Final = re.compile(
    rb"##\[(?:error\]|group\]Run )|Cleaning up orphan processes|Current runner version:"
)
_RUNNER: Final = re.compile(r"^Current runner version:|^Cleaning up orphan processes$")
# In the order in which they count where a job has several: who stops a runner has its steps fail as well.
_ERRORS: Final = (
    word(r"^##\[error\]The runner has received a shutdown signal", ENDED, SHUT_DOWN),
    word(r"^##\[error\].*\blost communication with the server", ENDED, LOST),
    word(r"^##\[error\]The job .*has exceeded the maximum execution time", FAILED, TIMED_OUT),
    word(r"^##\[error\]The operation was canceled\.$", CANCELLED),
    word(r"^##\[error\]", FAILED),
)
# A place in a file: marked in a tool's output, whether or not the tool then failed.
_MARKED: Final = re.compile(r"^##\[error\]\s*\S+?(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\)):? ")
_STEP_FAILED: Final = len(_ERRORS) - 1


@dataclass(slots=True)
class Job:
    """A job: its first error of each kind, and whether one was seen that may not have failed it."""

    errors: dict[int, Said] = field(default_factory=dict)
    is_open: bool = False

    def take(self, text: str) -> None:
        """Take a line that may be the runner's."""
        if text.startswith("##[group]Run "):
            self.is_open |= self.errors.pop(_STEP_FAILED, None) is not None
        elif _MARKED.match(text):
            self.is_open = True
            return
        for rank, (pattern, ending) in enumerate(_ERRORS):
            if pattern.match(text):
                self.errors.setdefault(rank, (ending, text))
                return

    @property
    def ended(self) -> tuple[int, Said] | None:
        """Return how it ended with the rank of the word that says so, if one does."""
        return min(self.errors.items(), default=None)


class Runner:
    """The runner's words in a log, which is shown to it in pieces of whole lines."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.is_here = False  # it ran the job, and no other CI system did
        self.is_done = False

    def watch(self, lines: bytes) -> None:
        """Look for its words."""
        end = 0
        for found in _WORDS.finditer(lines):
            if found.start() < end:
                continue  # in a line that was taken
            start, end = _line_around(lines, found.start())
            self.take(plain(lines[start : min(end, start + _LINE_SHOWN)].decode("utf-8", "replace")))

    def take(self, line: Line) -> None:
        """Take one line."""
        if _RUNNER.match(line.text):
            self.is_here = True
            self.is_done |= line.text.startswith("Cleaning")
        name = line.job if line.job in self.jobs or len(self.jobs) < _JOBS else ""
        self.jobs.setdefault(name, Job()).take(line.text)

    @property
    def said(self) -> Said | None:
        """Return what it says of the end of all jobs, if anything."""
        return _worst(ended for job in self.jobs.values() if (ended := job.ended))

    @property
    def is_cut_off(self) -> bool:
        """Tell whether its last line is missing."""
        return self.is_here and not self.is_done

    @property
    def is_open(self) -> bool:
        """Tell whether an error was seen that may not have failed its job."""
        return any(job.is_open for job in self.jobs.values())


def _worst(endings: Iterable[tuple[int, Said]]) -> Said | None:
    """Of several jobs' ends one that failed by itself comes first, for the others may have been stopped."""
    ranked = sorted(endings, key=lambda ended: (ended[1][0].status != FAILED, ended[0]))
    return ranked[0][1] if ranked else None


def _line_around(lines: bytes, at: int) -> tuple[int, int]:
    start = max(lines.rfind(b"\n", 0, at), lines.rfind(b"\r", 0, at)) + 1
    ends = [end for sign in (b"\n", b"\r") if (end := lines.find(sign, at)) >= 0]
    return start, min(ends, default=len(lines))
