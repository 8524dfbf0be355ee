"""Whether a single lesson's failure still comes back: what is claimed of it, and what becomes of it.

Measurement.md section 6. The failure is the symptom that the lesson was drafted from, by its fingerprints.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from yume.domain.measurement.beside import Beside, beside
from yume.domain.measurement.claims import Q, Ratio, Recurrence, adjusted, exact_less, shrunk_ratios, summed
from yume.domain.measurement.effects import Table
from yume.domain.measurement.looks import versioned_batches
from yume.domain.measurement.placebo import blind_templates
from yume.domain.measurement.rates import RunFact, template_of
from yume.domain.measurement.window import Past, VersionedBatch, reference
from yume.ids import LessonId

State = Literal["helps", "harms", "ineffective", "no_exposure", "quiet", "watched"]

CHECKPOINTS: Final = (5, 10, 20, 40)  # expected hits at which something may be claimed, and at no other time
LOOKED_AT: Final = Q / len(CHECKPOINTS)
QUIET_HITS: Final = 3.0  # expected without one seen: at an unchanged rate less than one time in twenty
EXPOSED_HITS: Final = 1.0
EXPOSED_RUNS: Final = 300
EXPOSED_FOR: Final = timedelta(days=90)
JUDGED_HITS: Final = 10.0
HARDLY_HELPS: Final = 0.20

Place = tuple[UUID, str]  # a batch, and the version that its runs read


@dataclass(frozen=True, slots=True)
class Watched:
    """A lesson: since when and under which versions it stood in the slot, and the batch it came from.

    `kinds` are those of the tasks of that batch that it was drafted from; None is a task without a kind.
    """

    id: LessonId
    injected_at: datetime
    versions: frozenset[str]
    drafted_from: UUID | None
    kinds: frozenset[str | None] = frozenset()


@dataclass(frozen=True, slots=True)
class Marked:
    """Runs of one batch, version and stratum that have something in common."""

    batch: UUID
    version: str
    stratum: str
    runs: int


@dataclass(frozen=True, slots=True)
class Hits(Marked):
    """Runs that showed a lesson's failure; `failed` of them failed in the end."""

    lesson: LessonId
    failed: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a look at a lesson came to; `expected` are the hits that its runs would have had before it."""

    lesson: LessonId
    seen: Recurrence
    beside: Beside
    expected: float
    ratio: Ratio
    state: State
    checkpoint: int | None
    p_helps: float | None
    p_harms: float | None

    def to_json(self) -> dict[str, Any]:
        """Return what a measurement keeps of it."""
        return {
            "state": self.state,
            "before": {"runs": self.seen.before_runs, "hits": self.seen.before_hits},
            "expected_hits": self.expected,
            "ratio": [self.ratio.rr, self.ratio.low, self.ratio.high],
            "probability_that_it_helps": self.ratio.p_helps,
            "checkpoint": self.checkpoint,
            "p_helps": self.p_helps,
            "p_harms": self.p_harms,
            **self.beside.to_json(),
        }


@dataclass(frozen=True, slots=True)
class _Counted:
    lesson: Watched
    tables: tuple[Table, ...]
    seen: Recurrence
    beside: Beside
    since_hit: float


def look_at_lessons(
    lessons: Sequence[Watched],
    facts: Sequence[RunFact],
    hits: Iterable[Hits],
    *,
    past: Mapping[str, Past],
    reached: Mapping[LessonId, int],
    now: datetime,
) -> list[Told]:
    """Look at every lesson of a series that was ever in its slot.

    `reached` are the checkpoints at which each was judged so far: at each one a claim is tried once, together
    with the other lessons that reach one now. Templates that never read the slot are left out.
    """
    blind = blind_templates(facts)
    facts = [each for each in facts if each.template_version not in blind]
    history = versioned_batches(each for each in facts if each.outcome != "cancelled")
    by_lesson: defaultdict[LessonId, list[Hits]] = defaultdict(list)
    for each in hits:
        if template_of(each.stratum) not in blind:
            by_lesson[each.lesson].append(each)
    runs, fails = runs_by_place(facts), runs_by_place(facts, ("failure",))
    counted = [_count(each, history, runs, fails, by_lesson[each.id], past=past, now=now) for each in lessons]
    if not counted:
        return []
    ratios = shrunk_ratios([each.seen for each in counted]).ratios
    due = {each.lesson.id: _due(each, reached.get(each.lesson.id, 0)) for each in counted}
    helps, harms = _claims(counted, due)
    return [
        _told(each, ratio, due[each.lesson.id], helps, harms, runs=runs, history=history, now=now)
        for each, ratio in zip(counted, ratios, strict=True)
    ]


def expected_hits(seen: Recurrence) -> float:
    """Return how often the failure would have been seen had nothing changed; its rate is fixed before."""
    return (seen.before_hits + 0.5) / (seen.before_runs + 1) * seen.after_runs


def _count(
    lesson: Watched,
    history: Sequence[VersionedBatch],
    runs: Mapping[Place, Counter[str]],
    fails: Mapping[Place, Counter[str]],
    hits: Sequence[Hits],
    *,
    past: Mapping[str, Past],
    now: datetime,
) -> _Counted:
    drafted = frozenset() if lesson.drafted_from is None else frozenset({lesson.drafted_from})
    window = reference(history, injected_at=lesson.injected_at, made_from=drafted, past=past, now=now)
    before = {(each.batch, each.version) for each in window.batches if each.version not in lesson.versions}
    held = [each for each in history if each.version in lesson.versions and each.mature(now)]
    after = {(each.batch, each.version) for each in held}
    by_stratum = tables_of_places(runs, hits, new=after, reference=before)
    tables = tuple(by_stratum.values())
    seen = summed(tables)
    others = tables_of_places(runs, _others(fails, hits), new=after, reference=before)
    last_hit = max(
        (
            batch.ended_at
            for batch in held
            for hit in hits
            if (hit.batch, hit.version) == (batch.batch, batch.version)
        ),
        default=None,
    )
    since = [each for each in held if last_hit is None or each.ended_at > last_hit]
    quiet_runs = sum(
        runs[each.batch, each.version].total() for each in since if (each.batch, each.version) in runs
    )
    aside = beside(by_stratum, others, lesson.kinds)
    return _Counted(
        lesson, tables, seen, aside, (seen.before_hits + 0.5) / (seen.before_runs + 1) * quiet_runs
    )


def _others(fails: Mapping[Place, Counter[str]], hits: Sequence[Hits]) -> Iterable[Marked]:
    """Return the failed runs that did not show the lesson's failure."""
    own = Counter[tuple[UUID, str, str]]()
    for each in hits:
        own[each.batch, each.version, each.stratum] += each.failed
    for (batch, version), strata in fails.items():
        for stratum, count in strata.items():
            yield Marked(batch, version, stratum, count - own[batch, version, stratum])


