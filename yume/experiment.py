"""A series' experiment on its row: started by a person, moved on by S9, ended by whoever writes the slot."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from yume.domain.measurement.experiments import Experiment
from yume.ids import DreamId, InjectionId, SeriesId, derived_id
from yume.store import access, effects

if TYPE_CHECKING:
    from yume.store.database import Db


async def running(db: Db, series: SeriesId) -> Experiment | None:
    """Return the experiment that goes on."""
    row = await access.experiment_of(db, series)
    found = None if row is None else Experiment.from_json(row)
    return found if found is not None and found.runs else None


async def move_on(db: Db, series: SeriesId, dream: DreamId, *, now: datetime) -> Experiment | None:
    """Note that a batch has ended, and ask for what the coin gives the next one; None without an experiment.

    A slot write that is none of its own ends it: what a person or a release put there stays.
    """
    found = await running(db, series)
    if found is None:
        return None
    current = await effects.in_slot(db, series)
    foreign = (
        current is not None
        and current.written_at is not None
        and current.written_at > found.started_at
        and current.kind != "experiment"
    )
    if foreign and current is not None:
        found = found.ended(now, current.kind)
    elif UUID(str(dream)) not in found.batches:
        found = _with(found, UUID(str(dream)), now)
    await access.save_experiment(db, series, found.to_json())
    if found.runs:
        await switch(db, series, found, now=now)
    return found


async def switch(db: Db, series: SeriesId, experiment: Experiment, *, now: datetime) -> None:
    """Ask for the set of the batch that comes next, unless the slot holds it."""
    number = len(experiment.batches)
    wanted = experiment.set_for(number)
    current = await effects.in_slot(db, series)
    if current is not None and current.lesson_set_id == wanted:
        return
    await effects.request(
        db,
        InjectionId(derived_id(series, "experiment", experiment.seed, number)),
        series,
        wanted,
        kind="experiment",
        status="pending",
        expected_version=None,
        by=experiment.by,
        why=f"{experiment.kind}, batch {number + 1}: {experiment.arm(number)}",
        now=now,
    )


def _with(found: Experiment, batch: UUID, now: datetime) -> Experiment:
    grown = replace(found, batches=(*found.batches, batch))
    return grown.ended(now, "its coins") if grown.over else grown
