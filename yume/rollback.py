"""Going back to an older version: what it means for the lessons, and how it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from yume.domain.dreams import Series
from yume.domain.lessons import Lesson
from yume.errors import PermanentError
from yume.ids import InjectionId
from yume.store import effects, lessons, measured
from yume.store.lessons import LessonSet

if TYPE_CHECKING:
    from yume.store.database import Db


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


async def plan_back(db: Db, series: Series) -> Rollback | None:
    """Find the newest older version that no look has found worse; None if there is none to go back to."""
    rows = [row for row in await effects.slot_writes(db, series.id) if row["status"] == "written"]
    decided = await measured.decided(db, series.id)
    worse = {name for name, each in decided.items() if each.verdict == "regressed"}
    current = rows[0]["version"] if rows else None
    earlier = [
        row["version"]
        for row in rows
        if current is not None
        and row["version"] is not None
        and row["version"] < current
        and row["platform_version"] not in worse
    ]
    return await plan_rollback(db, series, max(earlier)) if earlier else None


async def ask(db: Db, plan: Rollback, command: InjectionId, *, by: str, why: str, now: datetime) -> None:
    """Ask for the older version; its lessons' states follow when the slot holds it."""
    await effects.request(
        db,
        command,
        plan.series.id,
        plan.target.id,
        kind="rollback",
        status="pending",
        expected_version=None,
        by=by,
        why=why,
        now=now,
    )
