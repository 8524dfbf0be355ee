"""Replays as a person asks for them: of one dream, or of every dream that stored messages name."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import ValidationError

from yume.acts import dreams as named
from yume.acts import replays
from yume.acts import series as known
from yume.errors import PermanentError
from yume.events import PREFIX, Event, ReplayRequested, RunBatch
from yume.ids import DreamId
from yume.jetstream import JetStream
from yume.pipeline import STAGES, STREAM, Stage
from yume.resources import Resources
from yume.store import dreams
from yume.store.dreams import Progress

if TYPE_CHECKING:
    from yume.store.database import Db

POLL_S: Final = 0.2
OVER: Final = ("finished", "failed", "cancelled", "parked")

_REST: Final = re.compile(r"[^\s.>]+\.[^\s.>]+|>")  # a platform's token and a series', each may be `*`


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How dreams are to be run once more: one `key` is one replay of each, however often it is asked for."""

    key: str
    applies: bool
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Queued:
    """A replay that was asked for, and how far it is: `again` is the number of its dream."""

    id: DreamId
    platform: str
    series: str
    original: int
    step: str
    again: int
    applies: bool


@dataclass(frozen=True, slots=True)
class Passed:
    """A stored message that made no replay: skipped for what it is, or refused; `about` says which it is."""

    kind: Literal["skipped", "refused"]
    about: str
    why: str


async def replay(
    platform: str, series: str, number: int, wish: Wish, resources: Resources, *, step: str
) -> Queued:
    """Queue one dream's replay from a step on; a replay's own replay is one of its original."""
    async with resources.db.acquire() as db:
        dream = await named.numbered(db, await known.find(db, platform, series), number)
    return await _queue(dream.id, step, wish, resources)


async def replay_stored(
    subject: str, since: datetime, wish: Wish, resources: Resources, js: JetStream
) -> AsyncIterator[Queued | Passed]:
    """Queue each dream that a stored message of the subject names, once, from the step that consumes it.

    Whose dream it is say the rows, whatever the message says. What cannot be replayed holds up no other.
    """
    stage, seen = consumer_of(subject), set[DreamId]()
    async for stored in js.stored(STREAM, subject=subject, since=since):
        try:
            dream = DreamId(RunBatch.model_validate(Event.model_validate_json(stored.body).data).dream_id)
        except ValidationError:
            yield Passed("refused", f"message {stored.sequence}", "it names no dream")
            continue
        if dream in seen:
            continue
        seen.add(dream)
        async with resources.db.acquire() as db:
            row = await dreams.dream_named(db, dream)
            name = await _name(db, dream)
        if row is not None and row.replay_of is not None:
            yield Passed("skipped", name, "it is a replay itself")
            continue
        try:
            yield await _queue(dream, stage.name, wish, resources)
        except PermanentError as error:
            yield Passed("refused", name, str(error))


def consumer_of(subject: str) -> Stage:
    """Return the step that consumes a subject, whose platform and series may be wildcards."""
    found = [
        each
        for each in STAGES
        if subject.startswith(begin := f"{PREFIX}.{each.consumes}.")
        and _REST.fullmatch(subject[len(begin) :])
    ]
    if not found:
        kinds = ", ".join(each.consumes for each in STAGES)
        raise PermanentError(
            f"no step consumes the subject {subject!r}: it is {PREFIX}.KIND.PLATFORM.SERIES, "
            f"KIND one of {kinds}"
        )
    return found[0]


async def progress(replayed: Queued, resources: Resources) -> AsyncIterator[Progress]:
    """Give how far a replay is whenever that has changed, last of all how it ended or why it was parked."""
    last = None
    while True:
        async with resources.db.acquire() as db:
            found = await dreams.progress_of(db, replayed.id)
        assert found is not None
        if (found.status, found.step) != last:
            last = (found.status, found.step)
            yield found
        if found.status in OVER:
            return
        await asyncio.sleep(POLL_S)


async def difference(replayed: Queued, resources: Resources) -> list[str] | None:
    """Return what the replay's text has that its original's had not; None where there is no report."""
    async with resources.db.acquire() as db:
        key = (await dreams.dream_of(db, replayed.id)).report_key
    if key is None:
        return None
    report: dict[str, Any] = json.loads(await resources.archive.get(key.removesuffix(".md") + ".json"))
    return list(report["difference"])


async def _queue(dream: DreamId, step: str, wish: Wish, resources: Resources) -> Queued:
    async with resources.db.acquire() as db:
        about = await dreams.progress_of(db, dream)
        row = await dreams.dream_named(db, dream)
    if about is None or row is None:
        raise PermanentError(f"there is no dream {dream}")
    original = row.replay_of or row.id
    asked = ReplayRequested(
        platform=about.platform,
        series=about.series,
        dream_id=original,
        from_step=step,
        key=wish.key,
        applies=wish.applies,
        by=wish.by,
        why=wish.why,
    )
    await replays.queue(asked, resources)
    name = replays.replay_id(original, replays.step_named(step), wish.key)
    async with resources.db.acquire() as db:
        again = await dreams.dream_named(db, name)
        first = await dreams.dream_named(db, original)
    assert again is not None
    assert first is not None
    return Queued(
        name, about.platform, about.series, first.number, replays.step_named(step), again.number, wish.applies
    )


async def _name(db: Db, dream: DreamId) -> str:
    found = await dreams.progress_of(db, dream)
    return f"dream {dream}" if found is None else f"{found.platform}/{found.series} dream {found.number}"
