"""What is due by the clock and not by an event: looks at the export, releases, calls for commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import structlog

from yume.acts import releases
from yume.acts.calls import EVERY, call_for
from yume.domain.schedule import look_is_due, read_schedule
from yume.errors import PermanentError
from yume.ids import SeriesId
from yume.jetstream import JetStream
from yume.resources import Resources
from yume.store import batches, effects

log = structlog.get_logger()


async def look_at_exports(resources: Resources) -> list[SeriesId]:
    """Open a dream where the clock says so, callback or not, and return its series: S1 finds the tasks."""
    now, opened = resources.now(), []
    async with resources.db.acquire() as db:
        looks = await batches.to_look_at(db, now)
    for look in looks:
        with _apart(look.series):
            if _is_due(look, now) and await _look(look, resources):
                opened.append(look.series)
    return opened


@contextmanager
def _apart(series: SeriesId) -> Iterator[None]:
    """Let what is wrong with one series hold up no other; its next turn comes with the next round."""
    try:
        yield
    except PermanentError as error:
        log.warning("series_left_out", series_id=str(series), error=str(error))


def _is_due(look: batches.Look, now: datetime) -> bool:
    collecting = look.collecting is not None
    schedule = read_schedule(look.schedule)
    return look_is_due(schedule, look.looked_at, look.batch_max_wait, now, collecting=collecting)


async def _look(look: batches.Look, resources: Resources) -> bool:
    """Open the dream, unless another orchestrator was faster."""
    now = resources.now()
    async with resources.db.acquire() as db, db.transaction():
        await batches.lock_series(db, look.series)
        still = {
            each.series: each.looked_at for each in await batches.to_look_at(db, now, series=look.series)
        }
        if still.get(look.series) != look.looked_at:
            return False
        dream = await batches.collecting(db, look.series, "schedule", now)
        await batches.close_batch(db, dream, batch_id=None, now=now, trigger="schedule")
    log.info("export_looked_at", dream_id=str(dream))
    return True


async def open_releases(resources: Resources, left_alone: timedelta) -> list[SeriesId]:
    """Open a short dream where something approved waits and nothing holds it any more; return the series."""
    now = resources.now()
    async with resources.db.acquire() as db:
        idle = await batches.may_release(db, now - left_alone, now)
    opened = []
    for each in idle:
        with _apart(each.series):
            if await releases.open_due(each, resources):
                opened.append(each.series)
    return opened


async def call_for_commands(resources: Resources, js: JetStream) -> None:
    """Call S8's component where a command waits for it; again, where it has not come for long."""
    now = resources.now()
    async with resources.db.acquire() as db:
        calls = await effects.to_announce(db, now - EVERY)
    for call in calls:
        await call_for(call, now=now, resources=resources, js=js)
