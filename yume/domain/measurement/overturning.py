"""When a lesson that the measurement took out should come back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from yume.domain.measurement.claims import exact_less, summed
from yume.domain.measurement.looks import versioned_batches
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.recurrence import (
    CHECKPOINTS,
    LOOKED_AT,
    Hits,
    Watched,
    runs_by_place,
    tables_of_places,
)


def overturned(
    lesson: Watched,
    facts: Sequence[RunFact],
    hits: Iterable[Hits],
    *,
    retired_at: datetime,
    unexposed: bool,
    now: datetime,
) -> str | None:
    """Say why a lesson that was taken out should come back; None if nothing speaks for it.

    One whose situation no longer occurred comes back when its failure is seen again; any other when its
    failure got more frequent without it, by the exact test and no sooner than at the first checkpoint.
    """
    history = versioned_batches(each for each in facts if each.outcome != "cancelled")
    without = {
        (each.batch, each.version)
        for each in history
        if each.version not in lesson.versions and each.ended_at > retired_at and each.mature(now)
    }
    held = {
        (each.batch, each.version) for each in history if each.version in lesson.versions and each.mature(now)
    }
    own = [each for each in hits if each.lesson == lesson.id]
    tables = tables_of_places(runs_by_place(facts), own, new=held, reference=without).values()
    seen = summed(tables)
    if unexposed:
        return f"its failure was seen again, in {seen.before_hits} runs" if seen.before_hits else None
    expected = (seen.after_hits + 0.5) / (seen.after_runs + 1) * seen.before_runs
    if expected < CHECKPOINTS[0] or exact_less(tables) > LOOKED_AT:
        return None
    return f"its failure came back without it: {seen.before_hits} hits, {expected:.1f} expected"
