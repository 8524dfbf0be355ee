"""Failure rates by the version of the lessons that was injected, with the interval that belongs to them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

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
    """What counts of one run; `version` is the slot's version that its first attempt read, "0" for none."""

    version: str | None
    source: VersionSource
    outcome: Outcome
    lesson_set_id: LessonSetId | None
    settled: bool = True

    @property
    def counted_version(self) -> str | None:
        """The version that the run counts under; None if nobody knows which text it really read."""
        return self.version if self.source in ("reported", "inferred") else None


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


def wilson(failures: int, runs: int, z: float = Z_95) -> Interval:
    """Return the Wilson score interval (measurement.md section 3, (1), with deff = 1).

    The ends are exactly 0 without a failure and exactly 1 with failures only; no runs give (None, 0, 1).
    """
    if not 0 <= failures <= runs:
        raise ValueError(f"{failures} failures of {runs} runs cannot be")
    if runs == 0:
        return Interval(None, 0.0, 1.0)
    rate = failures / runs
    scale = 1 + z * z / runs
    middle = (rate + z * z / (2 * runs)) / scale
    half = z * math.sqrt(rate * (1 - rate) / runs + z * z / (4 * runs * runs)) / scale
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
        by_version[key][_counts_as(fact) if known else UNKNOWN_VERSION] += 1
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
