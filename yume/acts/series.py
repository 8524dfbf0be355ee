"""A series as a person names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yume.domain.dreams import Series
from yume.errors import PermanentError
from yume.store import access

if TYPE_CHECKING:
    from yume.store.database import Db


async def find(db: Db, platform: str, series: str) -> Series:
    """Return a series that is known."""
    found = await access.find_series(db, platform, series)
    if found is None:
        raise PermanentError(
            f"platform {platform!r} has no series {series!r}: `yume series list` shows those that there are"
        )
    return found
