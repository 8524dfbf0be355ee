"""Which runs a version is compared with: its reference window (measurement.md section 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from yume.domain.measurement.comparison import Verdict

MOST_RUNS: Final = 400
MOST_AGE: Final = timedelta(days=60)
MATURITY_SHARE: Final = 0.95
MATURITY_MAX: Final = timedelta(hours=48)


@dataclass(frozen=True, slots=True)
class VersionedBatch:
    """The runs of one batch that read one version; `settled` of its `runs` have their final word.

    `runs` count whatever they came to but cancelled ones; `ended_at` is when the last of them ended.
    """

    batch: UUID
    version: str
    runs: int
    settled: int
    ended_at: datetime

    def mature(self, now: datetime) -> bool:
        """Tell whether it counts yet: failures take longer to be judged, so early runs flatter."""
        return self.settled >= MATURITY_SHARE * self.runs or now - self.ended_at > MATURITY_MAX


@dataclass(frozen=True, slots=True)
class Past:
    """What became of an earlier version."""

    verdict: Verdict
    rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The reference: whole batches, and the versions whose runs they are, newest first."""

    batches: tuple[VersionedBatch, ...]
    versions: tuple[str, ...]


def reference(
    history: Sequence[VersionedBatch],
    *,
    injected_at: datetime,
    made_from: Collection[UUID],
    past: Mapping[str, Past],
    now: datetime,
) -> Window:
    """Choose the batches that ended before the injection, newest first, back to 400 runs or 60 days.

    The batches in `made_from`, whose dream made the version, are left out whole: one that gave rise to a
    version is by selection a bad one. No single run is ever left out, whatever cites it. Earlier versions
    without a verdict are pooled; the first with one is the last that counts; rolled-back ones are skipped.
    """
    chosen: list[VersionedBatch] = []
    versions: list[str] = []
    runs = 0
    for each in sorted(history, key=lambda one: one.ended_at, reverse=True):
        before = past.get(each.version, Past("no_evidence"))
        if each.ended_at >= injected_at or each.batch in made_from or before.rolled_back:
            continue
        decided = [name for name in versions if past.get(name, Past("no_evidence")).verdict in _DECIDED]
        if injected_at - each.ended_at > MOST_AGE or runs >= MOST_RUNS:
            break
        if decided and each.version not in versions:
            break
        if not each.mature(now):
            continue
        chosen.append(each)
        runs += each.runs
        if each.version not in versions:
            versions.append(each.version)
    return Window(tuple(chosen), tuple(versions))


_DECIDED: Final = ("improved", "regressed")
