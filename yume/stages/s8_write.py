"""S8: write the newest lesson set into the slot and nothing else, or withhold it; make the report."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from yume.clients.platform import Slot, SlotConflict, SlotText
from yume.domain.dreams import Dream, Result
from yume.domain.guard import check_bytes
from yume.domain.lessons import Lesson
from yume.domain.report import SlotResult, as_json, as_markdown, facts
from yume.errors import PermanentError, StepTakenError, TransientError
from yume.events import Event, RunBatch, event, folder_name
from yume.ids import DreamId, InjectionId, derived_id
from yume.resources import Resources
from yume.store import access, dreams, effects, lessons
from yume.store.access import Platform
from yume.store.effects import Injection
from yume.store.lessons import LessonSet

STEP: Final = "s8_write"
BY: Final = "yume:s8_write"
FOREIGN: Final = "slot holds foreign text"


@dataclass(frozen=True, slots=True)
class Plan:
    """What the slot should hold after this dream, what Yume last wrote there, and what of it is done."""

    dream: Dream
    platform: Platform
    target: LessonSet | None
    current: Injection | None
    own: Injection | None

    @property
    def injection(self) -> InjectionId:
        """The id of this dream's one slot write."""
        return _injection_id(self.dream)

    @property
    def unchanged(self) -> bool:
        """Whether the slot holds the target already, as far as Yume's own writes tell."""
        if self.target is None:
            return True
        return self.current is not None and self.current.lesson_set_id == self.target.id


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Swap the slot's text once; a redelivery finds its own write and settles it."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        plan = Plan(
            dream,
            await access.platform_of(db, dream.series.platform),
            await lessons.newest_set(db, dream.series.id),
            await effects.in_slot(db, dream.series.id),
            await effects.injection_of(db, _injection_id(dream)),
        )
        drafted = await lessons.lessons_of_dream(db, dream.id)

    outcome = await _outcome(plan, resources)
    report = facts(dream, outcome, drafted)
    report_key = await _archive(dream, as_markdown(report), as_json(report), resources)

    async with resources.db.acquire() as db, db.transaction():
        await dreams.mark_step(db, dream.id, STEP, resources.now())
        await dreams.save_result(db, dream.id, outcome.result, outcome.reason, report_key)


async def tell(batch: RunBatch, resources: Resources, /) -> Sequence[Event]:
    """Tell that a lesson set was published, or that the slot holds somebody else's text."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        injection = await effects.injection_of_dream(db, dream.id)
        if injection is None or injection.lesson_set_id is None:
            return ()
        published = await lessons.set_by_id(db, injection.lesson_set_id)
        before = await effects.written_before(db, dream.series.id, injection.id)
        replaced = before and before.lesson_set_id and await lessons.set_by_id(db, before.lesson_set_id)
        new = list(published.lesson_ids) if published else []
        old = list(replaced.lesson_ids) if replaced else []
        texts = await lessons.lessons_by_id(db, dream.series.id, {*new, *old})
    base: dict[str, Any] = {"platform": batch.platform, "series": batch.series, "dream_id": str(dream.id)}
    if injection.status == "conflict":
        now = resources.now()
        data = base | {"expected_version": injection.expected_version, "why": FOREIGN}
        review = base | {"kind": "slot", "lesson_ids": [], "reasons": {"slot": [FOREIGN]}}
        return (
            event("slot.conflict", data, key=f"{injection.id}/conflict", at=now),
            event("review.requested", review, key=f"{injection.id}/review", at=now),
        )
    if injection.status != "written" or published is None:
        return ()
    data = base | {
        "lesson_set_id": str(published.id),
        "lesson_set_version": published.version,
        "platform_version": injection.platform_version,
        "previous_version": before.platform_version if before else None,
        "text": published.text,
        "text_sha256": published.text_sha256,
        "body_sha256": published.body_sha256,
        "tokens": published.tokens,
        "added": [_told(texts[each]) for each in new if each not in old],
        "retired": [_told(texts[each]) for each in old if each not in new],
        "changed": [],
    }
    return (event("lesson.published", data, key=f"{injection.id}/published", at=resources.now()),)


async def _outcome(plan: Plan, resources: Resources) -> SlotResult:
    """Write or withhold; what an earlier run of this step settled stays settled."""
    target = plan.target
    if plan.own is not None and plan.own.status == "written":
        return _ending(plan, "published", plan.own.platform_version)
    if plan.own is not None and plan.own.status == "conflict" and target is not None:
        return SlotResult("held", FOREIGN, target.version, target.text, None)
    if plan.own is not None and plan.own.status == "withheld":
        return _ending(plan, "report_only", None)
    if plan.dream.series.mode == "report_only":
        if target is not None and target.dream_id == plan.dream.id:
            await _request(plan, target, None, resources, withheld=True)
        return _ending(plan, "report_only", None)
    if target is None or plan.unchanged:
        return _ending(plan, "no_change", None if plan.current is None else plan.current.platform_version)
    async with resources.slot(plan.platform) as slot:
        return await _write(plan, target, slot, resources)


async def _write(plan: Plan, target: LessonSet, slot: Slot, resources: Resources) -> SlotResult:
    """Swap once; where somebody else was faster, look who it was: Yume's own text is swapped once more."""
    series = plan.dream.series.external_id
    found = await slot.read(series)
    for _ in range(2):
        if found.sha256 == target.text_sha256:
            return await _settle(plan, target, found, resources)
        await _request(plan, target, found.version, resources)
        if not await _is_ours(plan, found, resources):
            return await _conflict(plan, target, resources)
        await _check_still_ours(plan, target, resources)
        check_bytes(target.text)
        try:
            await slot.write(
                series,
                text=target.text,
                lesson_set_id=target.id,
                lesson_set_version=target.version,
                expected_version=found.version,
                key=f"{plan.injection}:{found.version}",
            )
        except SlotConflict:
            found = await slot.read(series)
            continue
        except PermanentError:
            # A receipt that makes no sense: what stands in the slot decides.
            if (found := await slot.read(series)).sha256 != target.text_sha256:
                raise
            return await _settle(plan, target, found, resources)
        return await _settle(plan, target, await slot.read(series), resources)
    raise TransientError(
        f"the slot of {series!r} changed twice while it was written: it holds version {found.version}"
    )


