"""S5: say what becomes of the drafts beside the lessons that stand. Asks the model; code checks it."""

from __future__ import annotations

from typing import Final

import structlog

from yume.domain.lessons import Draft
from yume.domain.merging import Operation, strength
from yume.events import RunBatch
from yume.ids import DreamId
from yume.prompts import merge
from yume.resources import Resources
from yume.store import dreams, lessons

log = structlog.get_logger()

STEP: Final = "s5_merge"
ITEMS: Final = 20


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Keep typed operations on the dream's row; nothing is approved or removed here."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        drafts = sorted(await lessons.drafts_of(db, dream.id), key=strength)
        standing = await lessons.lessons_in(db, dream.series.id, "approved")

    operations: list[Operation] = []
    texts: list[Draft] = []
    if drafts:
        question = merge.ask(drafts[:ITEMS], standing, language=dream.series.language)
        answer = await resources.model.answer(question, merge.Answer)
        operations, texts, refused = merge.read(answer, drafts[:ITEMS], standing, dream_id=dream.id)
        operations += [
            Operation("add", each.id, (each.id,), (), "not asked about") for each in drafts[ITEMS:]
        ]
        if refused:
            log.warning("operations_refused", codes=sorted(each.code for each in refused))

    async with resources.db.acquire() as db, db.transaction():
        usage = {STEP: {"model": resources.model.name, "calls": 1 if drafts else 0}}
        now = resources.now()
        await dreams.mark_step(db, dream.id, STEP, now, counters={"operations": len(operations)}, usage=usage)
        written_by = f"{resources.model.name}:{merge.VERSION}"
        await lessons.add_drafts(
            db, dream.series.id, dream.id, texts, origin="dream", written_by=written_by, now=now
        )
        await dreams.save_operations(db, dream.id, [each.to_json() for each in operations])
