"""What a look of S9 leads to: a rollback, lessons out or back, the next batch of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from yume import experiment, rollback
from yume.domain.dreams import Dream
from yume.domain.measurement.experiments import Experiment, result, washed_out
from yume.domain.measurement.overturning import overturned
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.recurrence import Hits, Told
from yume.ids import InjectionId, derived_id
from yume.store import effects, evidence, lessons, measured
from yume.store.effects import InjectedVersion
from yume.store.measured import Look
from yume.store.recurrence import WatchedLesson

if TYPE_CHECKING:
    from yume.store.database import Db

BY: Final = "yume:s9_measure"
REMOVED: Final = ("harms", "ineffective", "no_exposure")


async def alarmed(
    db: Db,
    dream: Dream,
    seen: Look,
    versions: Sequence[InjectedVersion],
    *,
    goes_back: bool,
    now: datetime,
) -> Look:
    """Go back from a version in the slot that looks worse, where the owner allows it; else propose it."""
    alarm = seen.measured is not None and seen.measured.comparison.rollback_alarm
    if not alarm or not versions or versions[-1].version != seen.rate.version:
        return seen
    if versions[-1].kind != "write" or await effects.commands_of(db, dream.series.id):
        return seen
    plan = await rollback.plan_back(db, dream.series) if goes_back else None
    if plan is None:
        return replace(seen, details={**seen.details, "rollback": "proposed"})
    command = InjectionId(derived_id(dream.id, "rollback", versions[-1].version))
    why = f"rollback alarm: v{plan.left.version} looks worse, look {seen.details.get('look')}"
    await rollback.ask(db, plan, command, by=BY, why=why, now=now)
    return replace(seen, details={**seen.details, "rollback": "asked for", "back_to": plan.target.version})


async def move_experiment(db: Db, dream: Dream, facts: Sequence[RunFact], now: datetime) -> None:
    """Move a running experiment on by this batch, and look at its blocks."""
    found = await experiment.move_on(db, dream.series.id, dream.id, now=now)
    if found is None:
        return
    known = await _apart(db, dream, found) if found.washout_runs else facts
    made, left_out = result(found, known), washed_out(found, known)
    await measured.save_experiment_look(
        *(db, dream.series.id, dream.id, found, made), washed_out=left_out, now=now
    )


async def _apart(db: Db, dream: Dream, found: Experiment) -> Sequence[RunFact]:
    """Return the runs of an experiment's batches, the first of each told apart."""
    return await evidence.experiment_facts(
        db, dream.series.id, dream.before, found.batches, found.washout_runs
    )


async def retire(
    db: Db, dream: Dream, told: Sequence[Told], watched: Sequence[WatchedLesson], now: datetime
) -> None:
    """Take lessons out that the measurement speaks against; a series that only reports keeps them."""
    if dream.series.mode == "report_only":
        return
    states = {each.watched.id: each.state for each in watched}
    for each in told:
        if each.state in REMOVED and states[each.lesson] == "approved":
            why = f"{each.state}: {each.seen.after_hits} of {each.expected:.1f} expected hits"
            await lessons.move(db, each.lesson, "approved", "retired", by=BY, why=why, now=now)


async def restore(
    db: Db,
    dream: Dream,
    watched: Sequence[WatchedLesson],
    facts: Sequence[RunFact],
    hits: Sequence[Hits],
    *,
    now: datetime,
) -> None:
    """Bring back what the measurement itself took out, where it has been overturned."""
    if dream.series.mode == "report_only":
        return
    for each in watched:
        if each.state != "retired" or each.retired is None or each.retired["by"] != BY:
            continue
        at, why = datetime.fromisoformat(each.retired["at"]), each.retired["why"]
        unexposed = why.startswith("no_exposure")
        reason = overturned(each.watched, facts, hits, retired_at=at, unexposed=unexposed, now=now)
        if reason is not None:
            await lessons.move(db, each.watched.id, "retired", "approved", by=BY, why=reason, now=now)
