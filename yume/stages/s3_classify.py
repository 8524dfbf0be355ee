"""S3: say which class of the taxonomy each failure shows. Asks the model what code cannot decide."""

from __future__ import annotations

from typing import Final

from yume.asking import label
from yume.clients.model import usage_of
from yume.domain.signals import groups
from yume.events import RunBatch
from yume.ids import DreamId
from yume.resources import Resources
from yume.store import access, dreams, evidence

STEP: Final = "s3_classify"


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Label the dream's signals; a label that was given stays."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        taxonomy = await access.taxonomy_of(db, dream.taxonomy_id)
        signals = await evidence.signals_of(db, dream.evidence_ids, taxonomy.id)

    found = groups(signals)
    made = await label(found, taxonomy, resources.model, language=dream.series.language)

    async with resources.db.acquire() as db, db.transaction():
        counters = {"groups": len(found), "groups_not_asked": made.not_asked}
        usage = {STEP: usage_of(resources.model, made.answers)}
        now = resources.now()
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters, usage=usage)
        await evidence.save_labels(db, dream.evidence_ids, taxonomy.id, made.labels)
