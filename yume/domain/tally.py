"""Runs counted as they go by, by outcome, version and kind of failure: the runs themselves are not kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, get_args

from yume.domain.measurement.rates import wilson
from yume.domain.runs import Outcome
from yume.domain.taxonomy import UNCLASSIFIED

NO_VERSION: Final = "unknown"
_WENT_WRONG: Final = ("failure", "infrastructure")


@dataclass(slots=True)
class Tally:
    """What is known of the runs so far; `marks` are the fingerprints a run shows, and if it went wrong."""

    runs: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    by_version: defaultdict[str, Counter[Outcome]] = field(default_factory=lambda: defaultdict(Counter))
    since: dict[str, datetime] = field(default_factory=dict)
    marks: Counter[tuple[frozenset[str], bool]] = field(default_factory=Counter)

    def add(self, outcome: Outcome, version: str | None, marks: Iterable[str], *, at: datetime) -> None:
        """Count one run, which ended at `at`."""
        self.runs += 1
        self.outcomes[outcome] += 1
        name = version or NO_VERSION
        self.by_version[name][outcome] += 1
        self.since[name] = min(at, self.since.get(name, at))
        self.marks[frozenset(marks), outcome in _WENT_WRONG] += 1

    def outcome_counts(self) -> dict[str, int]:
        """Return how many runs ended in each way, those that none did included."""
        return {each: self.outcomes[each] for each in get_args(Outcome)}

    def classes(self, codes: Mapping[str, str]) -> dict[str, int]:
        """Return in how many of the runs that went wrong each class was seen, the most frequent first.

        `codes` are the classes by fingerprint. A run may show several; one whose evidence was not classified,
        or that left none, counts as unclassified.
        """
        counted: Counter[str] = Counter()
        for (marks, went_wrong), runs in self.marks.items():
            if not went_wrong:
                continue
            for code in {codes.get(mark, UNCLASSIFIED) for mark in marks} or {UNCLASSIFIED}:
                counted[code] += runs
        return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    def showing(self, marks: Collection[str]) -> int:
        """Return how many runs show a failure of these fingerprints, those that came through included."""
        return sum(runs for (shown, _), runs in self.marks.items() if not shown.isdisjoint(marks))

    def versions(self) -> list[dict[str, Any]]:
        """Return each version's failure rate among the runs that succeeded or failed, the oldest first."""
        by_age = sorted(self.by_version, key=lambda name: (self.since[name], name))
        return [_version(name, self.by_version[name]) for name in by_age]


def _version(name: str, counted: Counter[Outcome]) -> dict[str, Any]:
    runs = counted["success"] + counted["failure"]
    interval = wilson(counted["failure"], runs)
    return {
        "version": name,
        "runs": runs,
        "failures": counted["failure"],
        "rate": interval.rate,
        "low": interval.low,
        "high": interval.high,
        **{each: counted[each] for each in ("infrastructure", "cancelled", "unknown")},
    }
