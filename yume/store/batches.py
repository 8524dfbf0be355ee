"""Reads and writes `dream_runs` before a dream starts: batches, releases and replays, and who is next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from yume.domain.dreams import PATIENCE, Status, Trigger
from yume.domain.rounds import NamedBatch
from yume.ids import DreamId, SeriesId, new_id
from yume.store import queries

if TYPE_CHECKING:
    from yume.store.database import Db

SQL: Final = queries.load("batches.sql")


@dataclass(frozen=True, slots=True)
class Look:
    """A series whose export may have to be looked at without a callback; `collecting` is its open batch."""

    series: SeriesId
    schedule: Mapping[str, Any] | None
    batch_max_wait: timedelta
    looked_at: datetime
    collecting: DreamId | None


@dataclass(frozen=True, slots=True)
class Idle:
    """A series that may write, does nothing, and whose approved lessons are not those in its slot."""

    series: SeriesId
    platform: str
    external_id: str


async def lock_series(db: Db, series: SeriesId) -> None:
    """Let nobody else collect, close or start for this series until the transaction ends."""
    await db.execute(SQL["lock_series"], series)


async def collecting(db: Db, series: SeriesId, trigger: Trigger, now: datetime) -> DreamId:
    """Return the dream that collects the series' next batch; open it if there is none."""
    found = await db.fetchval(SQL["collecting"], series)
    return DreamId(found or await db.fetchval(SQL["open_dream"], new_id(), series, trigger, now))


async def close_batch(
    db: Db,
    dream: DreamId,
    *,
    batch_id: str | None,
    now: datetime,
    trigger: Trigger | None = None,
    by: str | None = None,
    why: str | None = None,
) -> bool:
    """Close the batch and queue its dream; False if somebody else did."""
    done = await db.execute(SQL["close_batch"], dream, now, batch_id, now, trigger, by, why)
    return str(done) == "UPDATE 1"


async def queue_release(
    db: Db, series: SeriesId, *, by: str, why: str, forced: bool, gate: Mapping[str, Any], now: datetime
) -> DreamId:
    """Queue a dream that only compiles and writes what is approved."""
    return DreamId(
        await db.fetchval(SQL["queue_release"], new_id(), series, now, by, why, forced, dict(gate))
    )


async def queue_replay(
    db: Db,
    replay: DreamId,
    original: DreamId,
    *,
    behind: str | None,
    applies: bool,
    by: str,
    why: str,
    now: datetime,
) -> bool:
    """Queue a replay that starts behind a step; False if it is there already."""
    arguments = (replay, original, behind, applies, now, by, why)
    return await db.fetchval(SQL["queue_replay"], *arguments) is not None


async def start_next(db: Db, series: SeriesId, now: datetime) -> DreamId | None:
    """Start the oldest queued dream, unless one is running or a person's command waits."""
    found = await db.fetchval(SQL["start_next"], series, now, now + PATIENCE)
    return None if found is None else DreamId(found)


async def waiting_series(db: Db) -> list[SeriesId]:
    """Return the series in which a dream could start now."""
    return [SeriesId(row["series_id"]) for row in await db.fetch(SQL["waiting_series"])]


async def overdue_batches(db: Db, now: datetime) -> list[tuple[DreamId, SeriesId]]:
    """Return the batches that have waited as long as their series allows."""
    rows = await db.fetch(SQL["overdue_batches"], now)
    return [(DreamId(row["id"]), SeriesId(row["series_id"])) for row in rows]


async def to_look_at(db: Db, now: datetime, *, series: SeriesId | None = None) -> list[Look]:
    """Return the series that have a schedule, or that were not looked at for as long as a batch may wait."""
    return [
        Look(
            SeriesId(row["id"]),
            row["schedule"],
            row["batch_max_wait"],
            row["looked_at"],
            None if row["collecting"] is None else DreamId(row["collecting"]),
        )
        for row in await db.fetch(SQL["to_look_at"], now, series)
    ]


async def may_release(
    db: Db, left_alone_since: datetime, now: datetime, *, series: SeriesId | None = None
) -> list[Idle]:
    """Return the series in which a release may be due; whether it is, their lessons say."""
    rows = await db.fetch(SQL["may_release"], left_alone_since, now, series)
    return [Idle(SeriesId(row["id"]), row["platform_id"], row["external_id"]) for row in rows]


async def announce_run(
    db: Db,
    series: SeriesId,
    dream: DreamId,
    *,
    task_id: str,
    status: str | None,
    finished_at: datetime | None,
    batch_id: str | None = None,
    ends_batch: bool = False,
    now: datetime,
) -> bool:
    """Make the row of a task that a callback announced; False if the task is known."""
    arguments = (series, dream, task_id, status, finished_at, now, batch_id, ends_batch)
    return await db.fetchval(SQL["announce_run"], new_id(), *arguments) is not None


async def note_batch(
    db: Db, series: SeriesId, task_id: str, *, batch_id: str | None, ends_batch: bool, now: datetime
) -> None:
    """Note what a further callback says of a known task's batch."""
    await db.execute(SQL["note_batch"], series, task_id, batch_id, ends_batch, now)


async def open_batches(db: Db, series: SeriesId) -> list[NamedBatch]:
    """Return the batches that the platform named and has not called finished."""
    return [NamedBatch(**dict(row)) for row in await db.fetch(SQL["open_batches"], series)]


async def batch_of_task(
    db: Db, series: SeriesId, task_id: str
) -> tuple[DreamId | None, Status | None] | None:
    """Return the dream that has the task, and that dream's status; None if the task is not known."""
    row = await db.fetchrow(SQL["batch_of_task"], series, task_id)
    return None if row is None else (row["dream_id"], row["dream_status"])


async def batch_size(db: Db, dream: DreamId) -> int:
    """Return how many tasks a batch holds so far."""
    return int(await db.fetchval(SQL["batch_size"], dream))
