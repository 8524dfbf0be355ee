"""S5: say what becomes of the drafts beside the lessons that stand. Asks the model; code checks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from yume.asking import merge_drafts
from yume.clients.model import usage_of
from yume.domain.dreams import Dream
from yume.domain.lessons import Lesson
from yume.domain.merging import strength
from yume.events import RunBatch
from yume.ids import DreamId
from yume.prompts import merge
from yume.resources import Resources
from yume.store import dreams, lessons

if TYPE_CHECKING:
    from yume.store.database import Db

log = structlog.get_logger()

STEP: Final = "s5_merge"


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Keep typed operations on the dream's row; nothing is approved or removed here."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        staged = await lessons.drafts_by_id(db, dream.series.id, dream.draft_ids or ())
        drafts = sorted(staged.values(), key=strength)
        standing = await _standing(db, dream)

    language, named = dream.series.language, dream.names_drafts
    made = await merge_drafts(drafts, standing, resources.model, language=language, dream=named)
    if made.refused:
        log.warning("operations_refused", codes=sorted(made.refused))

    async with resources.db.acquire() as db, db.transaction():
        usage = {STEP: usage_of(resources.model, made.answers)}
        now = resources.now()
        counters = {"operations": len(made.operations)}
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters, usage=usage)
        written_by = f"{resources.model.name}:{merge.VERSION}"
        await lessons.add_drafts(
            db, dream.series.id, dream.id, made.texts, origin="dream", written_by=written_by, now=now
        )
        proposed = [each.to_json() for each in made.operations]
        await dreams.save_operations(db, dream.id, proposed, (each.id for each in standing))


async def _standing(db: Db, dream: Dream) -> list[Lesson]:
    """Return what stands: now, or as the original of a replay that only shows has seen it."""
    if dream.dry and dream.standing_ids is not None:
        return list((await lessons.lessons_by_id(db, dream.series.id, dream.standing_ids)).values())
    return await lessons.lessons_in(db, dream.series.id, "approved")
