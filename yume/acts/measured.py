"""What was measured of a series and of its lessons, to be shown."""

from __future__ import annotations

from typing import Any

from yume.acts import series as known
from yume.resources import Resources
from yume.store import measured, recurrence


async def looks(platform: str, series: str, resources: Resources) -> list[dict[str, Any]]:
    """Return every look at a version, newest first."""
    async with resources.db.acquire() as db:
        return await measured.looks_of(db, (await known.find(db, platform, series)).id)


async def lessons(platform: str, series: str, resources: Resources) -> list[dict[str, Any]]:
    """Return the newest look at each lesson that ever stood in the slot."""
    async with resources.db.acquire() as db:
        return await recurrence.lesson_looks(db, (await known.find(db, platform, series)).id)
