"""What a series' next text would be: compiled in one way for S7, the preview and the orchestrator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import UUID

from yume.domain.dreams import Dream, Series
from yume.domain.lessons import Lesson
from yume.domain.projection import LeftOut, project
from yume.domain.rounds import Compiled, Standing, choose, compiled, crowding, dwell
from yume.experiment import running
from yume.ids import LessonId, SeriesId
from yume.store import effects, lessons
from yume.store.lessons import LessonSet

if TYPE_CHECKING:
    from yume.store.database import Db

STICKS: Final = ("rollback", "kill")


@dataclass(frozen=True, slots=True)
class Release:
    """The text that would come next, beside `base`, the one in the slot; None where Yume never wrote.

    `target` is a set that holds it already. `waits` says why it may not be released yet, though it differs.
    """

    base: LessonSet | None
    compiled: Compiled
    target: LessonSet | None
    standing: Standing | None
    waits: str | None

    @property
    def changed(self) -> bool:
        """Whether the text differs from the one that it would take the place of."""
        return self.compiled.body != ("" if self.base is None else self.base.body)

    @property
    def added(self) -> list[LessonId]:
        """The lessons that would be new in the slot."""
        old = () if self.base is None else self.base.lesson_ids
        return [each for each in self.compiled.lesson_ids if each not in old]

    @property
    def removed(self) -> list[LessonId]:
        """The lessons that would no longer be in the slot."""
        old = () if self.base is None else self.base.lesson_ids
        return [each for each in old if each not in self.compiled.lesson_ids]


async def next_release(db: Db, series: Series) -> Release:
    """Compile what is approved now, for the slot as it is now."""
    newest = await lessons.newest_set(db, series.id)
    base = await set_in_slot(db, series.id)
    slot = await effects.standing_of(db, series.id)
    if slot is not None and base is not None and slot.standing.kind in STICKS:
        moved = await lessons.moved_since(db, series.id, slot.requested_at, but_at=slot.written_at)
        if not moved:  # what a person went back to stays until there is something new
            return Release(base, _as_it_is(base), base, slot.standing, None)
    approved = await lessons.lessons_in(db, series.id, "approved")
    made = _compile(series, approved, base=base, newest=newest)
    standing = None if slot is None else slot.standing
    if (target := _held_by(made, base, newest)) is not None:  # its own words, which name its own version
        made = replace(_as_it_is(target), left_out=made.left_out)
    experiment = await running(db, series.id)
    waits = dwell(standing) if experiment is None else f"an experiment running: {experiment.kind}"
    return Release(base, made, target, standing, waits)


async def set_in_slot(db: Db, series: SeriesId) -> LessonSet | None:
    """Return the set that Yume last wrote into the slot; None where it never did."""
    current = await effects.in_slot(db, series)
    if current is None or current.lesson_set_id is None:
        return None
    return await lessons.set_by_id(db, current.lesson_set_id)


async def shown_release(db: Db, dream: Dream) -> Release:
    """Compile for a replay that only shows: on its original's base, with what its gate would let in."""
    decided = [] if dream.gate is None else dream.gate["decisions"]
    let_in = {
        LessonId(UUID(each["lesson"]))
        for each in decided
        if each["decision"] == "approve" and each["kind"] in ("add", "merge")
    }
    named = await lessons.lessons_by_id(db, dream.series.id, {*(dream.standing_ids or ()), *let_in})
    base = None if dream.base_lesson_set_id is None else await lessons.set_by_id(db, dream.base_lesson_set_id)
    written = await effects.was_in_slot(db, dream.series.id, dream.frozen_at)
    made = _compile(dream.series, list(named.values()), base=base if written else None, newest=base)
    return Release(base, made, None, None, None)


def _compile(
    series: Series, approved: Sequence[Lesson], *, base: LessonSet | None, newest: LessonSet | None
) -> Compiled:
    """Choose and compile; without a text in the slot there is no quota."""
    kept = None if base is None else base.lesson_ids
    chosen, over_quota = choose(approved, kept)
    while True:
        made = compile_text(series, chosen, newest, waiting=over_quota)
        given_up = None if kept is None else crowding(chosen, made.lesson_ids, kept)
        if given_up is None:
            return made
        chosen = [each for each in chosen if each.id != given_up.id]
        over_quota = [LeftOut(given_up.id, "quota"), *over_quota]


def compile_text(
    series: Series,
    chosen: Sequence[Lesson],
    newest: LessonSet | None,
    *,
    waiting: Sequence[LeftOut] = (),
    budget_tokens: int | None = None,
) -> Compiled:
    """Compile lessons as the version after `newest`, under the series' budget unless another is given."""
    version = 1 if newest is None else newest.version + 1
    projection = project(
        chosen,
        series=series.external_id,
        version=version,
        budget_tokens=series.projection_budget_tokens if budget_tokens is None else budget_tokens,
        language=series.language,
        waiting=waiting,
    )
    return compiled(projection, version)


async def owners_rules(db: Db, series: Series) -> list[Lesson]:
    """Return the rules that the series' owner wrote and that stand."""
    return [each for each in await lessons.lessons_in(db, series.id, "approved") if each.origin == "owner"]


def _as_it_is(known: LessonSet) -> Compiled:
    """Return a set that is kept as what would be compiled."""
    return Compiled(
        version=known.version,
        body=known.body,
        body_sha256=known.body_sha256,
        text=known.text,
        text_sha256=known.text_sha256,
        tokens=known.tokens,
        lesson_ids=tuple(known.lesson_ids),
        left_out=(),
    )


def _held_by(made: Compiled, *known: LessonSet | None) -> LessonSet | None:
    """Return the set that holds the same lessons in the same words: the one in the slot, or the newest."""
    for each in known:
        if each is not None and each.body == made.body and tuple(each.lesson_ids) == made.lesson_ids:
            return each
    return known[0] if known[0] is not None and known[0].body == made.body else None
