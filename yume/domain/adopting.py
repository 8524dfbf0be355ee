"""What an owner's slot text holds already, as rules: it is taken over before Yume writes there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from yume.domain.guard import scan
from yume.domain.lessons import RULE_LIMIT
from yume.domain.text import raw_lines
from yume.errors import PermanentError

SHOWN_FAULTS: Final = 10

_MARKER: Final = re.compile(r"(?:[-*]|\d{1,3}\.)(?:\s+|$)|\u2022\s*")
_HEADING: Final = re.compile(r"#{1,6}\s+(.*?)(?:\s+#+)?")
_FENCE: Final = re.compile(r"(?:`{3,}|~{3,})\s*\w*")
_SENTENCE_END: Final = re.compile(
    r"`[^`]*`"  # a command is not cut, whatever stands in it
    r"|(?<!e\.g)(?<!i\.e)[.!?]+[)\"'\u2019\u201d]*(?=\s)"
    r"|[\u3002\uff01\uff1f]+[\uff09\u2019\u201d\u300d\u300f]*"
)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line that says something, without its marker; `number` counts from 1."""

    number: int
    text: str
    is_heading: bool


def rules_of(text: str) -> list[str]:
    """Return the rules of a text in its order: one for each line that says something, each only once.

    Headings are rules only where there is nothing else. A line over the limit is cut between sentences.
    Raises PermanentError with the lines that have to be edited first, or where there is no rule at all.
    """
    faults = [*_blocked(text)]
    lines = [*_telling(text)]
    kept = [line for line in lines if not line.is_heading] or lines
    rules: list[str] = []
    for line in kept:
        pieces = _pieces(line.text)
        faults += [
            f"line {line.number} has a sentence of {len(piece)} characters, {RULE_LIMIT} are allowed"
            for piece in pieces
            if len(piece) > RULE_LIMIT
        ]
        rules += pieces
    if faults:
        raise PermanentError(f"the slot's text cannot be adopted, edit it first: {_listed(faults)}")
    if not rules:
        raise PermanentError("the slot's text holds no rule: there is nothing to adopt")
    return list(dict.fromkeys(rules))


def _blocked(text: str) -> Iterator[str]:
    for number, line in enumerate(raw_lines(text), start=1):
        scanned = scan(line)
        if scanned.verdict == "block":
            yield f"line {number} holds {', '.join(scanned.reasons)}"


def _telling(text: str) -> Iterator[_Line]:
    """Yield the lines that hold more than markup."""
    for number, line in enumerate(raw_lines(text), start=1):
        stripped = line.strip()
        heading = _HEADING.fullmatch(stripped)
        marker = _MARKER.match(stripped)
        said = heading[1] if heading else stripped[marker.end() :] if marker else stripped
        if any(map(str.isalnum, said)) and not _FENCE.fullmatch(said):
            yield _Line(number, said, is_heading=heading is not None)


def _pieces(text: str) -> list[str]:
    """Cut a text over the limit between sentences, into as few pieces within the limit as that allows."""
    pieces: list[str] = []
    begin = end = 0
    for stop in sorted({*_sentence_ends(text), len(text)}):
        if len(text[begin:stop].strip()) > RULE_LIMIT and end > begin:
            pieces.append(text[begin:end].strip())
            begin = end
        end = stop
    return [*pieces, text[begin:].strip()]


def _sentence_ends(text: str) -> list[int]:
    return [found.end() for found in _SENTENCE_END.finditer(text) if not found[0].startswith("`")]


def _listed(faults: list[str]) -> str:
    more = len(faults) - SHOWN_FAULTS
    return "; ".join(faults[:SHOWN_FAULTS]) + (f"; and {more} more" if more > 0 else "")
