"""S4: draft a lesson for each failure that one can be learnt from, with its evidence. Asks the model."""

from __future__ import annotations

from typing import Final

import structlog

from yume.asking import draft_lessons
from yume.clients.model import usage_of
from yume.domain.lessons import learnable
from yume.domain.signals import groups
from yume.events import RunBatch
from yume.ids import DreamId
from yume.prompts import draft
from yume.resources import Resources
from yume.store import access, dreams, evidence, lessons

log = structlog.get_logger()

STEP: Final = "s4_draft"


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Stage drafts; the same draft of the same dream is one row."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        taxonomy = await access.taxonomy_of(db, dream.taxonomy_id)
        signals = await evidence.signals_of(db, dream.evidence_ids, taxonomy.id)

    teachable = [group for group in groups(signals) if learnable(group, taxonomy)]
    language, named = dream.series.language, dream.names_drafts
    made = await draft_lessons(teachable, resources.model, language=language, dream=named)
    if made.refused:
        log.warning("drafts_refused", codes=sorted(made.refused))

    async with resources.db.acquire() as db, db.transaction():
        counters = {"drafts": len(made.drafts), "drafts_refused": len(made.refused)}
        usage = {STEP: usage_of(resources.model, made.answers)}
        now = resources.now()
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters, usage=usage)
        await dreams.save_drafts(db, dream.id, (each.id for each in made.drafts))
        await lessons.add_drafts(
            db,
            dream.series.id,
            dream.id,
            made.drafts,
            origin="dream",
            written_by=f"{resources.model.name}:{draft.VERSION}",
            now=now,
        )
