"""Reads and writes `injections` and `measurements`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from yume.domain.rounds import Standing
from yume.ids import DreamId, InjectionId, LessonId, LessonSetId, SeriesId
from yume.store import queries

if TYPE_CHECKING:
    import asyncpg

    from yume.store.database import Db

SQL: Final = queries.load("effects.sql")

InjectionKind = Literal["write", "rollback", "kill", "experiment", "adopted"]
How = Literal["posted", "restored", "current"]
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
class Command:
    """What S8's component has to do or has done; `text_sha256` is that of the text it met or has to meet.

    A write of a dream that ended before it could settle it is one, too; until `held_until` its worker may
    still be at it.
    """

    id: InjectionId
    series_id: SeriesId
    lesson_set_id: LessonSetId | None
    kind: InjectionKind
    status: InjectionStatus
    expected_version: str | None
    platform_version: str | None
    text_sha256: str | None
    by: str
    why: str
    requested_at: datetime
    written_at: datetime | None
    how: How | None
    error: str | None
    held_until: datetime | None


@dataclass(frozen=True, slots=True)
class Call:
    """A series whose slot's component has to be called for a command."""

    command: InjectionId
    platform: str
    series: str
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class InSlot:
    """The version in the slot: how it came there, when, and what it has lived through since."""

    requested_at: datetime
    written_at: datetime
    standing: Standing


@dataclass(frozen=True, slots=True)
class InjectedVersion:
    """A version that stood in the slot; `made_from` is the batch of the dream that made it."""

    version: str
    kind: InjectionKind
    written_at: datetime
    lesson_set_id: LessonSetId | None
    made_from: DreamId | None
    rolled_back: bool


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
    dream: DreamId | None = None,
    text_sha256: str | None = None,
    now: datetime,
) -> None:
    """Note that a slot write is wanted, before anything is sent; asked twice, it is one row."""
    arguments = (series, lesson_set, kind, expected_version, by, why, now, dream, status, text_sha256)
    await db.execute(SQL["request"], injection, *arguments)


async def expect(db: Db, injection: InjectionId, expected_version: str | None) -> None:
    """Note that a pending write now expects another version in the slot."""
    await db.execute(SQL["expect"], injection, expected_version)


async def written(
    db: Db,
    series: SeriesId,
    injection: InjectionId,
    platform_version: str,
    now: datetime,
    *,
    how: How = "posted",
    lesson_set: LessonSetId | None = None,
) -> None:
    """Note that the slot holds the set, under the version of the platform; twice is once."""
    done = await db.execute(SQL["settle"], injection, "written", platform_version, now, None, lesson_set, how)
    if str(done) == "UPDATE 1":
        await db.execute(SQL["replace_older"], series, injection, now)


async def refused(
    db: Db, injection: InjectionId, status: Literal["conflict", "failed", "withheld"], error: str
) -> None:
    """Note that a pending write was not done, and why."""
    await db.execute(SQL["settle"], injection, status, None, None, error, None, None)


async def saw(db: Db, command: InjectionId, *, version: str, text_sha256: str, what: str) -> None:
    """Note what a look found in the slot."""
    await db.execute(SQL["saw"], command, version, text_sha256, what)


async def standing_of(db: Db, series: SeriesId) -> InSlot | None:
    """Return what the version in the slot has lived through; None where Yume never wrote."""
    row = await db.fetchrow(SQL["standing_of"], series)
    if row is None:
        return None
    standing = Standing(row["batches"], row["runs"], row["kind"], decided=row["decided"])
    return InSlot(row["requested_at"], row["written_at"], standing)


async def was_in_slot(db: Db, series: SeriesId, at: datetime) -> bool:
    """Say whether a version of Yume's stood in the slot by then."""
    return bool(await db.fetchval(SQL["was_in_slot"], series, at))


async def commands_of(db: Db, series: SeriesId) -> list[Command]:
    """Return what is to be done in a series' slot before any dream's write, oldest first."""
    return [Command(**dict(row)) for row in await db.fetch(SQL["commands_of"], series)]


async def was_overtaken(db: Db, command: InjectionId) -> bool:
    """Say whether a command that was asked for later was carried out before this one."""
    return bool(await db.fetchval(SQL["was_overtaken"], command))


async def version_of_set(db: Db, series: SeriesId, lesson_set: LessonSetId) -> str | None:
    """Return the platform's version under which a set last stood in the slot."""
    found = await db.fetchval(SQL["version_of_set"], series, lesson_set)
    return None if found is None else str(found)


async def command_of(db: Db, command: InjectionId) -> Command | None:
    """Return one command."""
    row = await db.fetchrow(SQL["command_of"], command)
    return None if row is None else Command(**dict(row))


async def untold_commands(db: Db, series: SeriesId) -> list[Command]:
    """Return the commands that were dealt with and that nobody has been told of."""
    return [Command(**dict(row)) for row in await db.fetch(SQL["untold_commands"], series)]


async def to_announce(db: Db, asked_before: datetime) -> list[Call]:
    """Return the commands that S8's component has to hear of, again where it left one for long."""
    return [Call(*row) for row in await db.fetch(SQL["to_announce"], asked_before)]


async def mark_requested(db: Db, command: InjectionId) -> None:
    """Note that the call for a command is stored."""
    await db.execute(SQL["mark_requested"], command)


async def mark_told(db: Db, command: InjectionId) -> None:
    """Note that what became of a command is told."""
    await db.execute(SQL["mark_told"], command)


async def slot_writes(db: Db, series: SeriesId) -> list[asyncpg.Record]:
    """Return the writes and commands of a series' slot, newest first, as rows for display."""
    return list(await db.fetch(SQL["slot_writes"], series))


async def written_before(db: Db, series: SeriesId, injection: InjectionId) -> Injection | None:
    """Return the slot write that another one replaced."""
    return _injection(await db.fetchrow(SQL["written_before"], series, injection))


async def texts_by_version(db: Db, series: SeriesId) -> dict[str, str]:
    """Return the text that stood in the slot under each version that Yume wrote."""
    rows = await db.fetch(SQL["texts_by_version"], series)
    return {row["platform_version"]: row["text"] for row in rows}


async def rules_by_version(db: Db, series: SeriesId) -> dict[str, dict[LessonId, str]]:
    """Return the rules that stood in the slot under each version that Yume wrote."""
    found: dict[str, dict[LessonId, str]] = {}
    for row in await db.fetch(SQL["rules_by_version"], series):
        found.setdefault(row["platform_version"], {})[row["id"]] = row["rule"]
    return found


async def switches(db: Db, series: SeriesId) -> list[tuple[datetime, str]]:
    """Return when a series' slot was written and under which version, oldest first."""
    return [(row["written_at"], row["platform_version"]) for row in await db.fetch(SQL["switches"], series)]


async def injected_versions(db: Db, series: SeriesId) -> list[InjectedVersion]:
    """Return every version that stood in the slot, oldest first."""
    found = [InjectedVersion(*row) for row in await db.fetch(SQL["injected_versions"], series)]
    return sorted(found, key=lambda each: each.written_at)


def _injection(row: asyncpg.Record | None) -> Injection | None:
    return None if row is None else Injection(**dict(row))
