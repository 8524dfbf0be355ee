"""Puts one text into one slot: look, compare, write, read back. Only S8's component opens a slot."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from yume.clients.http import Refused
from yume.clients.platform import Slot, SlotConflict, SlotText
from yume.domain.guard import check_bytes
from yume.errors import PermanentError, TransientError
from yume.ids import SeriesId
from yume.store import lessons
from yume.store.effects import How
from yume.store.lessons import LessonSet

if TYPE_CHECKING:
    from yume.store.database import Database

FOREIGN: Final = "slot holds foreign text"
UNSUPPORTED: Final = frozenset({404, 422})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one series' slot is to hold; `restore` is an old version of the platform's with this very text."""

    series: str
    series_id: SeriesId
    target: LessonSet
    key: str
    restore: str | None = None


@dataclass(frozen=True, slots=True)
class Swapped:
    """What stands in the slot now: the wanted text and how it came there, or a text that is not Yume's."""

    found: SlotText
    how: How | Literal["foreign"]


Before = Callable[[SlotText], Awaitable[None]]


async def swap(slot: Slot, wanted: Wanted, db: Database, *, before: Before) -> Swapped:
    """Write once; where somebody else was faster, look who it was: Yume's own text is swapped once more.

    `before` is awaited with what stands there, right before each write; it raises if the write is no
    longer wanted. A text that Yume did not make is never overwritten.
    """
    found = await slot.read(wanted.series)
    for _ in range(2):
        if found.sha256 == wanted.target.text_sha256:
            return Swapped(found, "current")
        if not await is_ours(db, wanted.series_id, found):
            return Swapped(found, "foreign")
        await before(found)
        check_bytes(wanted.target.text)
        try:
            how = await _write(slot, wanted, found)
        except SlotConflict:
            found = await slot.read(wanted.series)
            continue
        except PermanentError:
            # A receipt that makes no sense: what stands in the slot decides.
            if (found := await slot.read(wanted.series)).sha256 != wanted.target.text_sha256:
                raise
            return Swapped(found, "posted")
        return Swapped(_checked(await slot.read(wanted.series), wanted), how)
    raise TransientError(
        f"the slot of {wanted.series!r} changed twice while it was written: it holds version {found.version}"
    )


async def _write(slot: Slot, wanted: Wanted, found: SlotText) -> How:
    """Point at the old version where there is one and the platform can, else post the text."""
    if wanted.restore is not None:
        try:
            await slot.restore(
                wanted.series,
                version=wanted.restore,
                expected_version=found.version,
                key=f"{wanted.key}:{found.version}:restore",
            )
        except Refused as refused:
            if refused.status not in UNSUPPORTED:
                raise
        else:
            return "restored"
    await slot.write(
        wanted.series,
        text=wanted.target.text,
        lesson_set_id=wanted.target.id,
        lesson_set_version=wanted.target.version,
        expected_version=found.version,
        key=f"{wanted.key}:{found.version}",
    )
    return "posted"


def _checked(found: SlotText, wanted: Wanted) -> SlotText:
    """Compare what stands in the slot with what was meant to, byte for byte, before calling it written."""
    if hashlib.sha256(found.text.encode()).hexdigest() != wanted.target.text_sha256:
        raise TransientError(
            f"the slot of {wanted.series!r} holds version {found.version} with sha256 {found.sha256[:12]}, "
            f"{wanted.target.text_sha256[:12]} was written"
        )
    return found


def facts_of(held: LessonSet) -> dict[str, Any]:
    """Return what an event tells of the set that the slot holds now."""
    return {
        "lesson_set_id": str(held.id),
        "lesson_set_version": held.version,
        "text": held.text,
        "text_sha256": held.text_sha256,
        "body_sha256": held.body_sha256,
        "tokens": held.tokens,
    }


async def is_ours(db: Database, series: SeriesId, found: SlotText) -> bool:
    """Say whether the slot is empty or holds a text that Yume made."""
    if not found.text:
        return True
    async with db.acquire() as connection:
        return await lessons.set_with_text(connection, series, found.sha256) is not None
