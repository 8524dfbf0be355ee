"""Which lines of a long text tell what went wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from yume.domain.text import cap, clean, raw_lines

EXCERPT_CHARS: Final = 2_000
LINE_CHARS: Final = 4_000  # what is looked at of a line; a longer one also ends its passage
_JUDGED_CHARS: Final = 400  # of a line, to tell whether it speaks of an error
_LONG_LESSON_CHARS: Final = 12  # a shorter line may stand in other text by chance
TEXT_LINES: Final = 20_000  # what is looked at of a text that is no log: its last lines

_PREFIX: Final = re.compile(
    r"^\s*\[?(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^\s\]]*|\d\d:\d\d:\d\d(?:[.,]\d+)?)\]?[ \t|]?[ \t]?"
)
_LEVEL_BELOW_ERROR: Final = re.compile(r"^\W*(?:info|debug|trace|note|notice|warn|warning)\b", re.IGNORECASE)
_WORDS: Final = (
    *("error", "exception", "fail", "fatal", "cannot", "can't", "could not", "couldn't", "unable to"),
    *("not found", "no such", "denied", "refused", "undefined", "unresolved", "unexpected", "invalid"),
    *("missing", "timed out", "abort", "killed", "traceback", "panic", "err!", "no space left", "dumped"),
    *("out of memory", "segmentation fault", "exit code", "exit status", "exited with", "\u2717", "\u2718"),
    *("错误", "失败", "异常", "无法", "未找到", "找不到", "不存在", "拒绝", "超时", "不足"),
)
_PYTEST_ERROR: Final = "e  "
_DENIALS: Final = ("0", "no ", "zero", "without", "fast", "pipefail", "没有", "无错误")  # of what is harmless
_STRONG: Final = re.compile(
    r"""
    ^\W*(?:error|fatal|critical|severe|failure|panic|fail(?:ed)?)\b | ^npm\ err | ^e\ {2,}\w
  | (?:error|exception|failure|fatal)(?:\[\w+\])?(?::|\s*$)
  | \b(?:build|tests?|compilation|job|step|command|assertion|checks?)\ (?:has\ |have\ )?failed\b
  | \bexit(?:ed)?\ (?:with\ )?(?:code|status)\ [1-9] | no\ space\ left | \bout\ of\ memory
  | segmentation\ fault | \bcore\ dumped | (?:错误|异常|失败)[:\uff1a]
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HARMLESS: Final = re.compile(
    r"""
    \b(?:0|no|zero|without(?:\ any)?)\ (?:errors?|failures?|failed|exceptions?)\b
  | \b(?:errors?|failures?|failed)\W{1,3}0\b(?!.*\b(?:errors?|failures?|failed)\W{1,3}[1-9]) | \b0\ failed\b
  | \bpipefail\b | \bfail-?fast\b | 0\ ?个?(?:错误|失败) | 没有(?:错误|失败|异常) | 无错误
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BAR: Final = re.compile(
    r"""
    ^\W*\d{1,3}(?:\.\d+)?\ ?%[\W\d]*$
  | \d{1,3}\ ?%.{0,20}?[\#=█▓▒░>·━-]{4,} | [\#=█▓▒░·━]{4,}.{0,20}?\d{1,3}\ ?%
    """,
    re.VERBOSE,
)
_TRANSFERS: Final = (
    *("receiving", "counting", "compressing", "resolving", "writing obj", "enumerating", "unpacking"),
    *("downloading", "downloaded", "uploading", "uploaded", "extracting", "pulling", "fetching"),
    *("remote: count", "remote: compr", "正在下载", "下载中"),
)
_WORD: Final = re.compile(r"\w")
_BULLET: Final = re.compile(r"^(?:[-*•·‣+>]+|\d{1,3}[.)、])\s+")


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines `first` to `last` (from 1) of a text; the excerpt is their cleaned start."""

    first: int
    last: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The lines of a text that are looked at; `offset` lines came before, `overlong` ones were cut."""

    lines: tuple[str, ...]
    offset: int
    overlong: frozenset[int]

    def passage(self, first: int, last: int) -> Passage:
        """Cut the excerpt of lines first to last (from 0); a line that was cut is the last one."""
        last = next((place for place in range(first, last) if place in self.overlong), last)
        excerpt = cap("\n".join(self.lines[first : last + 1]), EXCERPT_CHARS)
        return Passage(self.offset + first + 1, self.offset + last + 1, excerpt)

    def start_with(self, wanted: int, first: int) -> int:
        """Start as early from `first` on as keeps the wanted line well inside an excerpt."""
        start, room = wanted, EXCERPT_CHARS // 2
        while start > first and len(self.lines[start - 1]) < room:
            start -= 1
            room -= len(self.lines[start]) + 1
        return start


def message(line: str) -> str:
    """Take the time off a log line."""
    return _PREFIX.sub("", line)


def strength(line: str) -> int:
    """Tell how much a cleaned line speaks of an error: 2 plainly, 1 perhaps, 0 not at all."""
    return _strength(line[:_JUDGED_CHARS])


@lru_cache(maxsize=10_000)  # a log is judged line by line more than once
def _strength(line: str) -> int:
    lowered = line.lower()
    if not any(word in lowered for word in _WORDS) and not lowered.startswith(_PYTEST_ERROR):
        return 0
    if any(word in lowered for word in _DENIALS) and _HARMLESS.search(line):
        return 0
    said = message(line)
    if _STRONG.search(said):
        return 2
    return 0 if _LEVEL_BELOW_ERROR.search(said) else 1


def is_progress(line: str) -> bool:
    """Tell whether a cleaned line is a progress bar or the news of a transfer."""
    return ("%" in line and bool(_BAR.search(line))) or line.lstrip()[:16].lower().startswith(_TRANSFERS)


def is_informative(line: str) -> bool:
    """Tell whether a cleaned line says anything: not blank, not a ruler, not a progress bar."""
    return bool(_WORD.search(line)) and not is_progress(line)


def bare(line: str) -> str:
    """Take bullets and surrounding space from a line: how lines of an injected lesson are compared."""
    return _BULLET.sub("", clean(line).strip()).strip()


def lesson_lines(injected: str | None) -> frozenset[str]:
    """Return the lines of the injected lesson text that are never evidence."""
    return frozenset(bare(line) for line in raw_lines(injected or "")) - {""}


def looked_at(text: str, most: int = TEXT_LINES) -> Rows:
    """Split a text into the lines that are looked at, its last ones, each cleaned and cut."""
    rows = raw_lines(text)
    offset = max(0, len(rows) - most)
    rows = rows[offset:]
    overlong = frozenset(place for place, row in enumerate(rows) if len(row) > LINE_CHARS)
    return Rows(tuple(clean(row[:LINE_CHARS]) for row in rows), offset, overlong)


def is_lesson_line(line: str, lesson: frozenset[str]) -> bool:
    """Tell whether a line is one of the injected lesson's, or an object of JSON that holds one."""
    if not lesson:
        return False
    if bare(line) in lesson or bare(message(line)) in lesson:
        return True
    unescaped = line.replace('\\"', '"') if line.lstrip()[:1] in {"{", "["} else ""
    return any(len(each) >= _LONG_LESSON_CHARS and each in unescaped for each in lesson)


def passage_of(text: str, lesson: frozenset[str]) -> Passage | None:
    """Find the most telling lines of a text that fit into one excerpt; None if it says nothing."""
    seen = looked_at(text)
    spans = _spans(seen.lines, lesson)
    if not spans:
        return None
    first, last = max(
        spans, key=lambda span: (max(map(strength, seen.lines[span[0] : span[1] + 1])), -span[0])
    )
    return seen.passage(_start(seen.lines, first, last), last)


def _spans(rows: Sequence[str], lesson: frozenset[str]) -> list[tuple[int, int]]:
    """Find runs of usable lines: blanks may lie inside, progress and lesson lines may not."""
    spans: list[tuple[int, int]] = []
    open_at: int | None = None
    for place, row in enumerate(rows):
        if is_progress(row) or is_lesson_line(row, lesson):
            open_at = None
        elif _WORD.search(row):
            if open_at is None:
                open_at = place
                spans.append((place, place))
            spans[-1] = (open_at, place)
    return spans


def _start(rows: Sequence[str], first: int, last: int) -> int:
    """Begin where the span fits, else at its plainest error, else as near the end as fits."""
    if sum(len(row) + 1 for row in rows[first : last + 1]) <= EXCERPT_CHARS:
        return first
    best = max(range(first, last + 1), key=lambda place: (strength(rows[place]), -place))
    if strength(rows[best]):
        return best
    start, room = last, EXCERPT_CHARS - len(rows[last])
    while start > first and len(rows[start - 1]) < room:
        start -= 1
        room -= len(rows[start]) + 1
    return next(place for place in range(start, last + 1) if is_informative(rows[place]))
