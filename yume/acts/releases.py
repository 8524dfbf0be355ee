"""When what is approved goes into the slot: shown before, opened when it is due, or by a person at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from yume.acts import series as known
from yume.domain.dreams import Series
from yume.domain.gating import POLICY_VERSION
from yume.errors import PermanentError
from yume.ids import DreamId
from yume.release import Release, next_release
from yume.resources import Resources
from yume.store import access, batches, lessons
from yume.store.batches import Idle

if TYPE_CHECKING:
    from yume.store.database import Db

BY: Final = "yume:orchestrator"


@dataclass(frozen=True, slots=True)
class Preview:
    """The next release of a series beside what its slot holds; `rules` are the words of the lessons."""

    series: Series
    release: Release
    rules: dict[str, str]

    @property
    def price(self) -> str | None:
        """What releasing now would cost: how far the version in the slot is from being measured."""
        base, waits = self.release.base, self.release.waits
        return None if base is None or waits is None else f"v{base.version} has {waits}"


async def preview(platform: str, series: str, resources: Resources) -> Preview:
    """Return what the next release would be."""
    async with resources.db.acquire() as db:
        found = await known.find(db, platform, series)
        release = await next_release(db, found)
        named = {*release.added, *release.removed, *(each.lesson_id for each in release.compiled.left_out)}
        texts = await lessons.lessons_by_id(db, found.id, named)
    return Preview(found, release, {str(each.id): each.rule for each in texts.values()})


async def release_now(platform: str, series: str, resources: Resources, *, by: str, why: str) -> DreamId:
    """Queue a release that does not wait for the end of the dwell: a person's act, kept with who and why."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        if found.mode == "report_only":
            raise PermanentError(
                f"{platform}/{series} only reports: nothing is written; `yume series mode` lets it write"
            )
        if not (await next_release(db, found)).changed:
            raise PermanentError(
                f"the slot of {platform}/{series} holds all that is approved: see `yume preview`"
            )
        return await _queue(db, found, by=by, why=why, forced=True, now=resources.now())


async def open_due(idle: Idle, resources: Resources) -> bool:
    """Queue a release if what is approved differs from the slot and may go there; False if not."""
    async with resources.db.acquire() as db, db.transaction():
        await batches.lock_series(db, idle.series)
        now = resources.now()
        found = await access.find_series(db, idle.platform, idle.external_id)
        still = await batches.may_release(db, now, now, series=idle.series)
        if found is None or not still:
            return False
        release = await next_release(db, found)
        if not release.changed or release.waits is not None:
            return False
        why = "approved lessons waited, and the version in the slot may be replaced"
        await _queue(db, found, by=BY, why=why, forced=False, now=now)
    return True


async def _queue(db: Db, series: Series, *, by: str, why: str, forced: bool, now: datetime) -> DreamId:
    """Queue the short dream; the gate on its row says that it decides on nothing new."""
    gate: dict[str, Any] = {
        "policy_version": POLICY_VERSION,
        "mode": series.mode,
        "base": None,
        "at": now.isoformat(),
        "by": by,
        "decisions": [],
    }
    return await batches.queue_release(db, series.id, by=by, why=why, forced=forced, gate=gate, now=now)
