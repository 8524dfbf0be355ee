"""The demo's poison: a lesson that makes things worse, to see whether that is noticed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from yume.domain.dreams import Series
from yume.domain.lessons import Draft, Lesson, State
from yume.errors import PermanentError
from yume.ids import DreamId, LessonId, derived_id
from yume.resources import Resources
from yume.store import effects, lessons

BY: Final = "demo"
WHY: Final = "planted by --harm: no dream drafted it and no gate has seen it"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the planted lesson: the versions that held it, and those that were rolled back."""

    rule: str
    state: State
    versions: tuple[int, ...]
    rolled_back: tuple[int, ...]
    in_slot: bool

    @property
    def caught(self) -> bool:
        """Whether it stood in the slot and was taken out again."""
        return bool(self.versions) and not self.in_slot

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "rule": self.rule,
            "state": self.state,
            "versions": list(self.versions),
            "rolled_back": list(self.rolled_back),
            "in_slot": self.in_slot,
            "caught": self.caught,
        }

    def told(self) -> str:
        """Say it in a line."""
        if not self.versions:
            return f"The planted lesson never reached the slot; it is {self.state}: {self.rule}"
        stood = ", ".join(f"v{each}" for each in self.versions)
        back = ", ".join(f"v{each}" for each in self.rolled_back)
        end = "is in the slot still" if self.in_slot else "was taken out"
        how = f" (rolled back: {back})" if back else ""
        return f"The planted lesson stood in {stood} and {end}{how}; it is {self.state}: {self.rule}"


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


async def fate(planted: LessonId, series: Series, resources: Resources) -> Fate:
    """Say what became of a planted lesson by now."""
    async with resources.db.acquire() as db:
        lesson = (await lessons.lessons_by_id(db, series.id, [planted]))[planted]
        stood: dict[int, bool] = {}
        holds = False
        for each in await effects.injected_versions(db, series.id):
            compiled = None if each.lesson_set_id is None else await lessons.set_by_id(db, each.lesson_set_id)
            holds = compiled is not None and planted in compiled.lesson_ids
            if compiled is not None and holds:
                stood[compiled.version] = each.rolled_back or stood.get(compiled.version, False)
    return Fate(lesson.rule, lesson.state, tuple(stood), tuple(each for each in stood if stood[each]), holds)


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
