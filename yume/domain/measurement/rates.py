"""Failure rates by the version of the lessons that was injected, with the interval that belongs to them."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from yume.domain.runs import Outcome
from yume.ids import LessonSetId

METRIC_VERSION: Final = "1"
METHOD: Final = f"wilson 95 %, metric {METRIC_VERSION}"
Z_95: Final = 1.959963984540054
PENDING: Final = "pending"
UNKNOWN_VERSION: Final = "unknown_version"
EXCLUDED: Final = ("cancelled", "unknown", PENDING, UNKNOWN_VERSION)

VersionSource = Literal["reported", "inferred", "unknown", "mixed"]
EffectVerdict = Literal["improved", "regressed", "no_evidence", "not_comparable"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A rate with its bounds; no rate without runs."""

    rate: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RunFact:
    """Runs that nothing tells apart; `version` is what their first attempts read, "0" for none.

    `batch` is the dream whose batch they were in; `first_at` and `last_at` say when the first and the last of
    them ended. `washed_out` are the first runs of an experiment's batch, which its analysis leaves out.
    """

    version: str | None
    source: VersionSource
    outcome: Outcome
    lesson_set_id: LessonSetId | None
    settled: bool = True
    runs: int = 1
    batch: UUID | None = None
    template_version: str | None = None
    agent_model: str | None = None
    task_kind: str | None = None
    taxonomy: str | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    washed_out: bool = False

    @property
    def stratum(self) -> str:
        """What is compared with its like alone: the same template, model and kind of task."""
        return json.dumps([self.template_version, self.agent_model, self.task_kind], ensure_ascii=False)

    @property
    def counted_version(self) -> str | None:
        """The version that the run counts under; None if nobody knows which text it really read."""
        return self.version if self.source in ("reported", "inferred") else None


def template_of(stratum: str) -> str | None:
    """Return the template of a stratum's runs."""
    template: str | None = json.loads(stratum)[0]
    return template


def kind_of(stratum: str) -> str | None:
    """Return the kind of a stratum's tasks."""
    kind: str | None = json.loads(stratum)[2]
    return kind


@dataclass(frozen=True, slots=True)
class VersionRate:
    """One version's runs (successes and failures), what was left out, and the verdict on its effect."""

    version: str | None
    lesson_set_id: LessonSetId | None
    runs: int
    failures: int
    infrastructure: int
    excluded: Mapping[str, int]
    rate: float | None
    low: float
    high: float
    verdict: EffectVerdict = "no_evidence"
    why: str = "effect_not_computed"


def wilson(failures: int, runs: int, z: float = Z_95, *, deff: float = 1.0) -> Interval:
    """Return the Wilson score interval of runs that are worth runs / deff (measurement.md section 3, (1)).

    The ends are exactly 0 without a failure and exactly 1 with failures only; no runs give (None, 0, 1).
    """
    if not 0 <= failures <= runs:
        raise ValueError(f"{failures} failures of {runs} runs cannot be")
    if runs == 0:
        return Interval(None, 0.0, 1.0)
    rate, worth = failures / runs, runs / max(1.0, deff)
    scale = 1 + z * z / worth
    middle = (rate + z * z / (2 * worth)) / scale
    half = z * math.sqrt(rate * (1 - rate) / worth + z * z / (4 * worth * worth)) / scale
    low = 0.0 if failures == 0 else max(0.0, middle - half)
    high = 1.0 if failures == runs else min(1.0, middle + half)
    return Interval(rate, low, high)


def version_rates(facts: Iterable[RunFact]) -> list[VersionRate]:
    """Return one rate a version: those known first, by number, then the runs whose version nobody knows.

    A run without a known version (or with one that changed between attempts) counts in no rate.
    """
    by_version: defaultdict[tuple[str | None, LessonSetId | None], Counter[str]] = defaultdict(Counter)
    for fact in facts:
        known = fact.counted_version is not None
        key = (fact.version, fact.lesson_set_id) if known else (None, None)
        by_version[key][_counts_as(fact) if known else UNKNOWN_VERSION] += fact.runs
    return [_rate(*key, counts) for key, counts in sorted(by_version.items(), key=_place)]


def _counts_as(fact: RunFact) -> str:
    return fact.outcome if fact.settled else PENDING


def _rate(version: str | None, lesson_set_id: LessonSetId | None, counts: Counter[str]) -> VersionRate:
    failures = counts["failure"]
    runs = failures + counts["success"]
    interval = wilson(failures, runs)
    return VersionRate(
        version,
        lesson_set_id,
        runs,
        failures,
        counts["infrastructure"],
        {reason: counts[reason] for reason in EXCLUDED if counts[reason]},
        interval.rate,
        interval.low,
        interval.high,
    )


def _place(item: tuple[tuple[str | None, LessonSetId | None], Counter[str]]) -> tuple[bool, int, str, str]:
    version, lesson_set_id = item[0]
    number = int(version) if version is not None and version.isdecimal() else 0
    return version is None, number, version or "", str(lesson_set_id or "")


def clustered_wilson(clusters: Iterable[tuple[int, int]], z: float = Z_95) -> tuple[float, Interval]:
    """Return the design effect of runs that share tasks, and the Wilson interval of what they are worth.

    `clusters` are (failures, runs) a task. The design effect is the CRV1 variance of the mean over the
    binomial one, at least 1.
    """
    known = [(fails, runs) for fails, runs in clusters if runs > 0]
    fails, runs = sum(each for each, _ in known), sum(each for _, each in known)
    deff = 1.0
    if len(known) > 1 and 0 < fails < runs:
        rate, tasks = fails / runs, len(known)
        spread = tasks / (tasks - 1) * sum((x - n * rate) ** 2 for x, n in known) / runs**2
        deff = max(1.0, spread / (rate * (1 - rate) / runs))
    return deff, wilson(fails, runs, z, deff=deff)


def jeffreys(fails: int, runs: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return the Jeffreys interval, for comparison with others' figures; Yume shows Wilson's."""
    from scipy.stats import beta  # noqa: PLC0415  # a second to load

    ends = (beta.ppf(each, fails + 0.5, runs - fails + 0.5) for each in (alpha / 2, 1 - alpha / 2))
    low, high = map(float, ends)
    return low, high


def newcombe(new: tuple[int, int], reference: tuple[int, int], z: float = Z_95) -> tuple[float, float]:
    """Return the interval of the difference of two rates by their Wilson intervals (Newcombe 1998)."""
    one, other = wilson(*new, z), wilson(*reference, z)
    if one.rate is None or other.rate is None:
        return -1.0, 1.0
    difference = one.rate - other.rate
    down = math.hypot(one.rate - one.low, other.high - other.rate)
    up = math.hypot(one.high - one.rate, other.rate - other.low)
    return difference - down, difference + up


def agresti_caffo(new: tuple[int, int], reference: tuple[int, int], z: float = Z_95) -> tuple[float, float]:
    """Return the interval of the difference with one failure and one success added to each arm."""
    rates = [(fails + 1) / (runs + 2) for fails, runs in (new, reference)]
    spread = sum(
        rate * (1 - rate) / (runs + 2) for rate, (_, runs) in zip(rates, (new, reference), strict=True)
    )
    difference, half = rates[0] - rates[1], z * math.sqrt(spread)
    return difference - half, difference + half
