"""Experiments: coins that say which batch reads which set of lessons, thrown before any of them starts.

Measurement.md section 5. A switchback gives one of two batches of a block the new set; a hold-out gives one
of four no lessons at all.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from yume.domain.measurement.cells import DEFAULTS
from yume.domain.measurement.effects import Arm, Table
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.switchback import Switchback, compare_blocks
from yume.ids import LessonSetId

Kind = Literal["switchback", "holdout"]

SIZES: Final[Mapping[Kind, int]] = {"switchback": 2, "holdout": 4}
STRAYED: Final = 0.05  # of a batch's runs that may have read another set before its block is dropped
METHOD: Final = "blocks, exact sign flip, 1"


@dataclass(frozen=True, slots=True)
class Experiment:
    """A plan and how far it is; `batches` are those that ended under it, as the dreams that took them.

    The first `washout_runs` of each batch are left out: the platform may carry traces over into them.
    """

    kind: Kind
    seed: str
    coins: tuple[int, ...]
    new: LessonSetId
    reference: LessonSetId
    started_at: datetime
    by: str
    why: str
    batches: tuple[UUID, ...] = ()
    ended_at: datetime | None = None
    ended_by: str | None = None
    washout_runs: int = 0

    @property
    def over(self) -> bool:
        """Whether every batch that the coins were thrown for has ended."""
        return len(self.batches) >= len(self.coins) * SIZES[self.kind]

    @property
    def runs(self) -> bool:
        """Whether it goes on."""
        return self.ended_at is None and not self.over

    def arm(self, number: int) -> Arm:
        """Return what the batch of that number, from 0, is given."""
        block, place = divmod(number, SIZES[self.kind])
        if self.kind == "switchback":
            return "new" if place == self.coins[block] else "reference"
        return "reference" if place == self.coins[block] else "new"

    def set_for(self, number: int) -> LessonSetId:
        """Return the set that the batch of that number reads."""
        return self.new if self.arm(number) == "new" else self.reference

    def ended(self, now: datetime, by: str) -> Experiment:
        """Return it as ended before its time, or when it was over."""
        return replace(self, ended_at=now, ended_by=by)

    def to_json(self) -> dict[str, Any]:
        """Return what the series' row keeps."""
        return {
            "kind": self.kind,
            "seed": self.seed,
            "coins": list(self.coins),
            "new": str(self.new),
            "reference": str(self.reference),
            "started_at": self.started_at.isoformat(),
            "by": self.by,
            "why": self.why,
            "batches": [str(each) for each in self.batches],
            "ended_at": None if self.ended_at is None else self.ended_at.isoformat(),
            "ended_by": self.ended_by,
            "washout_runs": self.washout_runs,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Experiment:
        """Read what `to_json` wrote; rows older than the washout have none."""
        return cls(
            row["kind"],
            row["seed"],
            tuple(row["coins"]),
            LessonSetId(UUID(row["new"])),
            LessonSetId(UUID(row["reference"])),
            datetime.fromisoformat(row["started_at"]),
            row["by"],
            row["why"],
            tuple(UUID(each) for each in row["batches"]),
            None if row["ended_at"] is None else datetime.fromisoformat(row["ended_at"]),
            row["ended_by"],
            row.get("washout_runs", 0),
        )


def coins(kind: Kind, seed: str, blocks: int) -> tuple[int, ...]:
    """Throw a coin a block, once and for all: the place in it of the odd batch out."""
    thrown = (hashlib.sha256(f"{seed}:{block}".encode()).digest()[0] for block in range(blocks))
    return tuple(each % SIZES[kind] for each in thrown)


def result(experiment: Experiment, facts: Iterable[RunFact]) -> Switchback:
    """Compare the arms within blocks; one with a lost or strayed batch is dropped whole.

    Runs that are washed out count nowhere, not even as strayed or lost.
    """
    by_batch: defaultdict[UUID, list[RunFact]] = defaultdict(list)
    for each in facts:
        if each.batch is not None and each.outcome != "cancelled" and not each.washed_out:
            by_batch[each.batch].append(each)
    size = SIZES[experiment.kind]
    whole = len(experiment.batches) // size
    blocks = []
    for block in range(whole):
        numbers = range(block * size, (block + 1) * size)
        batches = [(number, by_batch[experiment.batches[number]]) for number in numbers]
        if all(_kept(experiment, number, runs) for number, runs in batches):
            blocks.append(_tables(experiment, batches))
    return compare_blocks(blocks)


def washed_out(experiment: Experiment, facts: Iterable[RunFact]) -> int:
    """Return how many runs of the experiment's batches were washed out."""
    return sum(each.runs for each in facts if each.washed_out and each.batch in experiment.batches)


def _kept(experiment: Experiment, number: int, facts: Sequence[RunFact]) -> bool:
    """Tell whether a batch was what its coin said, and not lost."""
    runs: Counter[str] = Counter()
    wanted = experiment.set_for(number)
    for each in facts:
        runs["all"] += each.runs
        runs["lost"] += each.runs if each.outcome == "infrastructure" else 0
        runs["strayed"] += 0 if each.lesson_set_id == wanted else each.runs
    if not runs["all"]:
        return False
    return runs["strayed"] <= STRAYED * runs["all"] and runs["lost"] <= DEFAULTS.quarantine * runs["all"]


def _tables(experiment: Experiment, batches: Sequence[tuple[int, Sequence[RunFact]]]) -> list[Table]:
    counted: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for number, facts in batches:
        place = 0 if experiment.arm(number) == "new" else 2
        for each in facts:
            if each.settled and each.outcome in ("success", "failure"):
                counted[each.stratum][place] += each.runs if each.outcome == "failure" else 0
                counted[each.stratum][place + 1] += each.runs
    return [Table(*row) for row in counted.values()]
