"""The call for S8's component: the row of a command says what is wanted, the call only that there is one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from yume.events import event
from yume.ids import SeriesId
from yume.jetstream import JetStream
from yume.resources import Resources
from yume.store import effects
from yume.store.effects import Call

EVERY: Final = timedelta(seconds=60)


async def call_for(call: Call, *, now: datetime, resources: Resources, js: JetStream) -> None:
    """Store the call; one that is not followed is a new one a minute later."""
    turn = (now - call.requested_at) // EVERY
    data = {"platform": call.platform, "series": call.series, "dream_id": None, "command": str(call.command)}
    await js.store(event("slot.requested", data, key=f"{call.command}/requested/{turn}", at=now))
    async with resources.db.acquire() as db:
        await effects.mark_requested(db, call.command)


async def call_at_once(series: SeriesId, resources: Resources, js: JetStream) -> None:
    """Call for what a person has just asked, without waiting for the orchestrator."""
    now = resources.now()
    async with resources.db.acquire() as db:
        waiting = {each.id for each in await effects.commands_of(db, series)}
        calls = [each for each in await effects.to_announce(db, now) if each.command in waiting]
    for call in calls:
        await call_for(call, now=now, resources=resources, js=js)
