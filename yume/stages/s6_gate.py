"""S6: decide each operation on its own, and carry out what may be carried out without a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from yume.domain.dreams import Dream
from yume.domain.gating import POLICY_VERSION, Decision, gate
from yume.domain.merging import Operation
from yume.events import Event, RunBatch, event
from yume.ids import DreamId
from yume.resources import Resources
from yume.store import dreams, evidence, lessons

if TYPE_CHECKING:
    from yume.store.database import Db

STEP: Final = "s6_gate"
BY: Final = "yume:s6_gate"


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Write the gate once, with every unmet reason, and move the lessons that it decides on."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        operations = [Operation.from_json(each) for each in dream.operations]
        names = {name for each in operations for name in (each.lesson, *each.inputs)}
        concerned = await lessons.lessons_by_id(db, dream.series.id, names)
        as_drafted = await lessons.drafts_by_id(db, dream.series.id, names)
        cited = {name for each in concerned.values() for name in each.evidence}
        signals = await evidence.signals_by_id(db, dream.series.id, cited)

        tasks = await evidence.announced_tasks(db, dream.root)

    base = None if dream.base_lesson_set_id is None else str(dream.base_lesson_set_id)
    decisions = [
        gate(
            each,
            lesson=as_drafted.get(each.lesson, concerned[each.lesson]),
            signals=signals,
            mode=dream.series.mode,
            base=base,
            task_ids=tasks,
        )
        for each in operations
    ]

    async with resources.db.acquire() as db, db.transaction():
        now = resources.now()
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=_counters(decisions))
        if dream.dry:
            await lessons.archive_drafts(
                db, dream.id, by=BY, why="a replay shows and releases nothing", now=now
            )
        for each in [] if dream.dry else decisions:
            await _carry_out(db, each, now)
        await dreams.save_gate(db, dream.id, _gate(dream, base, decisions, now))


async def tell(batch: RunBatch, resources: Resources, /) -> Sequence[Event]:
    """Ask for a review of what the gate held."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
    held = [each for each in (dream.gate or {}).get("decisions", []) if each["decision"] == "hold"]
    if not held or dream.dry:
        return ()
    data = {
        "platform": batch.platform,
        "series": batch.series,
        "dream_id": str(dream.id),
        "kind": "lessons",
        "lesson_ids": [each["lesson"] for each in held],
        "reasons": {each["lesson"]: each["unmet"] for each in held},
    }
    return (event("review.requested", data, key=f"{dream.id}/review", at=resources.now()),)


async def _carry_out(db: Db, decision: Decision, now: datetime) -> None:
    """Move the lessons of one operation; what is held stays a draft and waits for a person."""
    operation = decision.operation
    why = f"{operation.kind}: {operation.why}"
    match decision.decision, operation.kind:
        case "approve", "add":
            await lessons.move(db, operation.lesson, "draft", "approved", by=BY, why=why, now=now)
        case "approve", "merge":
            await lessons.move(db, operation.lesson, "draft", "approved", by=BY, why=why, now=now)
            for source in operation.sources:
                into = f"merged into {operation.lesson}"
                await lessons.move(db, source, "draft", "archived", by=BY, why=into, now=now)
        case "approve", "duplicate":
            for source in operation.sources:
                known = f"says what {operation.lesson} says already"
                await lessons.move(db, source, "draft", "archived", by=BY, why=known, now=now)
        case "refuse", "add" | "merge" | "supersede":
            reasons = "; ".join(decision.unmet)
            await lessons.move(db, operation.lesson, "draft", "archived", by=BY, why=reasons, now=now)
        case _:
            pass  # held for a person, or a lesson that is kept as it is


def _gate(dream: Dream, base: str | None, decisions: Sequence[Decision], now: datetime) -> dict[str, object]:
    return {
        "policy_version": POLICY_VERSION,
        "mode": dream.series.mode,
        "base": base,
        "at": now.isoformat(),
        "by": BY,
        "decisions": [each.to_json() for each in decisions],
    }


def _counters(decisions: Sequence[Decision]) -> dict[str, int]:
    made = Counter(each.decision for each in decisions if each.operation.kind not in ("keep", "duplicate"))
    known = sum(1 for each in decisions if each.operation.kind == "duplicate")
    return {"duplicates": known, "approved": made["approve"], "held": made["hold"], "refused": made["refuse"]}
