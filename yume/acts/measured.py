"""What was measured of a series, to be shown."""

from __future__ import annotations

from typing import Any

from yume.acts import series as known
from yume.resources import Resources
from yume.store import effects


async def looks(platform: str, series: str, resources: Resources) -> list[dict[str, Any]]:
    """Return every look at a version, newest first."""
    async with resources.db.acquire() as db:
        return await effects.looks_of(db, (await known.find(db, platform, series)).id)
