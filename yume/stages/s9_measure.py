"""S9: measure how often runs failed under each version of the lessons; end the dream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal

from yume.domain.dreams import Dream
from yume.domain.measurement import METHOD, METRIC_VERSION, RunFact, version_rates
from yume.errors import PermanentError
from yume.events import DreamFinished, Event, RunBatch, event
from yume.ids import DreamId, MeasurementId, derived_id
from yume.resources import Resources
from yume.store import dreams, effects, evidence
from yume.store.effects import Look

STEP: Final = "s9_measure"

Dated = tuple[RunFact, datetime]


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Record a look at every version, in this batch and over all; the same look twice is one row."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        known = await evidence.run_facts(db, dream.series.id, dream.before)

    everything = [(fact, finished_at) for fact, _, finished_at in known]
    own = [(fact, finished_at) for fact, owner, finished_at in known if owner == dream.id]
    looks = [*_looks(dream, "batch", own), *_looks(dream, "cumulative", everything)]

    async with resources.db.acquire() as db, db.transaction():
        now = resources.now()
        await dreams.mark_step(db, dream.id, STEP, now, counters={"measurements": len(looks)})
        await effects.save_measurements(db, dream.series.id, dream.id, looks, METHOD, now)
        await dreams.finish(db, dream.id, now)


async def tell(batch: RunBatch, resources: Resources, /) -> Sequence[Event]:
    """Tell each measurement, and last of all that the dream has finished."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        rows = await effects.measurements_of(db, dream.id)
    now = resources.now()
    about = {"platform": batch.platform, "series": batch.series, "dream_id": str(dream.id)}
    measured = [
        event("measurement.recorded", about | row, key=f"{row['id']}/recorded", at=now) for row in rows
    ]
    return [*measured, event("dream.finished", _finished(batch, dream), key=f"{dream.id}/finished", at=now)]


def _looks(dream: Dream, window: Literal["batch", "cumulative"], dated: Sequence[Dated]) -> list[Look]:
    """Rate each version over the runs of one window, with the span from its first run's end to its last's."""
    spans: defaultdict[str | None, list[datetime]] = defaultdict(list)
    for fact, finished_at in dated:
        spans[fact.counted_version].append(finished_at)
    return [
        Look(
            MeasurementId(
                derived_id(dream.id, window, rate.version or "", str(rate.lesson_set_id), METRIC_VERSION)
            ),
            rate,
            window,
            min(spans[rate.version]),
            max(spans[rate.version]),
        )
        for rate in version_rates(fact for fact, _ in dated)
    ]


def _finished(batch: RunBatch, dream: Dream) -> DreamFinished:
    if dream.result is None:
        raise PermanentError(f"dream {dream.id} has no result: S8 has not written one")
    return DreamFinished(
        platform=batch.platform,
        series=batch.series,
        dream_id=batch.dream_id,
        attempt=batch.attempt,
        number=dream.number,
        result=dream.result,
        reason=dream.reason,
        counters=dream.counters,
        usage=dream.usage,
        report=dream.report_key,
    )
