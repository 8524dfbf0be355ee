"""S7: compile the approved lessons under the token budget; the same lessons give the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from yume.domain.dreams import Dream
from yume.domain.guard import check_bytes
from yume.domain.lessons import content_hash
from yume.domain.projection import project
from yume.errors import PermanentError
from yume.events import RunBatch
from yume.ids import DreamId, LessonId, LessonSetId, derived_id
from yume.resources import Resources
from yume.store import dreams, lessons

if TYPE_CHECKING:
    from yume.store.database import Db

STEP: Final = "s7_compile"


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Add a lesson set, unless its body is the newest one's."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        await _check_gate(db, dream)
        approved = await lessons.lessons_in(db, dream.series.id, "approved")
        newest = await lessons.newest_set(db, dream.series.id)

    version = 1 if newest is None else newest.version + 1
    projection = project(
        approved,
        series=dream.series.external_id,
        version=version,
        budget_tokens=dream.series.projection_budget_tokens,
        language=dream.series.language,
    )
    check_bytes(projection.text)
    changed = bool(projection.body) if newest is None else projection.body_sha256 != newest.body_sha256

    async with resources.db.acquire() as db, db.transaction():
        now = resources.now()
        counters = {"lessons": len(projection.lesson_ids), "left_out": len(projection.left_out)}
        await dreams.mark_step(db, dream.id, STEP, now, counters=counters)
        if changed:
            await lessons.add_set(
                db,
                LessonSetId(derived_id(dream.id, "lesson_set")),
                dream.series.id,
                projection,
                version=version,
                parent=None if newest is None else newest.id,
                gate=dream.gate,
                dream=dream.id,
                now=now,
            )


async def _check_gate(db: Db, dream: Dream) -> None:
    """Refuse to compile what is not what the gate decided on."""
    if dream.gate is None:
        raise PermanentError(f"dream {dream.id} has no gate: S6 has not decided")
    decided = {LessonId(UUID(each["lesson"])): each for each in dream.gate["decisions"]}
    for lesson in (await lessons.lessons_by_id(db, dream.series.id, decided)).values():
        if content_hash(lesson.rule, lesson.evidence) != decided[lesson.id]["content_hash"]:
            raise PermanentError(
                f"lesson {lesson.id} is not the text that the gate of dream {dream.id} decided on"
            )
