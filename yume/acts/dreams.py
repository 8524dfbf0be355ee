"""What a person does with a dream: start one now, cancel one, let a parked one go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yume.acts import series as known
from yume.acts.batches import collect
from yume.domain.dreams import Series
from yume.errors import PermanentError
from yume.resources import Resources
from yume.store import batches, dreams
from yume.store.dreams import Known

if TYPE_CHECKING:
    from yume.store.database import Db


async def start_now(platform: str, series: str, resources: Resources, *, by: str, why: str) -> Known:
    """Close the series' batch and queue its dream: S1 takes all that no dream has taken."""
    return await collect(platform, series, (), resources, close=True, by=by, why=why)


async def cancel(
    platform: str, series: str, number: int, resources: Resources, *, by: str, why: str
) -> Known:
    """End a dream that has not ended; its tasks, where it has not pulled them, are the next one's."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        dream = await numbered(db, found, number)
        if not await dreams.cancel(db, dream.id, f"cancelled by {by}: {why}", resources.now()):
            raise PermanentError(f"dream {number} is {dream.status}: there is nothing left to cancel")
    return dream


async def resume(
    platform: str, series: str, number: int, resources: Resources, *, by: str, why: str
) -> Known:
    """Queue a parked dream again: it goes on with the step at which it was parked."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        dream = await numbered(db, found, number)
        if not await dreams.resume(db, dream.id, by=by, why=why):
            raise PermanentError(
                f"dream {number} is {dream.status}, not parked: only a parked dream can be resumed; "
                "`yume replay` runs one that has ended once more"
            )
    return dream


async def numbered(db: Db, series: Series, number: int) -> Known:
    """Return a series' dream by its number."""
    dream = await dreams.dream_numbered(db, series.id, number)
    if dream is None:
        raise PermanentError(
            f"{series.platform}/{series.external_id} has no dream {number}: see `yume dreams`"
        )
    return dream
