"""S8's other door: carry out what a person asked for the slot, before any dream's write and in every mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, assert_never

from yume import adoption
from yume.clients.platform import Slot, SlotText
from yume.domain.dreams import Series
from yume.errors import TransientError
from yume.events import Data, Event, event
from yume.release import set_in_slot
from yume.resources import Resources
from yume.store import access, batches, dreams, effects, lessons
from yume.store.effects import Command
from yume.store.lessons import LessonSet
from yume.swap import Wanted, facts_of, swap

if TYPE_CHECKING:
    from yume.store.database import Db

NAME: Final = "s8_commands"
HOW: Final = {"posted": "reposted", "restored": "restored", "current": "current"}


@dataclass(frozen=True, slots=True)
class Work:
    """One command, and where it is carried out."""

    command: Command
    series: Series
    slot: Slot
    resources: Resources


async def run(about: Data, resources: Resources, /) -> None:
    """Carry out the series' commands, oldest first; run again, it finds nothing left."""
    async with resources.db.acquire() as db:
        series = await access.find_series(db, about.platform, about.series)
        waiting = [] if series is None else await effects.commands_of(db, series.id)
        if series is None or not waiting:
            return
        platform = await access.platform_of(db, about.platform)
    async with resources.slot(platform) as slot:
        for command in waiting:
            await _carry_out(Work(command, series, slot, resources))


async def tell(about: Data, resources: Resources, /) -> Sequence[tuple[Command, Sequence[Event]]]:
    """Return what has to be told of each command that was dealt with, oldest first."""
    async with resources.db.acquire() as db:
        series = await access.find_series(db, about.platform, about.series)
        untold = [] if series is None else await effects.untold_commands(db, series.id)
        return [(each, await _events(each, about, resources, db)) for each in untold]


async def _carry_out(work: Work) -> None:
    match work.command.kind:
        case "write":
            await _settle_left_over(work)
        case "experiment":
            await _put_back(work)
        case "rollback" | "kill":
            await _cancel_dream(work)
            await _put_back(work)
        case "adopted" if work.command.text_sha256 is None:
            await adoption.look(work.command, work.series, work.slot, work.resources)
        case "adopted":
            await _cancel_dream(work)
            await adoption.adopt(work.command, work.series, work.slot, work.resources)
        case _:
            assert_never(work.command.kind)


async def _cancel_dream(work: Work) -> None:
    """End a dream in progress: what it stands on is about to go."""
    command, now = work.command, work.resources.now()
    async with work.resources.db.acquire() as db, db.transaction():
        await batches.lock_series(db, work.series.id)
        running = await dreams.running_dream(db, work.series.id)
        if running is not None:
            await dreams.cancel(db, running, f"{command.kind} by {command.by}: {command.why}", now)


async def _settle_left_over(work: Work) -> None:
    """Find out whether the write of a dream that ended meanwhile took place: the slot says it."""
    left = work.command
    _wait_for_holder(left, work.resources.now())
    found = await work.slot.read(work.series.external_id)
    if not await _note_written(work, left, found):
        await _refuse(work, left)


def _wait_for_holder(left: Command, now: datetime) -> None:
    if left.held_until is not None and now < left.held_until:
        raise TransientError("a dream's write may still be under way", retry_in=left.held_until - now)


async def _give_way(work: Work) -> None:
    """Let a later command stand that another worker was faster with: this one may have stood still."""
    async with work.resources.db.acquire() as db:
        if not await effects.was_overtaken(db, work.command.id):
            return
        await effects.refused(db, work.command.id, "failed", "a later command was carried out before it")
    raise TransientError(f"the {work.command.kind} by {work.command.by} came too late")


async def _note_written(work: Work, left: Command, found: SlotText) -> bool:
    """Note that a dream's write took place, if what stands in the slot shows it and no row has it."""
    async with work.resources.db.acquire() as db, db.transaction():
        target = left.lesson_set_id and await lessons.set_by_id(db, left.lesson_set_id)
        current = await effects.in_slot(db, work.series.id)
        newer = current is None or current.platform_version != found.version
        if not target or found.sha256 != target.text_sha256 or not newer:
            return False
        await effects.written(db, work.series.id, left.id, found.version, work.resources.now())
    return True


async def _refuse(work: Work, left: Command) -> None:
    async with work.resources.db.acquire() as db:
        await effects.refused(db, left.id, "failed", "its dream ended before the slot was written")


