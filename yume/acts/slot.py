"""What a person asks for a series' slot: to go back, to switch off, to adopt what stands there."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yume.acts import series as known
from yume.adoption import slot_text_key
from yume.domain.adopting import rules_of
from yume.domain.dreams import Series
from yume.domain.lessons import Lesson
from yume.errors import PermanentError, TransientError
from yume.ids import InjectionId, LessonSetId, SeriesId, new_id
from yume.release import compile_text, owners_rules
from yume.resources import Resources
from yume.store import access, batches, effects, lessons
from yume.store.effects import Command
from yume.store.lessons import LessonSet

if TYPE_CHECKING:
    from yume.store.database import Db

POLL_S: Final = 0.1
UNLIMITED: Final = 10**9  # tokens: a kill is refused for nothing, least of all for how much the owner wrote
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Rollback:
    """What going back from one set to another means: `owners` are the owner's rules that go along."""

    series: Series
    left: LessonSet
    target: LessonSet
    retired: Sequence[Lesson]
    approved: Sequence[Lesson]

    @property
    def owners(self) -> list[Lesson]:
        """The owner's rules among those that go."""
        return [each for each in self.retired if each.origin == "owner"]


async def plan_rollback(db: Db, series: Series, to: int | None) -> Rollback:
    """Find the version to go back to: the one that the slot held before, or version `to`."""
    rows = [row for row in await effects.slot_writes(db, series.id) if row["status"] == "written"]
    if not rows:
        raise PermanentError(
            f"the slot of {series.external_id!r} was never written: there is nothing to go back to"
        )
    held = {row["version"]: row for row in reversed(rows)}
    left = await lessons.set_by_id(db, rows[0]["lesson_set_id"])
    assert left is not None
    earlier = [version for version in held if version < left.version]
    if to is None and not earlier:
        raise PermanentError(
            f"v{left.version} is the first version: `yume kill` empties the slot of what is Yume's"
        )
    wanted = max(earlier) if to is None else to
    if wanted not in held:
        there = ", ".join(f"v{version}" for version in sorted(held))
        raise PermanentError(f"the slot never held v{wanted}; it held {there}")
    if wanted == left.version:
        raise PermanentError(f"the slot holds v{wanted} already")
    target = await lessons.set_numbered(db, series.id, wanted)
    assert target is not None
    gone = await lessons.lessons_by_id(db, series.id, set(left.lesson_ids) - set(target.lesson_ids))
    back = await lessons.lessons_by_id(db, series.id, target.lesson_ids)
    return Rollback(
        series,
        left,
        target,
        [each for each in gone.values() if each.state == "approved"],
        [each for each in back.values() if each.state != "approved"],
    )


async def rollback(
    platform: str, series: str, to: int | None, resources: Resources, *, by: str, why: str
) -> tuple[InjectionId, Rollback]:
    """Ask for an old version; its lessons' states follow when the slot holds it."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        plan = await plan_rollback(db, found, to)
        command = InjectionId(new_id())
        await effects.request(
            db,
            command,
            found.id,
            plan.target.id,
            kind="rollback",
            status="pending",
            expected_version=None,
            by=by,
            why=why,
            now=resources.now(),
        )
    return command, plan


async def kill(
    platform: str, series: str, resources: Resources, *, everything: bool, by: str, why: str
) -> InjectionId:
    """Ask for the owner's rules alone, or for an empty text; the series only reports from now on."""
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        target = await _owners_set(db, found, resources, everything=everything)
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


async def _owners_set(db: Db, series: Series, resources: Resources, *, everything: bool) -> LessonSetId:
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
