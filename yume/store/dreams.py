"""Reads and writes `dream_runs`: how far each dream is, and what its steps leave on its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from yume.domain.dreams import PATIENCE, Dream, Result, Series, Status, Trigger
from yume.errors import PermanentError, StepTakenError
from yume.ids import DreamId, SeriesId, new_id
from yume.store import queries

if TYPE_CHECKING:
    import asyncpg

    from yume.store.database import Db

SQL: Final = queries.load("dreams.sql")


@dataclass(frozen=True, slots=True)
class Progress:
    """Whose dream it is and how far; `announced` is the last step whose event is known to be stored."""

    platform: str
    series: str
    status: Status
    step: str | None
    announced: str | None
    attempt: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Due:
    """A dream whose next event has to be stored (again)."""

    id: DreamId
    platform: str
    series: str
    step: str | None
    attempt: int


async def lock_series(db: Db, series: SeriesId) -> None:
    """Let nobody else collect, close or start for this series until the transaction ends."""
    await db.execute(SQL["lock_series"], series)


async def collecting(db: Db, series: SeriesId, trigger: Trigger, now: datetime) -> DreamId:
    """Return the dream that collects the series' next batch; open it if there is none."""
    found = await db.fetchval(SQL["collecting"], series)
    return DreamId(found or await db.fetchval(SQL["open_dream"], new_id(), series, trigger, now))


async def close_batch(db: Db, dream: DreamId, *, batch_id: str | None, now: datetime) -> bool:
    """Close the batch and queue its dream; False if somebody else did."""
    return str(await db.execute(SQL["close_batch"], dream, now, batch_id, now)) == "UPDATE 1"


async def start_next(db: Db, series: SeriesId, now: datetime) -> DreamId | None:
    """Start the oldest queued dream, on the newest lesson set as its frozen base, unless one is running."""
    found = await db.fetchval(SQL["start_next"], series, now, now + PATIENCE)
    return None if found is None else DreamId(found)


async def waiting_series(db: Db) -> list[SeriesId]:
    """Return the series in which a dream could start now."""
    return [SeriesId(row["series_id"]) for row in await db.fetch(SQL["waiting_series"])]


async def overdue_batches(db: Db, now: datetime) -> list[tuple[DreamId, SeriesId]]:
    """Return the batches that have waited as long as their series allows."""
    rows = await db.fetch(SQL["overdue_batches"], now)
    return [(DreamId(row["id"]), SeriesId(row["series_id"])) for row in rows]


async def unannounced(db: Db, now: datetime, quiet_since: datetime) -> list[Due]:
    """Return the running dreams whose next event was never stored, or is due again."""
    return [_due(row) for row in await db.fetch(SQL["unannounced"], now, quiet_since)]


async def untold_endings(db: Db, before: datetime) -> list[Due]:
    """Return the dreams that ended before an instant and whose last event was never stored."""
    return [_due(row) for row in await db.fetch(SQL["untold_endings"], before)]


async def revive_stalled(db: Db, silent_since: datetime, now: datetime) -> list[DreamId]:
    """Make the step of each dream that gave no sign of life due again, as a new attempt."""
    return [DreamId(row["id"]) for row in await db.fetch(SQL["revive_stalled"], silent_since, now)]


async def past_deadline(db: Db, now: datetime) -> list[DreamId]:
    """Return the running dreams whose time is over."""
    return [DreamId(row["id"]) for row in await db.fetch(SQL["past_deadline"], now)]


async def mark_announced(db: Db, dream: DreamId, step: str, now: datetime) -> None:
    """Note that the event of this step is stored; an older or foreign note changes nothing."""
    await db.execute(SQL["mark_announced"], dream, step, now)


async def put_off(db: Db, dream: DreamId, until: datetime) -> bool:
    """Make the dream's step due again at an instant; False if the dream is not running."""
    return str(await db.execute(SQL["put_off"], dream, until)) == "UPDATE 1"


async def beat(db: Db, dream: DreamId, now: datetime) -> None:
    """Note that a step of the dream is being worked on."""
    await db.execute(SQL["beat"], dream, now)


async def progress_of(db: Db, dream: DreamId) -> Progress | None:
    """Return how far a dream is; None if there is no such dream."""
    row = await db.fetchrow(SQL["progress_of"], dream)
    return None if row is None else Progress(**dict(row))


async def mark_step(
    db: Db,
    dream: DreamId,
    step: str,
    now: datetime,
    *,
    counters: Mapping[str, int] | None = None,
    usage: Mapping[str, Any] | None = None,
) -> None:
    """Mark the step as done, first of all in the transaction that saves it.

    The row's lock lets one writer in; a second one that ran the same step finds the mark, raises
    StepTakenError and so takes nothing with it into the database.
    """
    if await db.fetchval(SQL["mark_step"], dream, step, counters or {}, usage or {}, now) is None:
        raise StepTakenError(f"dream {dream}: step {step} is already done, or the dream no longer runs")


async def dream_of(db: Db, dream: DreamId) -> Dream:
    """Return a started dream with its series' policy."""
    row = await db.fetchrow(SQL["dream_of"], dream)
    if row is None:
        raise PermanentError(f"there is no dream {dream}")
    if row["started_at"] is None:
        raise PermanentError(f"dream {dream} has not been started: it is {row['status']}")
    values = dict(row)
    series = Series(
        id=values.pop("series_id"),
        platform=values.pop("platform_id"),
        external_id=values.pop("external_id"),
        mode=values.pop("mode"),
        batch_max_runs=values.pop("batch_max_runs"),
        batch_max_wait=values.pop("batch_max_wait"),
        projection_budget_tokens=values.pop("projection_budget_tokens"),
        language=values.pop("language"),
        instructions=values.pop("instructions"),
        taxonomy_id=values.pop("series_taxonomy_id"),
    )
    return Dream(series=series, **values)


async def save_pulled(
    db: Db, dream: DreamId, *, broken: Sequence[Mapping[str, str]], proposals: Sequence[Mapping[str, Any]]
) -> None:
    """Keep what was left out of the batch, and the agents' own proposals."""
    await db.execute(SQL["save_pulled"], dream, list(broken), list(proposals))


async def save_operations(db: Db, dream: DreamId, operations: Sequence[Mapping[str, Any]]) -> None:
    """Keep what S5 proposed."""
    await db.execute(SQL["save_operations"], dream, list(operations))


async def save_gate(db: Db, dream: DreamId, gate: Mapping[str, Any]) -> None:
    """Keep what S6 decided: written once."""
    await db.execute(SQL["save_gate"], dream, dict(gate))


async def save_result(db: Db, dream: DreamId, result: Result, reason: str | None, report_key: str) -> None:
    """Keep how the dream ends and where its report lies."""
    await db.execute(SQL["save_result"], dream, result, reason, report_key)


async def finish(db: Db, dream: DreamId, now: datetime) -> None:
    """End the dream well."""
    await db.execute(SQL["finish"], dream, now)


async def fail(db: Db, dream: DreamId, error: str, now: datetime) -> bool:
    """End the dream badly; False if it was not running."""
    return await db.fetchval(SQL["fail"], dream, now, error) is not None


async def dreams_of_series(db: Db, series: SeriesId) -> list[asyncpg.Record]:
    """Return the dreams of a series, oldest first, as rows for display."""
    return list(await db.fetch(SQL["dreams_of_series"], series))


def _due(row: asyncpg.Record) -> Due:
    return Due(DreamId(row["id"]), row["platform_id"], row["external_id"], row["step"], row["attempt"])