async def _left_over(work: Work) -> list[Command]:
    async with work.resources.db.acquire() as db:
        return [each for each in await effects.commands_of(db, work.series.id) if each.kind == "write"]


async def _put_back(work: Work) -> None:
    """Have the slot hold the command's set; the lessons' states follow in the transaction that says so.

    A dream that is cancelled may have got its write through just before: what stands there right before the
    swap shows it. After the swap it no longer can, for the slot is at another version than it expects.
    """
    command, resources = work.command, work.resources
    assert command.lesson_set_id is not None
    async with resources.db.acquire() as db:
        target = await lessons.set_by_id(db, command.lesson_set_id)
        restore = await effects.version_of_set(db, work.series.id, command.lesson_set_id)
    assert target is not None

    async def before(found: SlotText) -> None:
        for left in await _left_over(work):
            await _note_written(work, left, found)
        await _give_way(work)
        async with resources.db.acquire() as db:
            await effects.expect(db, command.id, found.version)

    wanted = Wanted(work.series.external_id, work.series.id, target, str(command.id), restore)
    swapped = await swap(work.slot, wanted, resources.db, before=before)
    if swapped.how == "foreign":
        await adoption.leave_alone(command, work.series, swapped.found, resources)
        return
    for left in await _left_over(work):
        if swapped.how == "current":  # nothing was written that would keep a dream's write out
            _wait_for_holder(left, resources.now())
        await _refuse(work, left)
    async with resources.db.acquire() as db, db.transaction():
        await batches.lock_series(db, work.series.id)
        now = resources.now()
        standing = await set_in_slot(db, work.series.id)
        version = swapped.found.version
        await effects.written(db, work.series.id, command.id, version, now, how=swapped.how)
        if command.kind != "experiment":  # both arms are approved: a coin says nothing of a lesson
            await _move_lessons(db, work, standing, target, now)


async def _move_lessons(db: Db, work: Work, left: LessonSet | None, target: LessonSet, now: datetime) -> None:
    """Retire what the slot no longer holds, approve again what it holds; a kill retires all of Yume's."""
    command = work.command
    by, why = command.by, f"{'rolled_back' if command.kind == 'rollback' else 'killed'}: {command.why}"
    standing = await lessons.lessons_in(db, work.series.id, "approved")
    gone = set(left.lesson_ids if left else ()) - set(target.lesson_ids)
    if command.kind == "kill":  # one that names the empty text takes the owner's rules along, released or not
        everything = command.text_sha256 is not None
        gone |= {each.id for each in standing if everything or each.origin != "owner"}
    for each in standing:
        if each.id in gone and each.id not in target.lesson_ids and not _is_kept(each.origin, by):
            await lessons.move(db, each.id, "approved", "retired", by=by, why=why, now=now)
    for each in (await lessons.lessons_by_id(db, work.series.id, target.lesson_ids)).values():
        if each.state == "archived":
            await lessons.move(db, each.id, "archived", "draft", by=by, why=why, now=now)
        if each.state != "approved":
            source = "draft" if each.state == "archived" else each.state
            await lessons.move(db, each.id, source, "approved", by=by, why=why, now=now)


def _is_kept(origin: str, by: str) -> bool:
    """Say whether a lesson stays whatever the slot holds: an owner's rule goes only by a person."""
    return origin == "owner" and by.startswith("yume")


async def _events(command: Command, about: Data, resources: Resources, db: Db) -> list[Event]:
    """Say what became of a command: what stands in the slot now, or that somebody else's text does."""
    now = resources.now()
    base: dict[str, Any] = {
        "platform": about.platform,
        "series": about.series,
        "dream_id": None,
        "by": command.by,
        "why": command.why,
    }
    if command.status == "conflict":
        return adoption.conflict_events(base, command.id, command.expected_version, now)
    if command.status != "written" or command.lesson_set_id is None:
        return []
    stands = await lessons.set_by_id(db, command.lesson_set_id)
    before = await effects.written_before(db, command.series_id, command.id)
    assert stands is not None
    data = (
        base
        | facts_of(stands)
        | {
            "from": None if before is None else before.platform_version,
            "to": command.platform_version,
            "platform_version": command.platform_version,
            "previous_version": None if before is None else before.platform_version,
            "kind": command.kind,
            "how": "adopted" if command.kind == "adopted" else HOW[command.how or "posted"],
        }
    )
    kind = {"adopted": "lesson.published", "experiment": "slot.switched"}.get(
        command.kind, "slot.rolled_back"
    )
    return [event(kind, data, key=f"{command.id}/{kind}", at=now)]