def tables_of_places(
    runs: Mapping[Place, Counter[str]], hits: Iterable[Marked], *, new: set[Place], reference: set[Place]
) -> dict[str, Table]:
    """Return hits and runs of both sides, a table a stratum."""
    counted: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for place, strata in runs.items():
        column = 1 if place in new else 3 if place in reference else None
        if column is not None:
            for stratum, count in strata.items():
                counted[stratum][column] += count
    for each in hits:
        place = each.batch, each.version
        column = 0 if place in new else 2 if place in reference else None
        if column is not None:
            counted[each.stratum][column] += each.runs
    return {stratum: Table(*each) for stratum, each in counted.items()}


def runs_by_place(
    facts: Iterable[RunFact], outcomes: Sequence[str] = ("success", "failure")
) -> dict[Place, Counter[str]]:
    """Count the settled runs that ended so, by batch and version, a count a stratum."""
    counted: defaultdict[Place, Counter[str]] = defaultdict(Counter)
    for each in facts:
        version = each.counted_version
        if each.batch is not None and version is not None and each.settled and each.outcome in outcomes:
            counted[each.batch, version][each.stratum] += each.runs
    return dict(counted)


def _due(counted: _Counted, reached: int) -> int | None:
    """Return the checkpoint that a lesson has come to since it was last judged at one."""
    passed = [each for each in CHECKPOINTS if reached < each <= expected_hits(counted.seen)]
    return passed[-1] if passed else None


def _claims(
    counted: Sequence[_Counted], due: Mapping[LessonId, int | None]
) -> tuple[dict[LessonId, float], dict[LessonId, float]]:
    """Return the adjusted p-values of those that are due: that the failure got rarer, and more frequent."""
    judged = [each for each in counted if due[each.lesson.id] is not None]
    fewer = adjusted([exact_less(each.tables) for each in judged])
    more = adjusted([exact_less(_swapped(each.tables)) for each in judged])
    ids = [each.lesson.id for each in judged]
    return dict(zip(ids, fewer, strict=True)), dict(zip(ids, more, strict=True))


def _swapped(tables: Iterable[Table]) -> list[Table]:
    return [
        Table(each.reference_fails, each.reference_runs, each.new_fails, each.new_runs) for each in tables
    ]


def _told(
    counted: _Counted,
    ratio: Ratio,
    checkpoint: int | None,
    helps: Mapping[LessonId, float],
    harms: Mapping[LessonId, float],
    *,
    runs: Mapping[Place, Counter[str]],
    history: Sequence[VersionedBatch],
    now: datetime,
) -> Told:
    lesson, seen = counted.lesson, counted.seen
    fewer, more = helps.get(lesson.id), harms.get(lesson.id)
    since = [each for each in history if each.ended_at > lesson.injected_at]
    total = sum(
        runs[each.batch, each.version].total() for each in since if (each.batch, each.version) in runs
    )
    state = _state(counted, ratio, fewer, more, series_runs=total, age=now - lesson.injected_at)
    expected = expected_hits(seen)
    return Told(lesson.id, seen, counted.beside, expected, ratio, state, checkpoint, fewer, more)


def _state(
    counted: _Counted,
    ratio: Ratio,
    fewer: float | None,
    more: float | None,
    *,
    series_runs: int,
    age: timedelta,
) -> State:
    """Say what is known of a lesson, the plainest first."""
    expected = expected_hits(counted.seen)
    if more is not None and more <= LOOKED_AT:
        return "harms"
    if fewer is not None and fewer <= LOOKED_AT:
        return "helps"
    if expected >= JUDGED_HITS and ratio.p_helps < HARDLY_HELPS:
        return "ineffective"
    if (
        counted.since_hit < EXPOSED_HITS
        and (series_runs >= EXPOSED_RUNS or age >= EXPOSED_FOR)
        and not counted.seen.after_hits
    ):
        return "no_exposure"
    if not counted.seen.after_hits and expected >= QUIET_HITS:
        return "quiet"
    return "watched"
