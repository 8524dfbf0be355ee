"""Which passages of an attempt's log tell what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from yume.domain.excerpts import Passage, Rows, is_informative, is_lesson_line, looked_at, message, strength
from yume.domain.fingerprints import fingerprint
from yume.domain.runs import LOG_KINDS, Event

PER_ATTEMPT: Final = 5
SCANNED_LINES: Final = 100_000  # of an attempt's log, from its end, where failures lie
_BLOCK_LINES: Final = 40
_PLAIN: Final = 2
_HEADLINES: Final = 1_000  # compared with one another
_DIGITS: Final = re.compile(r"\d+")
_CONTINUES: Final = re.compile(
    r"^(?:\s+\S|at\s|\.\.\.\s\d+\smore|caused\sby|during\shandling|the\sabove\sexception"
    r"|[|>^~]|\d+\s*\||-->|e\s{2,}|\+\s|-\s)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LogError:
    """A passage of an event's text; `headline` is its plainest line."""

    event: Event
    passage: Passage
    headline: str
    strength: int


def log_errors(events: Iterable[Event], lesson: frozenset[str]) -> list[LogError]:
    """Find the log's passages about errors, different ones only: the last of the plainest."""
    distinct: dict[str, LogError] = {}
    heard: set[str] = set()
    for error in _from_the_end(events, lesson):
        alike = _DIGITS.sub("", error.headline)
        if alike in heard or len(heard) == _HEADLINES:
            continue
        heard.add(alike)
        distinct.setdefault(fingerprint(error.headline), error)
        if sum(known.strength == _PLAIN for known in distinct.values()) == PER_ATTEMPT:
            break
    plainest = max((error.strength for error in distinct.values()), default=0)
    kept = [error for error in distinct.values() if error.strength == plainest]
    return sorted(kept, key=_position)[-PER_ATTEMPT:]


def _position(error: LogError) -> tuple[int, int]:
    return error.event.index, error.passage.first


def _from_the_end(events: Iterable[Event], lesson: frozenset[str]) -> Iterator[LogError]:
    room = SCANNED_LINES
    for event in reversed([event for event in events if event.kind in LOG_KINDS]):
        if room <= 0:
            return
        seen = looked_at(event.source[1], room)
        room -= len(seen.lines)
        for first, last in reversed(_blocks(seen, lesson)):
            plainest = max(range(first, last + 1), key=lambda place: strength(seen.lines[place]))
            headline = seen.lines[plainest]
            start = seen.start_with(plainest, first)
            yield LogError(event, seen.passage(start, last), headline, strength(headline))


def _blocks(seen: Rows, lesson: frozenset[str]) -> list[tuple[int, int]]:
    """Find runs of lines about an error, with the lines that belong to them."""
    blocks: list[tuple[int, int]] = []
    free_from = 0
    for place, row in enumerate(seen.lines):
        if place >= free_from and strength(row) and _is_usable(row, lesson):
            blocks.append((place, _foot(seen.lines, place, lesson)))
            free_from = blocks[-1][1] + 1
    return blocks


def _foot(rows: Sequence[str], place: int, lesson: frozenset[str]) -> int:
    """Go on while lines are about the error or continue it; one blank line may lie between two errors."""
    last = place
    for ahead in range(place + 1, min(len(rows), place + _BLOCK_LINES)):
        row = rows[ahead]
        if (strength(row) or _CONTINUES.search(message(row))) and _is_usable(row, lesson):
            last = ahead
        elif message(row).strip() or ahead - last > 1:
            break
    return last


def _is_usable(row: str, lesson: frozenset[str]) -> bool:
    return is_informative(row) and not is_lesson_line(row, lesson)
