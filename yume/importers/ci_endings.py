"""How a log ended, by its own words alone.

The first of these that speaks decides:

1. The CI system's closing word: "Finished: SUCCESS" (Jenkins), "Job succeeded" (GitLab), "Done. Your build
   exited with 0." (Travis). It stands among the last lines, and the last such word counts.
2. GitHub's runner (ci_github.py), wherever in the log it speaks; within its logs the closing words of another
   system are a tool's. It never says that a job succeeded, and an error that need not have failed the job
   leaves the end open.
3. The last line in which a tool says how it ended: Maven, Gradle, Ant, make, npm, pytest, or an exit code as
   the very last line. Where one of GitHub's steps began after it, it says nothing. A failure counts with a
   few dozen lines of talk behind it; a success only where nothing follows but the tool's own closing words
   and the runner's tidying. Where GitHub's runner came to its end without an error, no tool's failure counts
   (`make || true` passes). Where a log holds several jobs, or a CI system opened it and did not close it, so
   that it was cut off, no tool's success counts.

What none of them says is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from yume.domain.text import clean
from yume.importers.records import FAILED, SUCCEEDED

CANCELLED: Final = "cancelled"
ENDED: Final = "ended"
TIMED_OUT: Final = "timed out: the time limit was reached"
BROKE: Final = "infrastructure failure: the runner could not do the job"
SHUT_DOWN: Final = "the runner was shut down"
LOST: Final = "lost communication with the runner"

_OPENING_LINES: Final = 100  # the first ones, in which a CI system opens its log
_OPENING: Final = re.compile(
    r"^(?:Started by |Running as SYSTEM$|\[Pipeline\] Start of Pipeline"
    r"|Running with gitlab-runner |travis_fold:start)"
)
_CLOSING_LINES: Final = 20  # the last ones that are not blank, in which a CI system closes its log
_TALKING_LINES: Final = 60  # that a tool may say after its failure: Maven explains itself at length
_LINE_CHARS: Final = 4_000  # of a line that are looked at
_COLUMNS: Final = re.compile(r"^[^\t]{1,300}\t[^\t]{1,300}\t\ufeff?(?=\d{4}-\d\d-\d\dT)")  # gh run view --log
_STAMP: Final = re.compile(
    r"^\[?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:([.,]\d{1,6})\d*)?(Z|[+-]\d\d:?\d\d)?\]?(?:\s|$)"
    r"(?:[0-9a-f]{2}[OE][ +])?"  # GitLab's stream
)
_CLOCK: Final = re.compile(r"^\[?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\]?\s+")
_STEP: Final = re.compile(r"^##\[group\]Run ")
_TIDYING: Final = re.compile(r"^Post job cleanup\.$|^Cleaning up (?:orphan processes|project directory)")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a log ended: a status of the contract, and a reason where the job was not the one to blame."""

    status: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its colours and the time before it, and the job that `gh` names in a column."""

    text: str
    at: str | None = None
    job: str = ""


Said = tuple[Ending, str]
Word = tuple[re.Pattern[str], Ending]


def word(pattern: str, status: str, reason: str | None = None) -> Word:
    """Say what a line of a pattern means."""
    return re.compile(pattern), Ending(status, reason)


_PYTEST: Final = (  # its last line
    r"^(?:=+ )?(?=.*\b\d+ {}\b)\d+ \w+(?: \w+)?(?:, \d+ \w+(?: \w+)?)* "
    r"in \d+(?:\.\d+)?s(?: \(\d+:\d\d:\d\d\))?(?: =+)?$"
)

CLOSING: Final = (
    word(r"^Finished: SUCCESS$", SUCCEEDED),
    word(r"^Finished: (?:FAILURE|UNSTABLE)$", FAILED),
    word(r"^Finished: ABORTED$", CANCELLED),
    word(r"^Finished: NOT_BUILT$", ENDED, "not run: the job was not built"),
    word(r"^Done\. Your build exited with 0\.?$", SUCCEEDED),
    word(r"^Done\. Your build exited with -?[1-9]\d*\.?$", FAILED),
    word(r"^Your build has been stopped\.?$", FAILED),
    word(r"^The job exceeded the maximum time limit for jobs, and has been terminated", FAILED, TIMED_OUT),
    word(r"^Done: Job Cancell?ed$", CANCELLED),
    word(r"^The (?:job|build)\b.{0,100}? cancell?ed\.?$", CANCELLED),
    word(r"^Job succeeded$", SUCCEEDED),
    word(r"^ERROR: Job failed \((?:\w+[ _])?system[ _]failure\)", ENDED, BROKE),
    word(r"^ERROR: Job failed: cancell?ed\b", CANCELLED),
    word(r"^ERROR: Job failed: execution took longer than\b", FAILED, TIMED_OUT),
    word(r"^ERROR: Job failed(?:$|:| \()", FAILED),
)
TOOLS: Final = (
    word(r"^\[(?:ERROR|INFO)\] BUILD FAILURE$", FAILED),
    word(r"^\[INFO\] BUILD SUCCESS$", SUCCEEDED),
    word(r"^BUILD FAILED(?: in \d.{0,40})?$", FAILED),  # Gradle, Ant
    word(r"^BUILD SUCCESSFUL(?: in \d.{0,40})?$", SUCCEEDED),
    word(r"^(?:g|nt|mingw32-)?make: \*\*\* .*(?:\bError -?\d+|Stop\.)", FAILED),
    word(r"^npm (?:ERR!|error)(?: |$)", FAILED),
    word(_PYTEST.format(r"(?:failed|errors?)"), FAILED),
    word(_PYTEST.format("passed"), SUCCEEDED),
)
# After pytest's summary of tests that passed it fails all the same.
_SPOILT: Final = re.compile(r"^!{3,} |^(?:FAIL Required test coverage|ERROR: Coverage failure)")
_SPOILING_LINES: Final = 10
# What Maven, Gradle and Ant say after their success.
_AFTERWARDS: Final = re.compile(
    r"^\[INFO\](?: -+| Total time: .*| Finished at: .*| Final Memory: .*)?$|^\[WARNING\]"
    r"|^\d+ actionable tasks?: |^Total time: |^Configuration cache entry |^[-=]+$"
)
_EXIT_CODE: Final = re.compile(
    r"^(?:\+ exit |exit ?(?:code|status)(?: ?[:=] ?| )|"
    r"(?:(?:error:? )?(?:[^:]{0,200}\b)?(?:process|command|script|job|program)\b.{0,200}? )?"
    r"(?:completed|finished|exited|failed|terminated|returned) "
    r"(?:with (?:exit )?(?:code |status )?|(?:exit )?(?:code |status ))(?:exit status )?)"
    r"'?(-?\d{1,10})'?\.?$",
    re.IGNORECASE,
)


def plain(raw: str) -> Line:
    """Take a line's colours, its time and the columns of `gh run view --log` away."""
    text, job, at = clean(raw[:_LINE_CHARS]).lstrip("\ufeff"), "", None
    if columns := _COLUMNS.match(text):
        job, text = text.partition("\t")[0], text[columns.end() :]
    if stamp := _STAMP.match(text):
        day, fraction, zone = stamp.groups("")
        at, text = day + fraction.replace(",", ".") + zone, text[stamp.end() :]
    elif clock := _CLOCK.match(text):
        text = text[clock.end() :]
    return Line(clean(text).strip(), at, job)


