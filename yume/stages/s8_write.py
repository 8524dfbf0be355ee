"""S8: see to it that the slot holds what S7 chose, or say why it does not; make the report."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from yume.adoption import conflict_events
from yume.clients.platform import Slot, SlotText
from yume.domain.dreams import PATIENCE, Dream, Result
from yume.domain.lessons import Lesson
from yume.domain.report import SlotResult, as_json, as_markdown, facts
from yume.domain.rounds import DWELL, Compiled, blocking, difference
from yume.errors import PermanentError, StepTakenError, TransientError
from yume.events import Event, RunBatch, event, folder_name
from yume.ids import DreamId, InjectionId, LessonId, derived_id
from yume.resources import Resources
from yume.store import access, batches, dreams, effects, lessons
from yume.store.access import Platform
from yume.store.effects import Injection
from yume.store.lessons import LessonSet
from yume.swap import FOREIGN, Wanted, facts_of, swap

STEP: Final = "s8_write"
BY: Final = "yume:s8_write"
CONFLICT: Final = "conflict"
OVERTAKEN: Final = "overtaken"  # what is approved waits for the next release, which is compiled anew
LOOK_AGAIN: Final = timedelta(minutes=2)  # the batch may end while the wait is being noted


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
        if self.current is None:
            return not self.target.text  # there is nothing to take out of a slot that was never written
        return self.current.lesson_set_id == self.target.id

    @property
    def held_back(self) -> str | None:
        """Why the slot stays as it is although something was approved; None if it need not.

        A dream that was parked may be resumed after the slot got another set than S7 compiled for, and has
        lost the reason that S7 gave.
        """
        kept, current = self.dream.compiled or {}, self.current
        if self.dream.reason is not None or kept.get("waits"):
            return self.dream.reason or DWELL
        if self.unchanged or current is None or "over" not in kept:
            return None
        return OVERTAKEN if str(current.lesson_set_id) != kept["over"] else None


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Swap the slot's text once; a redelivery finds its own write and settles it."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        plan = Plan(
            dream,
            await access.platform_of(db, dream.series.platform),
            None if dream.lesson_set_id is None else await lessons.set_by_id(db, dream.lesson_set_id),
            await effects.in_slot(db, dream.series.id),
            await effects.injection_of(db, _injection_id(dream)),
        )
        drafted = await lessons.lessons_by_id(db, dream.series.id, _drafted(dream))

    outcome = await _outcome(plan, resources)
    report = facts(dream, outcome, drafted.values())
    report_key = await _archive(dream, as_markdown(report), as_json(report), resources)

    async with resources.db.acquire() as db, db.transaction():
        await dreams.mark_step(db, dream.id, STEP, resources.now(), fence=dream.fence)
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
        return conflict_events(base, injection.id, injection.expected_version, resources.now())
    if injection.status != "written" or published is None:
        return ()
    data = (
        base
        | facts_of(published)
        | {
            "platform_version": injection.platform_version,
            "previous_version": before.platform_version if before else None,
            "added": [_told(texts[each]) for each in new if each not in old],
            "retired": [_told(texts[each]) for each in old if each not in new],
            "changed": [],
        }
    )
    return (event("lesson.published", data, key=f"{injection.id}/published", at=resources.now()),)


async def _outcome(plan: Plan, resources: Resources) -> SlotResult:
    """Write or withhold; what an earlier run of this step settled stays settled."""
    own, target = plan.own, plan.target
    if plan.dream.dry:
        return _replayed(plan)
    if own is not None and own.status in ("written", CONFLICT, "withheld"):
        ended: dict[str, Result] = {"written": "published", CONFLICT: "held", "withheld": "report_only"}
        return _ending(
            plan, ended[own.status], own.platform_version, FOREIGN if own.status == CONFLICT else None
        )
    if plan.dream.series.mode == "report_only":
        if target is not None and target.dream_id == plan.dream.id:
            await _request(plan, target, None, resources, withheld=True)
        return _ending(plan, "report_only", None, plan.dream.reason)
    held_back = plan.held_back or await _withdrawn(plan, resources)
    if held_back is not None:
        return _ending(plan, "held", _version(plan), held_back)
    if target is None or plan.unchanged:
        return _ending(plan, "no_change", _version(plan), None)
    await _wait_for_batches(plan, resources)
    async with resources.slot(plan.platform) as slot:
        return await _write(plan, target, slot, resources)


async def _wait_for_batches(plan: Plan, resources: Resources) -> None:
    """Write only between two batches: while the platform has one open, its tasks shall have one version."""
    dream, now = plan.dream, resources.now()
    async with resources.db.acquire() as db:
        found = blocking(await batches.open_batches(db, dream.series.id), now, dream.series.batch_max_wait)
        if found is None:
            return
        until = found.since + dream.series.batch_max_wait
        await dreams.wait_until(db, dream.id, until + PATIENCE)
    raise TransientError(
        f"batch {found.id!r} is open: the slot is written when it has finished, "
        f"at {until:%Y-%m-%d %H:%M}Z at the latest",
        retry_in=min(until - now + timedelta(milliseconds=100), LOOK_AGAIN),
    )


async def _write(plan: Plan, target: LessonSet, slot: Slot, resources: Resources) -> SlotResult:
    series = plan.dream.series

    async def before(found: SlotText) -> None:
        await _wait_for_batches(plan, resources)
        await _request(plan, target, found.version, resources)
        await _check_still_wanted(plan, resources)

    wanted = Wanted(series.external_id, series.id, target, str(plan.injection))
    swapped = await swap(slot, wanted, resources.db, before=before)
    if swapped.how == "foreign":
        return await _conflict(plan, target, swapped.found, resources)
    await _request(plan, target, None, resources)
    async with resources.db.acquire() as db, db.transaction():
        await effects.written(db, series.id, plan.injection, swapped.found.version, resources.now())
    return _ending(plan, "published", swapped.found.version, None)


async def _check_still_wanted(plan: Plan, resources: Resources) -> None:
    """Give way if the dream moved on meanwhile: this process may have stood still, or a person was faster."""
    withdrawn = await _withdrawn(plan, resources)
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, plan.dream.id)
        commands = await effects.commands_of(db, dream.series.id)
    if (dream.status, dream.step, dream.fence) != ("running", plan.dream.step, plan.dream.fence):
        raise StepTakenError(f"dream {dream.id}: another worker went on while this one stood still")
    if commands or withdrawn or dream.series.mode == "report_only":
        first = f"a {commands[0].kind} by {commands[0].by}" if commands else "what a person changed"
        raise TransientError(f"{first} comes first", retry_in=timedelta(seconds=1))


async def _withdrawn(plan: Plan, resources: Resources) -> str | None:
    """Return why the target is not written if a lesson of it is no longer approved: a dream may wait long."""
    if plan.target is None or plan.unchanged:
        return None
    async with resources.db.acquire() as db:
        held = await lessons.lessons_by_id(db, plan.dream.series.id, plan.target.lesson_ids)
    return OVERTAKEN if any(each.state != "approved" for each in held.values()) else None


async def _conflict(plan: Plan, target: LessonSet, found: SlotText, resources: Resources) -> SlotResult:
    """Leave somebody else's text alone: the series only reports until a person adopts it."""
    await _request(plan, target, found.version, resources)
    async with resources.db.acquire() as db, db.transaction():
        await effects.refused(db, plan.injection, "conflict", FOREIGN)
        await access.demote(db, plan.dream.series.id, by=BY, why=FOREIGN, now=resources.now())
    return _ending(plan, "held", None, FOREIGN)


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
            by=plan.dream.asked_by or BY,
            why=plan.dream.why or f"dream {plan.dream.number}",
            dream=plan.dream.id,
            now=resources.now(),
        )
        if expected is not None:
            await effects.expect(db, plan.injection, expected)