async def _check_still_ours(plan: Plan, target: LessonSet, resources: Resources) -> None:
    """Give way if the dream or the lessons moved on meanwhile: this process may have stood still."""
    async with resources.db.acquire() as db:
        progress = await dreams.progress_of(db, plan.dream.id)
        newest = await lessons.newest_set(db, plan.dream.series.id)
    at_this_step = progress is not None and progress.status == "running" and progress.step == plan.dream.step
    if not at_this_step or newest is None or newest.id != target.id:
        raise StepTakenError(f"dream {plan.dream.id}: another worker went on while this one stood still")


async def _settle(plan: Plan, target: LessonSet, found: SlotText, resources: Resources) -> SlotResult:
    """Compare what stands in the slot with what was meant to, byte for byte, before calling it written."""
    if hashlib.sha256(found.text.encode()).hexdigest() != target.text_sha256:
        raise TransientError(
            f"the slot of {plan.dream.series.external_id!r} holds version {found.version} with sha256 "
            f"{found.sha256[:12]}, {target.text_sha256[:12]} was written"
        )
    await _request(plan, target, None, resources)
    async with resources.db.acquire() as db, db.transaction():
        await effects.written(db, plan.dream.series.id, plan.injection, found.version, resources.now())
    return _ending(plan, "published", found.version)


async def _conflict(plan: Plan, target: LessonSet, resources: Resources) -> SlotResult:
    async with resources.db.acquire() as db:
        await effects.refused(db, plan.injection, "conflict", FOREIGN)
    return SlotResult("held", FOREIGN, target.version, target.text, None)


async def _is_ours(plan: Plan, found: SlotText, resources: Resources) -> bool:
    """Say whether the slot is empty or holds a text that Yume made: nothing else is ever overwritten."""
    if not found.text:
        return True
    async with resources.db.acquire() as db:
        return await lessons.set_with_text(db, plan.dream.series.id, found.sha256) is not None


async def _request(
    plan: Plan, target: LessonSet, expected: str | None, resources: Resources, *, withheld: bool = False
) -> None:
    async with resources.db.acquire() as db:
        await effects.request(
            db,
            plan.injection,
            plan.dream.series.id,
            target.id,
            kind="write",
            status="withheld" if withheld else "pending",
            expected_version=expected,
            by=BY,
            why=f"dream {plan.dream.number}",
            dream=plan.dream.id,
            now=resources.now(),
        )
        if expected is not None:
            await effects.expect(db, plan.injection, expected)


def _injection_id(dream: Dream) -> InjectionId:
    """Derive the id of a dream's slot write, so that a redelivery continues it."""
    return InjectionId(derived_id(dream.id, "injection"))


def _ending(plan: Plan, result: Result, platform_version: str | None) -> SlotResult:
    """Say how the dream ends; where nothing was written and nothing had failed, that is what it says."""
    if result != "published" and not plan.dream.counters.get("signals"):
        result = "no_signal"
    if plan.target is None:
        return SlotResult(result, None, None, "", platform_version)
    return SlotResult(result, None, plan.target.version, plan.target.text, platform_version)


async def _archive(dream: Dream, markdown: bytes, document: bytes, resources: Resources) -> str:
    """Keep both forms under a name made of their content: run twice, the step may find another slot."""
    digest = hashlib.sha256(document).hexdigest()[:12]
    stem = (
        f"reports/{dream.series.platform}/{folder_name(dream.series.external_id)}/{dream.number:05}-{digest}"
    )
    await resources.archive.put(f"{stem}.json", document)
    await resources.archive.put(f"{stem}.md", markdown)
    return f"{stem}.md"


def _told(lesson: Lesson) -> dict[str, str]:
    return {"id": str(lesson.id), "rule": lesson.rule, "category": lesson.category}
