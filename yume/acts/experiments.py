"""A person's experiment on a series: coins instead of before and after, so that a cause may be named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yume import experiment as on_row
from yume.acts import series as known
from yume.acts.slot import owners_set
from yume.domain.dreams import Series
from yume.domain.measurement.experiments import SIZES, Experiment, Kind, coins
from yume.errors import PermanentError
from yume.ids import LessonSetId
from yume.resources import Resources
from yume.store import access, batches, effects

if TYPE_CHECKING:
    from yume.store.database import Db

FEWEST: Final = 6  # blocks; with fewer even the plainest result could be chance
BLOCKS: Final = range(FEWEST, 101)


async def start(
    platform: str,
    series: str,
    kind: Kind,
    resources: Resources,
    *,
    blocks: int,
    washout_runs: int = 0,
    seed: str,
    by: str,
    why: str,
) -> Experiment:
    """Throw the coins and ask for what the first batch reads; the version in the slot is the new one.

    A switchback compares it with the version before, a hold-out with the owner's rules alone. The first
    `washout_runs` of each batch count in neither.
    """
    if blocks not in BLOCKS:
        raise PermanentError(f"{blocks} blocks: {BLOCKS.start} to {BLOCKS.stop - 1} are allowed")
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        if found.mode == "report_only":
            raise PermanentError(f"{platform}/{series} only reports: an experiment writes its slot")
        if await on_row.running(db, found.id) is not None:
            raise PermanentError(f"an experiment of {platform}/{series} is running: `yume experiment stop`")
        _check_washout(found, washout_runs)
        now = resources.now()
        new, reference = await _arms(db, found, kind, resources)
        thrown = coins(kind, seed, blocks)
        made = Experiment(kind, seed, thrown, new, reference, now, by, why, washout_runs=washout_runs)
        await access.save_experiment(db, found.id, made.to_json())
        await on_row.switch(db, found.id, made, now=now)
    return made


async def stop(platform: str, series: str, resources: Resources, *, by: str) -> Experiment:
    """End a running experiment; what stands in the slot stays."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        running = await on_row.running(db, found.id)
        if running is None:
            raise PermanentError(f"no experiment of {platform}/{series} is running")
        ended = running.ended(resources.now(), by)
        await access.save_experiment(db, found.id, ended.to_json())
    return ended


async def shown(platform: str, series: str, resources: Resources) -> Experiment | None:
    """Return the last experiment of a series."""
    async with resources.db.acquire() as db:
        row = await access.experiment_of(db, (await known.find(db, platform, series)).id)
    return None if row is None else Experiment.from_json(row)


def needs(experiment: Experiment) -> int:
    """Return how many batches an experiment still needs."""
    return len(experiment.coins) * SIZES[experiment.kind] - len(experiment.batches)


def _check_washout(series: Series, runs: int) -> None:
    if runs not in range(series.batch_max_runs):
        raise PermanentError(
            f"{runs} washout runs: a batch of {series.external_id!r} has {series.batch_max_runs} at most, so "
            f"0 to {series.batch_max_runs - 1} are allowed"
        )


async def _arms(db: Db, series: Series, kind: Kind, resources: Resources) -> tuple[LessonSetId, LessonSetId]:
    current = await effects.in_slot(db, series.id)
    if current is None or current.lesson_set_id is None:
        raise PermanentError(f"the slot of {series.external_id!r} holds no version of Yume's to be tried")
    if kind == "holdout":
        return current.lesson_set_id, await owners_set(db, series, resources, everything=False)
    before = await effects.written_before(db, series.id, current.id)
    if before is None or before.lesson_set_id is None or before.lesson_set_id == current.lesson_set_id:
        raise PermanentError(
            f"there is no version before the one in the slot of {series.external_id!r}: try --kind holdout"
        )
    return current.lesson_set_id, before.lesson_set_id
