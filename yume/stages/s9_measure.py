"""S9: measure whether the versions of the lessons lowered the failure rate; end the dream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from yume import experiment
from yume.consequences import alarmed, move_experiment, restore, retire
from yume.domain.dreams import Dream
from yume.domain.measurement.cells import DEFAULTS, Parameters
from yume.domain.measurement.looks import METHODS, Injected, look
from yume.domain.measurement.rates import METRIC_VERSION, RunFact, VersionRate, version_rates
from yume.domain.measurement.recurrence import Told, look_at_lessons
from yume.domain.measurement.window import Past
from yume.errors import PermanentError
from yume.events import DreamFinished, Event, RunBatch, event
from yume.ids import DreamId, LessonSetId, MeasurementId, derived_id
from yume.resources import Resources
from yume.store import access, dreams, effects, evidence, measured, recurrence
from yume.store.effects import InjectedVersion, Injection
from yume.store.measured import Decided, Look

if TYPE_CHECKING:
    from yume.store.database import Db

STEP: Final = "s9_measure"
BATCHES: Final = ("callback", "schedule", "manual")
COMPARED: Final = 20  # versions, the newest ones; late verdicts change older ones no more


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Record a look at every version, in this batch and over all; the same look twice is one row."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        facts = await evidence.run_facts(db, dream.series.id, dream.before)
        versions = await effects.injected_versions(db, dream.series.id)
        decided = await measured.decided(db, dream.series.id)
        before = await measured.looks_before(db, dream.series.id)
        watched = await recurrence.watched_lessons(db, dream.series.id)
        names = [each.watched.id for each in watched]
        hits = await recurrence.lesson_hits(db, dream.series.id, names, dream.before)
        chains = await recurrence.lesson_chains(db, dream.series.id, watched, dream.before)
        reached = await recurrence.checkpoints_reached(db, dream.series.id)
        ended = await _version_ended(db, dream)
        going_on = await experiment.running(db, dream.series.id)
        policy = await access.policy_of(db, dream.series.id)
    goes_back, parameters = policy["auto_rollback"], replace(DEFAULTS, boundary=policy["boundary"])
    now = resources.now()

    told: list[Told] = []
    tried = going_on if dream.trigger in BATCHES else None
    match dream.trigger:
        case "replay":
            looks: list[Look] = []
        case "release":
            looks = [] if ended is None else [_superseded(dream, ended, facts, now)]
        case _:
            own = [each for each in facts if each.batch == dream.id]
            compared = Comparing(facts, versions, decided, before, now=now, parameters=parameters)
            whole = [compared.judged(each) for each in _looks(dream, "cumulative", facts)]
            looks = [*_looks(dream, "batch", own), *whole]
            lessons_seen = [each.watched for each in watched]
            told = look_at_lessons(lessons_seen, facts, hits, past=compared.past, reached=reached, now=now)

    async with resources.db.acquire() as db, db.transaction():
        counters = {"measurements": len(looks) + len(told) + (tried is not None)}
        await dreams.mark_step(db, dream.id, STEP, now, fence=dream.fence, counters=counters)
        looks = [await alarmed(db, dream, each, versions, goes_back=goes_back, now=now) for each in looks]
        await measured.save_measurements(
            db, dream.series.id, dream.id, looks, METHODS[parameters.boundary], now
        )
        await recurrence.save_lesson_looks(
            db, dream.series.id, dream.id, told, chains, since=_first(facts, now), now=now
        )
        await retire(db, dream, told, watched, now)
        if told:
            await restore(db, dream, watched, facts, hits, now=now)
        if tried is not None:
            await move_experiment(db, dream, facts, now)
        await dreams.finish(db, dream.id, now)


async def tell(batch: RunBatch, resources: Resources, /) -> Sequence[Event]:
    """Tell each measurement, a rollback that a person should decide on, and last of all the dream's end."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        rows = await measured.measurements_of(db, dream.id)
    now = resources.now()
    about = {"platform": batch.platform, "series": batch.series, "dream_id": str(dream.id)}
    recorded = [
        event("measurement.recorded", about | row, key=f"{row['id']}/recorded", at=now) for row in rows
    ]
    proposed = [
        event("review.requested", about | _proposal(row), key=f"{row['id']}/rollback", at=now)
        for row in rows
        if row["details"].get("rollback") == "proposed"
    ]
    finished = event("dream.finished", _finished(batch, dream), key=f"{dream.id}/finished", at=now)
    return [*recorded, *proposed, finished]


