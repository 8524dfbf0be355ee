"""S3: say which class of the taxonomy each failure shows. Asks the model what code cannot decide."""

from __future__ import annotations

from typing import Final

from yume.clients.model import Answered, usage_of
from yume.domain.lessons import code_of
from yume.domain.signals import groups
from yume.domain.taxonomy import Label, decide
from yume.events import RunBatch
from yume.ids import DreamId
from yume.prompts import classify
from yume.resources import Resources
from yume.store import access, dreams, evidence

STEP: Final = "s3_classify"
QUESTIONS: Final = 10  # in one dream; the largest groups come first


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Label the dream's signals; a label that was given stays."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        taxonomy = await access.taxonomy_of(db, dream.taxonomy_id)
        signals = await evidence.signals_of(db, dream.evidence_ids, taxonomy.id)

    found = groups(signals)
    labels: dict[str, Label] = {
        group.fingerprint: label for group in found if (label := decide(group, taxonomy)) is not None
    }
    undecided = [group for group in found if group.fingerprint not in labels and code_of(group) is None]
    questions = classify.chunks(undecided)[:QUESTIONS]
    answers: list[Answered[classify.Answer]] = []
    for chunk in questions:
        question = classify.ask(chunk, taxonomy, language=dream.series.language)
        answers.append(answered := await resources.model.answer(question, classify.Answer))
        by = f"{resources.model.name}:{question.version}"
        labels |= {
            each.fingerprint: each.label for each in classify.read(answered.value, chunk, taxonomy, by=by)
        }

    async with resources.db.acquire() as db, db.transaction():
        counters = {"groups": len(found), "groups_not_asked": len(undecided) - sum(map(len, questions))}
        usage = {STEP: usage_of(resources.model, answers)}
        now = resources.now()
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters, usage=usage)
        await evidence.save_labels(db, dream.evidence_ids, taxonomy.id, labels)
