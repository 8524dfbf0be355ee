"""What stands beside a lesson's own effect: the same failure elsewhere, and the other failures meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from yume.domain.measurement.claims import Recurrence, ratio_beside, summed
from yume.domain.measurement.effects import Table
from yume.domain.measurement.rates import kind_of


@dataclass(frozen=True, slots=True)
class Beside:
    """A lesson's failure in the kinds of task that it was learnt from and in all others; other failures.

    A lesson that helps only where it was learnt has memorised. What all failures have in common is drift or
    the version, and not this lesson: `others` is its negative control.
    """

    learnt: Recurrence
    elsewhere: Recurrence
    others: Recurrence
    seen: Recurrence

    def to_json(self) -> dict[str, Any]:
        """Return what a measurement keeps of it; ratios are after over before with their 95 % interval."""
        against = ratio_beside(self.seen, self.others)
        return {
            "where_learnt": _row(self.learnt),
            "elsewhere": _row(self.elsewhere),
            "other_failures": _row(self.others),
            "ratio_to_other_failures": [against.rr, against.low, against.high],
        }


def beside(tables: Mapping[str, Table], others: Mapping[str, Table], kinds: Collection[str | None]) -> Beside:
    """Split a lesson's strata by the kinds of task that it was learnt from.

    The kinds are those of the tasks that it cites in the batch it was drafted from. That batch is on neither
    side of the comparison, so no side is chosen by its failures.
    """
    learnt = [each for stratum, each in tables.items() if kind_of(stratum) in kinds]
    elsewhere = [each for stratum, each in tables.items() if kind_of(stratum) not in kinds]
    return Beside(summed(learnt), summed(elsewhere), summed(others.values()), summed(tables.values()))


def _row(seen: Recurrence) -> dict[str, Any]:
    ratio = ratio_beside(seen)
    compares = seen.before_runs > 0 and seen.after_runs > 0 and seen.before_hits + seen.after_hits > 0
    return {
        "before": {"runs": seen.before_runs, "hits": seen.before_hits},
        "with": {"runs": seen.after_runs, "hits": seen.after_hits},
        "ratio": [ratio.rr, ratio.low, ratio.high] if compares else None,
    }