class Comparing:
    """Looks at versions with all that is known of the series' runs and slot."""

    def __init__(
        self,
        facts: Sequence[RunFact],
        versions: Sequence[InjectedVersion],
        decided: Mapping[str, Decided],
        before: Mapping[str, int],
        *,
        now: datetime,
        parameters: Parameters,
    ) -> None:
        self._facts = facts
        self._versions = {each.version: each for each in versions}
        self._newest = {each.version for each in versions[-COMPARED:]}
        self._decided = decided
        self._before = before
        self._now = now
        self._parameters = parameters

    def judged(self, rated: Look) -> Look:
        """Compare a version that Yume wrote, one of the newest; of any other the rate is all there is."""
        version = rated.rate.version
        injected = self._versions.get(version or "")
        if injected is None or version not in self._newest:
            return rated
        past = {name: each for name, each in self.past.items() if name != version}
        number = self._before.get(injected.version, 0) + 1
        made = look(
            *(self._facts, self._injected(injected)),
            past=past,
            now=self._now,
            number=number,
            parameters=self._parameters,
        )
        verdict, why = made.comparison.verdict, made.comparison.reason
        known = self._decided.get(injected.version)
        details: dict[str, Any] = {"look": number}
        if known is not None:
            details["decided"] = {"verdict": known.verdict, "at": known.at.isoformat(), "look": known.look}
        elif verdict in ("improved", "regressed"):
            details["decided"] = {"verdict": verdict, "at": self._now.isoformat(), "look": number}
        baseline = self._versions.get(made.window.versions[0]) if made.window.versions else None
        return replace(
            rated,
            rate=replace(rated.rate, verdict=verdict, why=why),
            measured=made,
            baseline=None if baseline is None else baseline.lesson_set_id,
            details=details,
        )

    @property
    def past(self) -> dict[str, Past]:
        """What became of every version."""
        return {name: self._past(each) for name, each in self._versions.items()}

    def _past(self, each: InjectedVersion) -> Past:
        known = self._decided.get(each.version)
        return Past("no_evidence" if known is None else known.verdict, each.rolled_back)

    def _injected(self, each: InjectedVersion) -> Injected:
        """Say what a version was made from: its dream's batch, else the last one that ended before it."""
        batches = {fact.batch for fact in self._facts}
        if each.made_from in batches and each.made_from is not None:
            return Injected(each.version, each.written_at, frozenset({each.made_from}))
        earlier = [
            (fact.last_at, fact.batch)
            for fact in self._facts
            if fact.batch is not None and fact.last_at is not None and fact.last_at < each.written_at
        ]
        last = max(earlier, default=None)
        return Injected(each.version, each.written_at, frozenset() if last is None else frozenset({last[1]}))


def _first(facts: Sequence[RunFact], now: datetime) -> datetime:
    return min((each.first_at for each in facts if each.first_at is not None), default=now)


def _looks(dream: Dream, window: Literal["batch", "cumulative"], facts: Sequence[RunFact]) -> list[Look]:
    """Rate each version over the runs of one window, with the span from its first run's end to its last's."""
    spans: dict[str | None, list[datetime]] = {}
    for fact in facts:
        ends = [at for at in (fact.first_at, fact.last_at) if at is not None]
        spans.setdefault(fact.counted_version, []).extend(ends)
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
        for rate in version_rates(facts)
    ]


async def _version_ended(db: Db, dream: Dream) -> Injection | None:
    """Return the slot write that a person's release took the place of before its time."""
    written = await effects.injection_of_dream(db, dream.id) if dream.forced else None
    if written is None or written.status != "written":
        return None
    return await effects.written_before(db, dream.series.id, written.id)


def _superseded(dream: Dream, ended: Injection, facts: Sequence[RunFact], now: datetime) -> Look:
    """Close a version that was replaced before anything could be said of it, with the runs that it had."""
    assert ended.written_at is not None
    version = ended.platform_version
    mine = [each for each in facts if each.counted_version == version]
    found = [
        each for each in _looks(dream, "cumulative", mine) if each.rate.lesson_set_id == ended.lesson_set_id
    ]
    closed: dict[str, Any] = {"verdict": "no_evidence", "why": "superseded"}
    if found:
        return replace(found[0], rate=replace(found[0].rate, **closed))
    rate = VersionRate(version, ended.lesson_set_id, 0, 0, 0, {}, None, 0.0, 1.0, **closed)
    name = MeasurementId(derived_id(dream.id, "closed", str(ended.id)))
    return Look(name, rate, "cumulative", ended.written_at, max(now, ended.written_at))


def _proposal(row: Mapping[str, Any]) -> dict[str, Any]:
    sets: LessonSetId | None = row["lesson_set_id"]
    return {
        "kind": "rollback",
        "lesson_ids": [],
        "lesson_set_id": None if sets is None else str(sets),
        "version": row["version"],
        "reasons": {"alarm": row["why"], "effect": [row["effect_low"], row["effect_high"]]},
    }


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
