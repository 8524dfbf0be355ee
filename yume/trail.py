"""The way from a lesson down to the task it was learnt from, and whether it still holds."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from yume.clients.archive import LostEvidence
from yume.domain.lessons import Lesson
from yume.domain.pointers import resolve
from yume.domain.signals import Signal
from yume.errors import PermanentError
from yume.ids import LessonId, SeriesId
from yume.resources import Resources
from yume.store import evidence, lessons
from yume.store.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Stop:
    """One piece of evidence; each check compares what is stored with the archived bytes."""

    signal: Signal
    task: str
    run: str
    raw_key: str
    raw_sha256: str
    quotes: tuple[str, ...]
    lines: str
    bytes_unchanged: bool
    excerpt_found: bool
    quotes_found: bool

    @property
    def holds(self) -> bool:
        """Whether every check of this stop came out well."""
        return self.bytes_unchanged and self.excerpt_found and self.quotes_found


@dataclass(frozen=True, slots=True)
class Trail:
    """A lesson and all of its evidence."""

    lesson: Lesson
    stops: tuple[Stop, ...]

    @property
    def holds(self) -> bool:
        """Whether the lesson leads to real tasks: there is evidence, and all of it checks out."""
        return bool(self.stops) and all(stop.holds for stop in self.stops)

    def to_json(self) -> Mapping[str, object]:
        """Return the trail for programs."""
        return {
            "lesson": str(self.lesson.id),
            "rule": self.lesson.rule,
            "holds": self.holds,
            "evidence": [
                {
                    "signal": str(stop.signal.id),
                    "kind": stop.signal.kind,
                    "source_class": stop.signal.source_class,
                    "pointer": stop.signal.pointer.path,
                    "lines": [stop.signal.pointer.first_line, stop.signal.pointer.last_line],
                    "quotes": list(stop.quotes),
                    "run": stop.run,
                    "task": stop.task,
                    "raw_key": stop.raw_key,
                    "raw_sha256": stop.raw_sha256,
                    "holds": stop.holds,
                }
                for stop in self.stops
            ],
        }


async def follow(series: SeriesId, lesson_id: LessonId, resources: Resources) -> Trail | None:
    """Follow a lesson of a series to the raw records; None if the series has no such lesson."""
    async with resources.db.acquire() as db:
        lesson = (await lessons.lessons_by_id(db, series, [lesson_id])).get(lesson_id)
        found = await evidence.trail_of(db, lesson_id)
    if lesson is None:
        return None
    return Trail(lesson, tuple([await _stop(lesson, each, resources) for each in found]))


async def _stop(lesson: Lesson, found: Evidence, resources: Resources) -> Stop:
    signal = found.signal
    raw, lines = await _evidence(found, resources)
    quotes = tuple(quote.text for quote in lesson.quotes if quote.signal_id == signal.id)
    return Stop(
        signal=signal,
        task=signal.task_id,
        run=str(signal.run_id),
        raw_key=found.raw_key,
        raw_sha256=found.signal_raw_sha256,
        quotes=quotes,
        lines=lines,
        bytes_unchanged=hashlib.sha256(raw).hexdigest() == found.signal_raw_sha256,
        excerpt_found=lines.startswith(signal.excerpt),
        quotes_found=all(quote in lines for quote in quotes),
    )


async def _evidence(found: Evidence, resources: Resources) -> tuple[bytes, str]:
    """Return the archived bytes and the lines at the pointer; what is lost is empty, and fails its checks."""
    try:
        raw = await resources.archive.get(found.raw_key)
    except LostEvidence:
        return b"", ""
    try:
        return raw, await asyncio.to_thread(resolve, raw, found.signal.pointer)
    except PermanentError:
        return raw, ""
