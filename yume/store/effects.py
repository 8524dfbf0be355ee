"""Reads and writes `injections` and `measurements`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from yume.domain.measurement import VersionRate
from yume.ids import DreamId, InjectionId, LessonSetId, MeasurementId, SeriesId
from yume.store import queries

if TYPE_CHECKING:
    import asyncpg

    from yume.store.database import Db

SQL: Final = queries.load("effects.sql")

InjectionKind = Literal["write", "rollback", "kill", "experiment", "adopted"]
InjectionStatus = Literal["pending", "written", "conflict", "failed", "withheld"]


@dataclass(frozen=True, slots=True)
class Injection:
    """A slot write, asked for or done; `platform_version` is what the slot answered."""

    id: InjectionId
    lesson_set_id: LessonSetId | None
    kind: InjectionKind
    status: InjectionStatus
    expected_version: str | None
    platform_version: str | None
    written_at: datetime | None


@dataclass(frozen=True, slots=True)
class Look:
    """One version's rate in one window of time."""

    id: MeasurementId
    rate: VersionRate
    window: Literal["batch", "cumulative"]
    since: datetime
    until: datetime


async def in_slot(db: Db, series: SeriesId) -> Injection | None:
    """Return what Yume last wrote into the slot."""
    return _injection(await db.fetchrow(SQL["in_slot"], series))


async def injection_of(db: Db, injection: InjectionId) -> Injection | None:
    """Return one slot write."""
    return _injection(await db.fetchrow(SQL["injection_of"], injection))


async def injection_of_dream(db: Db, dream: DreamId) -> Injection | None:
    """Return the slot write that a dream made."""
    return _injection(await db.fetchrow(SQL["injection_of_dream"], dream))


async def request(
    db: Db,
    injection: InjectionId,
    series: SeriesId,
    lesson_set: LessonSetId | None,
    *,
    kind: InjectionKind,
    status: Literal["pending", "withheld"],
    expected_version: str | None,
    by: str,
    why: str,
    dream: DreamId | None,
    now: datetime,
) -> None:
    """Note that a slot write is wanted, before anything is sent; asked twice, it is one row."""
    await db.execute(
        SQL["request"], injection, series, lesson_set, kind, expected_version, by, why, now, dream, status
    )


async def expect(db: Db, injection: InjectionId, expected_version: str | None) -> None:
    """Note that a pending write now expects another version in the slot."""
    await db.execute(SQL["expect"], injection, expected_version)


async def written(
    db: Db, series: SeriesId, injection: InjectionId, platform_version: str, now: datetime
) -> None:
    """Note that the slot holds the set, under the version that the platform gave it."""
    await db.execute(SQL["settle"], injection, "written", platform_version, now, None)
    await db.execute(SQL["replace_older"], series, injection, now)


async def refused(
    db: Db, injection: InjectionId, status: Literal["conflict", "failed", "withheld"], error: str
) -> None:
    """Note that a pending write was not done, and why."""
    await db.execute(SQL["settle"], injection, status, None, None, error)


async def written_before(db: Db, series: SeriesId, injection: InjectionId) -> Injection | None:
    """Return the slot write that another one replaced."""
    return _injection(await db.fetchrow(SQL["written_before"], series, injection))


async def texts_by_version(db: Db, series: SeriesId) -> dict[str, str]:
    """Return the text that stood in the slot under each version that Yume wrote."""
    rows = await db.fetch(SQL["texts_by_version"], series)
    return {row["platform_version"]: row["text"] for row in rows}


async def save_measurements(
    db: Db, series: SeriesId, dream: DreamId, looks: Sequence[Look], method: str, now: datetime
) -> None:
    """Add one row a look; the same look twice is one row."""
    rates = [look.rate for look in looks]
    await db.execute(
        SQL["save_measurements"],
        series,
        dream,
        now,
        [look.id for look in looks],
        [rate.lesson_set_id for rate in rates],
        [look.since for look in looks],
        [look.until for look in looks],
        [rate.runs for rate in rates],
        [rate.failures for rate in rates],
        [rate.infrastructure for rate in rates],
        [json.dumps(dict(rate.excluded)) for rate in rates],
        [rate.rate for rate in rates],
        [rate.low for rate in rates],
        [rate.high for rate in rates],
        [rate.verdict for rate in rates],
        [rate.why for rate in rates],
        [method for _ in looks],
        [json.dumps({"window": look.window, "memory_version": look.rate.version}) for look in looks],
    )


async def measurements_of(db: Db, dream: DreamId) -> list[dict[str, Any]]:
    """Return what a dream measured, batch and cumulative, as it is told to others."""
    return [dict(row) for row in await db.fetch(SQL["measurements_of"], dream)]


def _injection(row: asyncpg.Record | None) -> Injection | None:
    return None if row is None else Injection(**dict(row))
