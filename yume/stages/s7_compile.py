"""S7: compile the approved lessons under the token budget; the same lessons give the same bytes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from yume.domain.dreams import Dream
from yume.domain.guard import check_bytes
from yume.domain.lessons import content_hash
from yume.domain.rounds import DWELL
from yume.errors import PermanentError
from yume.events import RunBatch
from yume.ids import DreamId, LessonId, LessonSetId, derived_id
from yume.release import Release, next_release, shown_release
from yume.resources import Resources
from yume.store import dreams, lessons

if TYPE_CHECKING:
    from yume.store.database import Db

STEP: Final = "s7_compile"


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Keep the text on the dream's row; add a lesson set only where it is new and may be released."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        await _check_gate(db, dream)
        release = await (shown_release(db, dream) if dream.dry else next_release(db, dream.series))

    check_bytes(release.compiled.text)
    waits = None if dream.forced or not release.changed else release.waits

    async with resources.db.acquire() as db, db.transaction():
        now = resources.now()
        made = release.compiled
        counters = {"lessons": len(made.lesson_ids), "left_out": len(made.left_out)}
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters)
        target = None if dream.dry or waits else await _target(db, dream, release, now)
        over = None if release.base is None else str(release.base.id)
        kept = made.to_json() | {"over": over} | ({} if waits is None else {"waits": waits})
        await dreams.save_compiled(db, dream.id, kept, target, DWELL if waits else None)


async def _target(db: Db, dream: Dream, release: Release, now: datetime) -> LessonSetId | None:
    """Return the set that the slot is to hold: one that says the same already, else a new one."""
    if release.target is not None or not release.changed:
        return None if release.target is None else release.target.id
    made = LessonSetId(derived_id(dream.id, "lesson_set"))
    parent = None if release.base is None else release.base.id
    gate = dream.gate
    await lessons.add_set(
        db, made, dream.series.id, release.compiled, parent=parent, gate=gate, dream=dream.id, now=now
    )
    return made


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
