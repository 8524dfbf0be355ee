"""Reads all series at once, one query a fact, for whoever looks at the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yume.ids import SeriesId
from yume.store import queries

if TYPE_CHECKING:
    import asyncpg

    from yume.store.database import Db

Row = dict[str, Any]

SQL: Final = queries.load("overview.sql")


async def every_series(db: Db) -> list[Row]:
    """Return every series in the order of their names."""
    return [dict(row) for row in await db.fetch(SQL["every_series"])]


async def slots(db: Db) -> dict[SeriesId, Row]:
    """Return what Yume last wrote into each slot; a series without a write is left out."""
    return _by_series(await db.fetch(SQL["slots"]))


async def open_batches(db: Db) -> dict[SeriesId, Row]:
    """Return each series' open batch with its number of tasks."""
    return _by_series(await db.fetch(SQL["open_batches"]))


async def open_dreams(db: Db) -> list[Row]:
    """Return the dreams that are queued, running or parked, by series and number."""
    return [dict(row) for row in await db.fetch(SQL["open_dreams"])]


async def open_commands(db: Db) -> list[Row]:
    """Return what persons asked of the slots and nobody has done yet, by series, oldest first."""
    return [dict(row) for row in await db.fetch(SQL["open_commands"])]


async def drafts(db: Db) -> dict[SeriesId, int]:
    """Return how many drafts of each series wait for a person."""
    return {SeriesId(row["series_id"]): row["drafts"] for row in await db.fetch(SQL["drafts"])}


async def last_ended(db: Db) -> dict[SeriesId, Row]:
    """Return the dream of each series that ended last."""
    return _by_series(await db.fetch(SQL["last_ended"]))


def _by_series(rows: list[asyncpg.Record]) -> dict[SeriesId, Row]:
    return {SeriesId(row["series_id"]): dict(row) for row in rows}
