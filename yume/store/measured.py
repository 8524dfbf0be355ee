"""Reads and writes looks at versions in `measurements`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from yume.domain.measurement.comparison import Effect, Verdict
from yume.domain.measurement.experiments import METHOD, Experiment
from yume.domain.measurement.looks import Measured
from yume.domain.measurement.rates import VersionRate, wilson
from yume.domain.measurement.switchback import Switchback
from yume.ids import DreamId, LessonSetId, MeasurementId, SeriesId, derived_id
from yume.store import queries

if TYPE_CHECKING:
    from yume.store.database import Db

SQL: Final = queries.load("measured.sql")


@dataclass(frozen=True, slots=True)
class Look:
    """One version's rate in one window of time, with the effect where it was compared."""

    id: MeasurementId
    rate: VersionRate
    window: Literal["batch", "cumulative"]
    since: datetime
    until: datetime
    measured: Measured | None = None
    baseline: LessonSetId | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effect(self) -> Effect | None:
        """The difference to the reference, where one was computed."""
        return None if self.measured is None else self.measured.comparison.effect


@dataclass(frozen=True, slots=True)
class Decided:
    """The first verdict on a version: when, and at which look."""

    verdict: Verdict
    at: datetime
    look: int | None


async def save_measurements(
    db: Db, series: SeriesId, dream: DreamId, looks: Sequence[Look], method: str, now: datetime
) -> None:
    """Add one row a look; the same look twice is one row."""
    rates = [look.rate for look in looks]
    await db.execute(
        SQL["save_measurements"],
        series,
        dream,
        now,
        [look.id for look in looks],
        [rate.lesson_set_id for rate in rates],
        [look.since for look in looks],
        [look.until for look in looks],
        [rate.runs for rate in rates],
        [rate.failures for rate in rates],
        [rate.infrastructure for rate in rates],
        [json.dumps(dict(rate.excluded)) for rate in rates],
        [rate.rate for rate in rates],
        [rate.low for rate in rates],
        [rate.high for rate in rates],
        [rate.verdict for rate in rates],
        [rate.why for rate in rates],
        [method for _ in looks],
        [json.dumps(_details(look)) for look in looks],
        [look.baseline for look in looks],
        [None if look.effect is None else look.effect.rd for look in looks],
        [None if look.effect is None else look.effect.cs95.low for look in looks],
        [None if look.effect is None else look.effect.cs95.high for look in looks],
        [
            None if look.effect is None else max(look.effect.log_e_better, look.effect.log_e_worse)
            for look in looks
        ],
    )


def _details(look: Look) -> dict[str, Any]:
    measured = {} if look.measured is None else look.measured.to_json()
    return {"window": look.window, "memory_version": look.rate.version, **measured, **look.details}


async def decided(db: Db, series: SeriesId) -> dict[str, Decided]:
    """Return the first verdict on each version that has one."""
    rows = await db.fetch(SQL["decided"], series)
    return {row["version"]: Decided(row["verdict"], row["created_at"], row["look"]) for row in rows}


async def looks_before(db: Db, series: SeriesId) -> dict[str, int]:
    """Return how often each version was compared so far."""
    return {row["version"]: row["looks"] for row in await db.fetch(SQL["looks_before"], series)}


async def looks_of(db: Db, series: SeriesId) -> list[dict[str, Any]]:
    """Return every look at a version, newest first, for display."""
    return [dict(row) for row in await db.fetch(SQL["looks_of"], series)]


async def measurements_of(db: Db, dream: DreamId) -> list[dict[str, Any]]:
    """Return what a dream measured, batch and cumulative, as it is told to others."""
    return [dict(row) for row in await db.fetch(SQL["measurements_of"], dream)]


async def save_experiment_look(
    db: Db,
    series: SeriesId,
    dream: DreamId,
    about: Experiment,
    made: Switchback,
    *,
    washed_out: int,
    now: datetime,
) -> None:
    """Add a row for what an experiment's blocks came to so far; the same look twice is one row."""
    rate = wilson(made.new_fails, made.new_runs)
    bounds = made.cs95
    details = {
        "window": "experiment",
        "evidence": "randomised",
        "kind": about.kind,
        "blocks": made.blocks,
        "washed_out": washed_out,
        "reference": {"runs": made.reference_runs, "failures": made.reference_fails},
        "p_flip": made.p_flip,
        "se": made.se,
        "sigma_b": made.sigma_b,
        "rollback_alarm": made.rollback_alarm,
        "experiment": about.to_json(),
    }
    await db.execute(
        SQL["save_experiment_look"],
        MeasurementId(derived_id(dream, "experiment")),
        *(series, dream, now, about.new, about.reference, about.started_at, made.new_runs, made.new_fails),
        *(rate.rate, rate.low, rate.high, made.rd),
        *(None if bounds is None else bounds.low, None if bounds is None else bounds.high),
        *(made.verdict, made.reason, METHOD, details),
    )
