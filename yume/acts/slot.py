"""What a person asks for a series' slot: to go back, to switch off, to adopt what stands there."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

from yume.acts import series as known
from yume.adoption import slot_text_key
from yume.domain.adopting import rules_of
from yume.domain.dreams import Series
from yume.errors import PermanentError, TransientError
from yume.ids import InjectionId, LessonSetId, SeriesId, new_id
from yume.release import compile_text, owners_rules
from yume.resources import Resources
from yume.rollback import Rollback, ask, plan_rollback
from yume.store import access, batches, effects, lessons
from yume.store.effects import Command

if TYPE_CHECKING:
    from yume.store.database import Db

POLL_S: Final = 0.1
UNLIMITED: Final = 10**9  # tokens: a kill is refused for nothing, least of all for how much the owner wrote
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()


async def rollback(
    platform: str, series: str, to: int | None, resources: Resources, *, by: str, why: str
) -> tuple[InjectionId, Rollback]:
    """Ask for an old version; its lessons' states follow when the slot holds it."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        plan = await plan_rollback(db, found, to)
        command = InjectionId(new_id())
        await ask(db, plan, command, by=by, why=why, now=resources.now())
    return command, plan


async def kill(
    platform: str, series: str, resources: Resources, *, everything: bool, by: str, why: str
) -> InjectionId:
    """Ask for the owner's rules alone, or for an empty text; the series only reports from now on."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        target = await owners_set(db, found, resources, everything=everything)
        command = InjectionId(new_id())
        await effects.request(
            db,
            command,
            found.id,
            target,
            kind="kill",
            status="pending",
            expected_version=None,
            text_sha256=EMPTY_SHA256 if everything else None,
            by=by,
            why=why,
            now=resources.now(),
        )
        await access.demote(db, found.id, by=by, why=f"kill: {why}", now=resources.now())
    return command


async def owners_set(db: Db, series: Series, resources: Resources, *, everything: bool) -> LessonSetId:
    """Compile the owner's rules into a set of their own; `everything` leaves out even those."""
    newest = await lessons.newest_set(db, series.id)
    rules = [] if everything else await owners_rules(db, series)
    made = compile_text(series, rules, newest, budget_tokens=UNLIMITED)
    name = LessonSetId(new_id())
    parent = None if newest is None else newest.id
    await lessons.add_set(db, name, series.id, made, parent=parent, now=resources.now())
    return name


async def look(platform: str, series: str, resources: Resources, *, by: str) -> InjectionId:
    """Ask S8's component what stands in the slot: nobody else may read it."""
    return await _ask_to_adopt(platform, series, None, resources, by=by, why="a look before adopting")


async def adopt(
    platform: str, series: str, text_sha256: str, resources: Resources, *, by: str, why: str
) -> InjectionId:
    """Make the text that was shown, and no other, the owner's rules; what cannot be one is refused here."""
    async with resources.db.acquire() as db:
        found = await known.find(db, platform, series)
    rules_of(await shown_text(found, text_sha256, resources))
    return await _ask_to_adopt(platform, series, text_sha256, resources, by=by, why=why)


async def shown_text(series: Series, text_sha256: str, resources: Resources) -> str:
    """Return the text that a look has found."""
    text = await resources.archive.find(slot_text_key(series, text_sha256))
    if text is None:
        raise PermanentError(
            f"no look has found a text with sha256 {text_sha256} in the slot of {series.external_id!r}: "
            "`yume series adopt` without --sha256 looks"
        )
    return text.decode()


async def _ask_to_adopt(
    platform: str, series: str, text_sha256: str | None, resources: Resources, *, by: str, why: str
) -> InjectionId:
    command = InjectionId(new_id())
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await effects.request(
            db,
            command,
            found.id,
            None,
            kind="adopted",
            status="pending",
            expected_version=None,
            text_sha256=text_sha256,
            by=by,
            why=why,
            now=resources.now(),
        )
    return command


async def outcome(command: InjectionId, resources: Resources, *, patience_s: float) -> Command:
    """Wait until a command is dealt with; TransientError if that takes longer, and it stays asked for."""
    try:
        async with asyncio.timeout(patience_s):
            while True:
                async with resources.db.acquire() as db:
                    found = await effects.command_of(db, command)
                assert found is not None
                if found.status != "pending":
                    return found
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        raise TransientError(
            f"not carried out within {patience_s:g} s: is S8's worker up, and does the platform answer? "
            "It stays asked for, and is carried out as soon as that can be"
        ) from error


async def series_of(platform: str, series: str, resources: Resources) -> SeriesId:
    """Return the id under which a series' rows stand."""
    async with resources.db.acquire() as db:
        return (await known.find(db, platform, series)).id
