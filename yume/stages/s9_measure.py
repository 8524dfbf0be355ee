"""S9: measure how often runs failed under each version of the lessons; end the dream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from yume.domain.dreams import Dream
from yume.domain.measurement.rates import METHOD, METRIC_VERSION, RunFact, VersionRate, version_rates
from yume.errors import PermanentError
from yume.events import DreamFinished, Event, RunBatch, event
from yume.ids import DreamId, MeasurementId, derived_id
from yume.resources import Resources
from yume.store import dreams, effects, evidence
from yume.store.effects import Injection, Look

if TYPE_CHECKING:
    from yume.store.database import Db

STEP: Final = "s9_measure"

Dated = tuple[RunFact, datetime]


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Record a look at every version, in this batch and over all; the same look twice is one row."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        known = await evidence.run_facts(db, dream.series.id, dream.before)
        ended = await _version_ended(db, dream)
    now = resources.now()

    everything = [(fact, finished_at) for fact, _, finished_at in known]
    own = [(fact, finished_at) for fact, owner, finished_at in known if owner == dream.id]
    match dream.trigger:
        case "replay":
            looks = []
        case "release":
            looks = [] if ended is None else [_superseded(dream, ended, everything, now)]
        case _:
            looks = [*_looks(dream, "batch", own), *_looks(dream, "cumulative", everything)]

    async with resources.db.acquire() as db, db.transaction():
        counters = {"measurements": len(looks)}
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters)
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


async def _version_ended(db: Db, dream: Dream) -> Injection | None:
    """Return the slot write that a person's release took the place of before its time."""
    written = await effects.injection_of_dream(db, dream.id) if dream.forced else None
    if written is None or written.status != "written":
        return None
    return await effects.written_before(db, dream.series.id, written.id)


def _superseded(dream: Dream, ended: Injection, dated: Sequence[Dated], now: datetime) -> Look:
    """Close a version that was replaced before anything could be said of it, with the runs that it had."""
    assert ended.written_at is not None
    version = ended.platform_version
    mine = [each for each in dated if each[0].counted_version == version]
    found = [
        look for look in _looks(dream, "cumulative", mine) if look.rate.lesson_set_id == ended.lesson_set_id
    ]
    closed: dict[str, Any] = {"verdict": "no_evidence", "why": "superseded"}
    if found:
        return replace(found[0], rate=replace(found[0].rate, **closed))
    rate = VersionRate(version, ended.lesson_set_id, 0, 0, 0, {}, None, 0.0, 1.0, **closed)
    name = MeasurementId(derived_id(dream.id, "closed", str(ended.id)))
    return Look(name, rate, "cumulative", ended.written_at, max(now, ended.written_at))


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