def _drafted(dream: Dream) -> set[LessonId]:
    """Return what this dream brought: S4's drafts, and the texts that S5 merged them into."""
    merged = {LessonId(UUID(each["lesson"])) for each in dream.operations if each["kind"] == "merge"}
    return {*(dream.draft_ids or ()), *merged}


def _injection_id(dream: Dream) -> InjectionId:
    """Derive the id of a dream's slot write, so that a redelivery continues it."""
    return InjectionId(derived_id(dream.id, "injection"))


def _version(plan: Plan) -> str | None:
    return None if plan.current is None else plan.current.platform_version


def _ending(plan: Plan, result: Result, platform_version: str | None, reason: str | None) -> SlotResult:
    """Say how the dream ends; where nothing was written and nothing had failed, that is what it says."""
    if result in ("no_change", "report_only") and reason is None and plan.dream.trigger != "release":
        result = result if plan.dream.counters.get("signals") else "no_signal"
    made = _compiled(plan.dream)
    waits = (plan.dream.compiled or {}).get("waits")
    return SlotResult(result, reason, made.version, made.text, platform_version, waits=waits)


def _replayed(plan: Plan) -> SlotResult:
    """Show what differs from the original's text, and release nothing."""
    made = _compiled(plan.dream)
    before = "" if plan.dream.root_compiled is None else Compiled.from_json(plan.dream.root_compiled).body
    differs = difference(before, made.body)
    reason = f"{len(differs)} lines differ from dream {plan.dream.root_number}" if differs else "equal body"
    return SlotResult("replayed", reason, made.version, made.text, None, difference=differs)


def _compiled(dream: Dream) -> Compiled:
    if dream.compiled is None:
        raise PermanentError(f"dream {dream.id} has no text: S7 has not compiled one")
    return Compiled.from_json(dream.compiled)


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
