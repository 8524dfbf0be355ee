"""A text in a slot that Yume did not write: it is left alone, shown to a person, and adopted by one only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from yume.clients.platform import Slot, SlotText
from yume.domain.adopting import rules_of
from yume.domain.dreams import Series
from yume.events import Event, event, folder_name
from yume.ids import InjectionId, LessonId, LessonSetId, derived_id, following_id
from yume.release import compile_text, owners_rules
from yume.resources import Resources
from yume.store import access, batches, effects, lessons
from yume.store.effects import Command
from yume.swap import FOREIGN, is_ours

if TYPE_CHECKING:
    from yume.store.database import Db

BY: Final = "yume:s8_commands"
SEEN: Final = "seen, not adopted"
EMPTY: Final = "the slot is empty: there is nothing to adopt"
OWN: Final = "the slot holds a text that Yume wrote or that was adopted: there is nothing to adopt"


async def leave_alone(command: Command, series: Series, found: SlotText, resources: Resources) -> None:
    """Leave somebody else's text alone: the series only reports until a person adopts it."""
    await _keep_text(series, found, resources)
    async with resources.db.acquire() as db, db.transaction():
        await effects.refused(db, command.id, "conflict", FOREIGN)
        now = resources.now()
        await access.demote(db, series.id, by=BY, why=FOREIGN, now=now)


def conflict_events(
    about: Mapping[str, Any], write: InjectionId, expected_version: str | None, now: datetime
) -> list[Event]:
    """Tell that a write met somebody else's text, and ask a person to look at it."""
    conflict = {**about, "expected_version": expected_version, "why": FOREIGN}
    review = {**about, "kind": "slot", "lesson_ids": [], "reasons": {"slot": [FOREIGN]}}
    return [
        event("slot.conflict", conflict, key=f"{write}/conflict", at=now),
        event("review.requested", review, key=f"{write}/review", at=now),
    ]


async def look(command: Command, series: Series, slot: Slot, resources: Resources) -> None:
    """Show what stands in the slot, for a person to decide on."""
    found = await slot.read(series.external_id)
    refusal = await _not_to_adopt(found, series, resources)
    if refusal is None:
        await _keep_text(series, found, resources)
    async with resources.db.acquire() as db:
        if refusal is not None:
            await effects.refused(db, command.id, "failed", refusal)
        else:
            await effects.saw(db, command.id, version=found.version, text_sha256=found.sha256, what=SEEN)


async def _keep_text(series: Series, found: SlotText, resources: Resources) -> None:
    key = slot_text_key(series, found.sha256)
    await resources.archive.put(key, found.text.encode())


def slot_text_key(series: Series, sha256: str) -> str:
    """Return where the archive holds a text that was found in a slot."""
    return f"slots/{series.platform}/{folder_name(series.external_id)}/{sha256}.txt"


async def _not_to_adopt(found: SlotText, series: Series, resources: Resources) -> str | None:
    """Say why there is nothing to adopt, None if a text stands there that is not Yume's."""
    if not found.text:
        return EMPTY
    return OWN if await is_ours(resources.db, series.id, found) else None


async def adopt(command: Command, series: Series, slot: Slot, resources: Resources) -> None:
    """Make the text that a person has seen the owner's rules and the series' set: the slot stays as it is."""
    found = await slot.read(series.external_id)
    if (refusal := await _not_to_adopt(found, series, resources)) is not None:
        async with resources.db.acquire() as db:
            await effects.refused(db, command.id, "failed", refusal)
        return
    if found.sha256 != command.text_sha256:
        await leave_alone(command, series, found, resources)
        return
    rules = rules_of(found.text)
    async with resources.db.acquire() as db, db.transaction():
        await batches.lock_series(db, series.id)
        now = resources.now()
        ids = [LessonId(following_id(command.id, place)) for place in range(1, len(rules) + 1)]
        for lesson, rule in zip(ids, rules, strict=True):
            await lessons.add_owners_rule(
                db, lesson, series.id, rule, by=command.by, why=f"adopted: {command.why}", now=now
            )
        adopted = await _add_adopted_set(db, command, series, found, now)
        await effects.written(
            db, series.id, command.id, found.version, now, how="current", lesson_set=adopted
        )


async def _add_adopted_set(
    db: Db, command: Command, series: Series, found: SlotText, now: datetime
) -> LessonSetId:
    """Keep a set whose text is the adopted one byte for byte, and whose body is what its rules compile to."""
    newest = await lessons.newest_set(db, series.id)
    made = compile_text(series, await owners_rules(db, series), newest)
    kept = replace(made, text=found.text, text_sha256=found.sha256)
    name = LessonSetId(derived_id(command.id, "lesson_set"))
    parent = None if newest is None else newest.id
    await lessons.add_set(db, name, series.id, kept, parent=parent, now=now)
    return name
