"""The demo's poison: a lesson that makes things worse, to see whether that is noticed."""

from __future__ import annotations

from typing import Final

from yume.domain.dreams import Series
from yume.domain.lessons import Draft, Lesson
from yume.errors import PermanentError
from yume.ids import DreamId, LessonId, derived_id
from yume.resources import Resources
from yume.store import lessons

BY: Final = "demo"
WHY: Final = "planted by --harm: no dream drafted it and no gate has seen it"


async def plant(rule: str, dream: DreamId, series: Series, resources: Resources) -> LessonId:
    """Approve a harmful rule past the gate, on the evidence of the best founded lesson that stands."""
    now = resources.now()
    async with resources.db.acquire() as db, db.transaction():
        standing = await lessons.lessons_in(db, series.id, "approved")
        if not standing:
            raise PermanentError(
                "no lesson is approved yet, so there is no evidence to plant a harmful one on"
            )
        host = max(standing, key=lambda each: (len(each.evidence), str(each.id)))
        planted = _draft(rule, host, dream)
        await lessons.add_drafts(db, series.id, dream, [planted], origin="dream", written_by=BY, now=now)
        await lessons.move(db, planted.id, "draft", "approved", by=BY, why=WHY, now=now)
    return planted.id


def _draft(rule: str, host: Lesson, dream: DreamId) -> Draft:
    assert host.trust is not None
    return Draft(
        id=LessonId(derived_id(dream, "planted", rule)),
        symptom=host.symptom,
        root_cause=host.root_cause,
        rule=rule,
        category=host.category,
        scope=host.scope,
        evidence=host.evidence,
        quotes=host.quotes,
        trust=host.trust,
        confidence=host.confidence,
        fingerprints=host.fingerprints,
        advice="remedy",
    )
