"""Reads and writes `dream_runs`: how far each dream is, and what its steps leave on its row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from yume.domain.dreams import Dream, Result, Series, Status, Trigger
from yume.errors import PermanentError, StepTakenError
from yume.ids import DreamId, LessonId, LessonSetId, SeriesId
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
    number: int
    status: Status
    step: str | None
    announced: str | None
    attempt: int
    fence: int
    lease_until: datetime | None
    result: Result | None
    reason: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """A dream as an operator names it; `replay_of` is the original of a replay."""

    id: DreamId
    number: int
    trigger: Trigger
    status: Status
    step: str | None
    result: Result | None
    replay_of: DreamId | None


@dataclass(frozen=True, slots=True)
class Due:
    """A dream whose next event has to be stored (again)."""

    id: DreamId
    platform: str
    series: str
    step: str | None
    attempt: int


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


async def wait_until(db: Db, dream: DreamId, deadline: datetime) -> None:
    """Move the deadline: what the dream waits for is no failure of its own."""
    await db.execute(SQL["wait_until"], dream, deadline)


async def wake(db: Db, series: SeriesId, now: datetime) -> None:
    """Make a dream that waits to write due at once."""
    await db.execute(SQL["wake"], series, now)


async def take_lease(db: Db, dream: DreamId, holder: UUID, *, now: datetime, until: datetime) -> bool:
    """Make the dream's step one worker's own for a while; False if another has it."""
    return await db.fetchval(SQL["take_lease"], dream, holder, now, until) is not None


async def beat(db: Db, dream: DreamId, holder: UUID, *, now: datetime, until: datetime) -> None:
    """Note that the holder still works on the dream's step, and prolong its lease."""
    await db.execute(SQL["beat"], dream, holder, now, until)


async def give_lease_back(db: Db, dream: DreamId, holder: UUID) -> None:
    """Let the next worker have the dream's step at once."""
    await db.execute(SQL["give_lease_back"], dream, holder)


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
    fence: int = 0,
    counters: Mapping[str, int] | None = None,
    usage: Mapping[str, Any] | None = None,
) -> None:
    """Mark the step as done, first of all in the transaction that saves it.

    The row's lock lets one writer in; a second one that ran the same step finds the mark or a newer fence
    than its own, raises StepTakenError and so takes nothing with it into the database.
    """
    if await db.fetchval(SQL["mark_step"], dream, step, counters or {}, usage or {}, now, fence) is None:
        raise StepTakenError(f"dream {dream}: step {step} is another's or done, or the dream no longer runs")


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


async def save_drafts(db: Db, dream: DreamId, drafts: Iterable[LessonId]) -> None:
    """Keep which drafts S4 staged."""
    await db.execute(SQL["save_drafts"], dream, list(drafts))


async def save_operations(
    db: Db, dream: DreamId, operations: Sequence[Mapping[str, Any]], standing: Iterable[LessonId]
) -> None:
    """Keep what S5 proposed, and the lessons that stood when it did."""
    await db.execute(SQL["save_operations"], dream, list(operations), list(standing))


async def save_compiled(
    db: Db, dream: DreamId, compiled: Mapping[str, Any], target: LessonSetId | None, reason: str | None
) -> None:
    """Keep the text that S7 made, and the set that S8 has to see in the slot; without one, why not."""
    await db.execute(SQL["save_compiled"], dream, dict(compiled), target, reason)


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


async def park(db: Db, dream: DreamId, reason: str) -> bool:
    """Leave the dream to a person; False if it was not running."""
    return await db.fetchval(SQL["park"], dream, reason) is not None


async def resume(db: Db, dream: DreamId, *, by: str, why: str) -> bool:
    """Queue a parked dream again; False if it is not parked."""
    return await db.fetchval(SQL["resume"], dream, by, why) is not None


async def cancel(db: Db, dream: DreamId, reason: str, now: datetime) -> bool:
    """End a dream that has not ended; False if it has."""
    return await db.fetchval(SQL["cancel"], dream, now, reason) is not None


async def running_dream(db: Db, series: SeriesId) -> DreamId | None:
    """Return the dream in progress."""
    found = await db.fetchval(SQL["running_dream"], series)
    return None if found is None else DreamId(found)


async def dream_numbered(db: Db, series: SeriesId, number: int) -> Known | None:
    """Return a series' dream by its number."""
    row = await db.fetchrow(SQL["dream_numbered"], series, number)
    return None if row is None else Known(**dict(row))


async def dream_named(db: Db, dream: DreamId) -> Known | None:
    """Return a dream by its id."""
    row = await db.fetchrow(SQL["dream_named"], dream)
    return None if row is None else Known(**dict(row))


async def dreams_of_series(db: Db, series: SeriesId) -> list[asyncpg.Record]:
    """Return the dreams of a series, oldest first, as rows for display."""
    return list(await db.fetch(SQL["dreams_of_series"], series))


def _due(row: asyncpg.Record) -> Due:
    return Due(DreamId(row["id"]), row["platform_id"], row["external_id"], row["step"], row["attempt"])
