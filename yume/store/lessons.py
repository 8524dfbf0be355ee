"""Reads and writes `lessons` and `lesson_sets`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from yume.domain.lessons import Draft, Lesson, Origin, Quote, State
from yume.domain.projection import TOKEN_COUNTER
from yume.domain.rounds import Compiled
from yume.ids import DreamId, LessonId, LessonSetId, SeriesId, SignalId
from yume.store import queries

if TYPE_CHECKING:
    import asyncpg

    from yume.store.database import Db

SQL: Final = queries.load("lessons.sql")


@dataclass(frozen=True, slots=True)
class LessonSet:
    """A compiled snapshot: `text` is what the slot gets, `body` what "the same" is judged by."""

    id: LessonSetId
    version: int
    lesson_ids: Sequence[LessonId]
    body: str
    body_sha256: str
    text: str
    text_sha256: str
    tokens: int
    dream_id: DreamId | None


async def add_drafts(
    db: Db,
    series: SeriesId,
    dream: DreamId,
    drafts: Sequence[Draft],
    *,
    origin: Origin,
    written_by: str,
    now: datetime,
) -> None:
    """Stage drafts; a draft that is there already is left as it is."""
    born = [
        {"from": None, "to": "draft", "by": f"yume:{written_by}", "why": "drafted", "at": now.isoformat()}
    ]
    await db.execute(
        SQL["add_lessons"],
        series,
        dream,
        written_by,
        origin,
        born,
        [each.id for each in drafts],
        [each.id for each in drafts],
        [1 for _ in drafts],
        [each.symptom for each in drafts],
        [each.root_cause for each in drafts],
        [each.rule for each in drafts],
        [each.category for each in drafts],
        [each.scope for each in drafts],
        [each.advice for each in drafts],
        [each.confidence for each in drafts],
        [json.dumps({"category": each.category, "fingerprints": list(each.fingerprints)}) for each in drafts],
        [_array(each.evidence) for each in drafts],
        [
            json.dumps([{"signal_id": str(quote.signal_id), "text": quote.text} for quote in each.quotes])
            for each in drafts
        ],
        [each.trust for each in drafts],
        [_array(()) for _ in drafts],
    )


async def lessons_in(db: Db, series: SeriesId, *states: State) -> list[Lesson]:
    """Return the series' lessons that are in one of the states."""
    return [_lesson(row) for row in await db.fetch(SQL["lessons_in"], series, list(states))]


async def lessons_by_id(db: Db, series: SeriesId, lessons: Iterable[LessonId]) -> dict[LessonId, Lesson]:
    """Return those of the lessons that the series has."""
    found = [_lesson(row) for row in await db.fetch(SQL["lessons_by_id"], series, list(lessons))]
    return {lesson.id: lesson for lesson in found}


async def drafts_by_id(db: Db, series: SeriesId, lessons: Iterable[LessonId]) -> dict[LessonId, Draft]:
    """Return the lessons as they were drafted, whatever state they are in now."""
    found = [
        _draft(row) for row in await db.fetch(SQL["lessons_by_id"], series, list(lessons)) if row["trust"]
    ]
    return {draft.id: draft for draft in found}


async def move(
    db: Db, lesson: LessonId, source: State, target: State, *, by: str, why: str, now: datetime
) -> bool:
    """Move a lesson to another state and record it; False if it was no longer in `source`."""
    entry = {"from": source, "to": target, "by": by, "why": why, "at": now.isoformat()}
    return str(await db.execute(SQL["move"], lesson, source, target, [entry])) == "UPDATE 1"


async def archive_drafts(db: Db, dream: DreamId, *, by: str, why: str, now: datetime) -> None:
    """Put aside what a dream drafted and nobody has decided on."""
    entry = {"from": "draft", "to": "archived", "by": by, "why": why, "at": now.isoformat()}
    await db.execute(SQL["archive_drafts"], dream, [entry])


async def add_owners_rule(
    db: Db, lesson: LessonId, series: SeriesId, rule: str, *, by: str, why: str, now: datetime
) -> None:
    """Keep a person's own rule."""
    born = [{"from": None, "to": "approved", "by": by, "why": why, "at": now.isoformat()}]
    await db.execute(SQL["add_owners_rule"], lesson, series, rule, by, born)


async def moved_since(db: Db, series: SeriesId, since: datetime, *, but_at: datetime) -> bool:
    """Say whether a lesson came to be approved, or ceased to be, after an instant and not just at another."""
    return bool(await db.fetchval(SQL["moved_since"], series, since, but_at))


async def newest_set(db: Db, series: SeriesId) -> LessonSet | None:
    """Return the series' newest compiled set, written or not."""
    return _set(await db.fetchrow(SQL["newest_set"], series))


async def set_by_id(db: Db, lesson_set: LessonSetId) -> LessonSet | None:
    """Return one compiled set."""
    return _set(await db.fetchrow(SQL["set_by_id"], lesson_set))


async def set_numbered(db: Db, series: SeriesId, version: int) -> LessonSet | None:
    """Return a series' set by its version."""
    return _set(await db.fetchrow(SQL["set_numbered"], series, version))


async def set_with_text(db: Db, series: SeriesId, text_sha256: str) -> LessonSet | None:
    """Return the set whose text has this hash: how Yume knows its own text in a slot."""
    return _set(await db.fetchrow(SQL["set_with_text"], series, text_sha256))


async def add_set(
    db: Db,
    lesson_set: LessonSetId,
    series: SeriesId,
    compiled: Compiled,
    *,
    parent: LessonSetId | None,
    gate: Any = None,
    dream: DreamId | None = None,
    now: datetime,
) -> None:
    """Keep a compiled text for good."""
    await db.execute(
        SQL["add_set"],
        lesson_set,
        series,
        compiled.version,
        parent,
        list(compiled.lesson_ids),
        compiled.to_json()["left_out"],
        compiled.body,
        compiled.body_sha256,
        compiled.text,
        compiled.text_sha256,
        compiled.tokens,
        TOKEN_COUNTER,
        gate,
        dream,
        now,
    )


def _lesson(row: asyncpg.Record) -> Lesson:
    return Lesson(
        id=row["id"],
        lineage_id=row["lineage_id"],
        revision=row["revision"],
        origin=row["origin"],
        state=row["state"],
        symptom=row["symptom"],
        root_cause=row["root_cause"],
        rule=row["rule"],
        category=row["category"],
        scope=row["scope"],
        evidence=tuple(row["evidence"]),
        quotes=_quotes(row),
        trust=row["trust"],
        fingerprints=tuple(row["target"].get("fingerprints", ())),
        confidence=row["confidence"],
    )


def _draft(row: asyncpg.Record) -> Draft:
    return Draft(
        id=row["id"],
        symptom=row["symptom"],
        root_cause=row["root_cause"],
        rule=row["rule"],
        category=row["category"],
        scope=row["scope"],
        evidence=tuple(row["evidence"]),
        quotes=_quotes(row),
        trust=row["trust"],
        confidence=row["confidence"],
        fingerprints=tuple(row["target"].get("fingerprints", ())),
        advice=row["advice"],
    )


def _quotes(row: asyncpg.Record) -> tuple[Quote, ...]:
    return tuple(Quote(SignalId(UUID(each["signal_id"])), each["text"]) for each in row["quotes"])


def _set(row: asyncpg.Record | None) -> LessonSet | None:
    return None if row is None else LessonSet(**dict(row))


def _array(ids: Iterable[Any]) -> str:
    return "{" + ",".join(str(each) for each in ids) + "}"