def opened(text: str) -> bool:
    """Tell from a log's start whether a CI system opened it that closes its logs with a word."""
    start = text[: _OPENING_LINES * 200].splitlines()[:_OPENING_LINES]
    return any(_OPENING.match(plain(line).text) for line in start)


def closed(texts: list[str]) -> Said | None:
    """Return the CI system's closing word; the last of several."""
    return next((said for text in reversed(texts[-_CLOSING_LINES:]) if (said := _said(text, CLOSING))), None)


def told(texts: list[str]) -> Said | None:
    """Return how the last tool that tells so ended, from a log's last lines that are not blank."""
    texts = _without_tidying(texts)
    if texts and (code := _EXIT_CODE.match(texts[-1])):
        return Ending(FAILED if int(code[1]) else SUCCEEDED), texts[-1]
    for number in range(len(texts) - 1, -1, -1):
        if _STEP.match(texts[number]):
            return None
        if said := _said(texts[number], (*CLOSING, *TOOLS)):
            return said if _counts(said, texts, number) else None
    return None


def _counts(said: Said, texts: list[str], number: int) -> bool:
    after = texts[number + 1 :]
    if said[0].status != SUCCEEDED:
        return len(after) <= _TALKING_LINES
    before = texts[max(0, number - _SPOILING_LINES) : number]
    return all(map(_AFTERWARDS.match, after)) and not any(map(_SPOILT.match, before))


def _without_tidying(texts: list[str]) -> list[str]:
    """Leave out what a runner does when the job's own steps are over."""
    begins = next((number for number, text in enumerate(texts) if _TIDYING.match(text)), len(texts))
    return texts[:begins]


def _said(text: str, words: tuple[Word, ...]) -> Said | None:
    return next(((ending, text) for pattern, ending in words if pattern.search(text)), None)
