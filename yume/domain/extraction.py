"""Which pieces of a record are evidence of its failures: S2's rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from yume.domain import pieces
from yume.domain.excerpts import is_informative, lesson_lines, strength
from yume.domain.failing import has_failed
from yume.domain.fingerprints import fingerprint
from yume.domain.runs import Record, events_by_attempt
from yume.domain.signals import Found

EXTRACTOR_VERSION: Final = "1"
LOOP_ATTEMPTS: Final = 3
LOG_ERRORS: Final = 200  # of one record
_TELLING_LINES: Final = 3  # of a text: what follows them is consequence


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt's evidence; `key` is the piece whose words name the error, if any does."""

    found: tuple[Found, ...]
    key: Found | None
    fingerprint: str


def extract(record: Record, *, injected: str | None) -> list[Found]:
    """Find the evidence of every failed attempt, and what made it good.

    Lines of the injected lesson text are no evidence. All pieces of one failed attempt carry the
    fingerprint of its failure, so a group by fingerprint holds all evidence of the same failure.
    """
    lesson = lesson_lines(injected)
    events = events_by_attempt(record)
    failures = [
        _failure(pieces.Case(record, attempt, events, lesson))
        for attempt in record.attempts
        if has_failed(record, attempt, events[attempt.index])
    ]
    found = [piece for failure in failures for piece in failure.found]
    if not record.attempts:
        found = _unattempted(record, lesson)
    return [*_bounded(found), *_loops(failures)]


def _failure(case: pieces.Case) -> _Failure:
    reason, verifier, log = pieces.failure_reason(case), pieces.verifier(case), pieces.logged(case)
    found = [
        *pieces.exit_code(case),
        *reason,
        *pieces.timeout(case),
        *verifier,
        *log,
        *pieces.asked(case),
        *pieces.recovery(case),
    ] or [pieces.status(case)]
    named = [piece for piece in verifier if "/verdict_details" in piece.pointer.path][:1] + reason
    said = [_telling(piece) for piece in named]
    if not named and log:
        named = [max(reversed(log), key=lambda piece: strength(headline(piece)))]
        said = [headline(named[0])]
    mark = fingerprint("\n".join(said) if said else f"{found[0].kind} {found[0].excerpt}")
    marked = tuple(replace(piece, fingerprint=mark) for piece in found)
    return _Failure(marked, replace(named[0], fingerprint=mark) if named else None, mark)


def headline(piece: Found) -> str:
    """Return the line of an excerpt that speaks of an error most plainly."""
    return max(piece.excerpt.split("\n"), key=strength)


def _telling(piece: Found) -> str:
    """Return the lines that name the error: of a reason its first, of a verifier some around the plainest."""
    rows = [row for row in piece.excerpt.split("\n") if is_informative(row)] or [piece.excerpt]
    if piece.kind == "failure_reason":
        return rows[0]
    plainest = max(range(len(rows)), key=lambda place: strength(rows[place]))
    start = max(0, min(plainest, len(rows) - _TELLING_LINES))
    return "\n".join(rows[start : start + _TELLING_LINES])


def _loops(failures: Sequence[_Failure]) -> list[Found]:
    """Find errors that three or more attempts ended with, each at the last sight of it."""
    same: defaultdict[str, list[Found]] = defaultdict(list)
    for failure in failures:
        if failure.key:
            same[failure.fingerprint].append(failure.key)
    return [replace(keys[-1], kind="retry_loop") for keys in same.values() if len(keys) >= LOOP_ATTEMPTS]


def _unattempted(record: Record, lesson: frozenset[str]) -> list[Found]:
    """Find a rescue of a task whose attempts nobody recorded."""
    found: list[Found] = []
    for inquiry in record.inquiries:
        talk = pieces.conversation(inquiry, lesson) if inquiry.rescues else []
        found += [replace(piece, fingerprint=fingerprint(_telling(talk[0]))) for piece in talk]
    return found


def _bounded(found: Iterable[Found]) -> list[Found]:
    """Drop the log errors beyond what one record may leave."""
    kept: list[Found] = []
    room = LOG_ERRORS
    for piece in found:
        room -= piece.kind == "log_error"
        if room >= 0 or piece.kind != "log_error":
            kept.append(piece)
    return kept
