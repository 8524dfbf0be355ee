"""S4: draft a lesson for each failure that one can be learnt from, with its evidence. Asks the model."""

from __future__ import annotations

from typing import Final

import structlog

from yume.clients.model import Answered, usage_of
from yume.domain.lessons import Draft, learnable
from yume.domain.signals import groups
from yume.events import RunBatch
from yume.ids import DreamId
from yume.prompts import draft
from yume.resources import Resources
from yume.store import access, dreams, evidence, lessons

log = structlog.get_logger()

STEP: Final = "s4_draft"
QUESTIONS: Final = 10  # in one dream; the largest groups come first


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Stage drafts; the same draft of the same dream is one row."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        taxonomy = await access.taxonomy_of(db, dream.taxonomy_id)
        signals = await evidence.signals_of(db, dream.evidence_ids, taxonomy.id)

    teachable = [group for group in groups(signals) if learnable(group, taxonomy)]
    drafts: list[Draft] = []
    refusals: list[str] = []
    answers: list[Answered[draft.Answer]] = []
    for chunk in draft.chunks(teachable)[:QUESTIONS]:
        question = draft.ask(chunk, language=dream.series.language)
        answers.append(answered := await resources.model.answer(question, draft.Answer))
        stand, refused = draft.read(answered.value, chunk, dream_id=dream.names_drafts)
        drafts += stand
        refusals += [each.code for each in refused]
    if refusals:
        log.warning("drafts_refused", codes=sorted(refusals))

    async with resources.db.acquire() as db, db.transaction():
        counters = {"drafts": len(drafts), "drafts_refused": len(refusals)}
        usage = {STEP: usage_of(resources.model, answers)}
        now = resources.now()
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters, usage=usage)
        await dreams.save_drafts(db, dream.id, (each.id for each in drafts))
        await lessons.add_drafts(
            db,
            dream.series.id,
            dream.id,
            drafts,
            origin="dream",
            written_by=f"{resources.model.name}:{draft.VERSION}",
            now=now,
        )
