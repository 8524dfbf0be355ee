"""What is compared: the cells of a comparison, and the method's constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from yume.domain.measurement.effects import Arm
from yume.domain.measurement.sequential import TAU

Key = tuple[Arm, int]
Boundary = Literal["always_valid", "pocock"]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The method's constants, stored with each measurement; shares and levels are from 0 to 1."""

    tau: float = TAU
    improve: float = 0.05
    regress: float = 0.10
    rollback: float = 0.20
    prior_sd: float = 0.03
    prior_free: float = 4
    fewest_runs: int = 30
    fewest_events: int = 5
    fewest_new_batches: int = 2
    overlap: float = 0.5
    overlap_runs: int = 5
    unknown: float = 0.20
    quarantine: float = 0.30
    drift: float = 0.5
    fewest_tasks: int = 8
    guard_batches: int = 6
    guard_reference_batches: int = 3
    boundary: Boundary = "always_valid"
    pocock_z: float = 2.536  # two-sided, for 15 looks at 40 runs each beside a reference of 360
    planned_looks: int = 15

    @property
    def z(self) -> float | None:
        """The standard errors by which a planned look decides; None where any number of looks may follow."""
        return self.pocock_z if self.boundary == "pocock" else None

    def too_late(self, look: int | None) -> bool:
        """Tell whether a look, counted from 1, comes after the planned ones; without a plan none does.

        Raises ValueError for a look without its number, where there is a plan.
        """
        if self.z is None:
            return False
        if look is None:
            raise ValueError(
                f"a look has no number, and {self.planned_looks} are planned: give compare its look"
            )
        return look > self.planned_looks


DEFAULTS: Final = Parameters()


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one batch in one arm and stratum; `batch` orders batches by time, whatever the arm.

    `runs` are those that succeeded or failed; `infrastructure` ones are beside them.
    """

    arm: Arm
    batch: int
    stratum: str
    runs: int
    fails: int
    infrastructure: int = 0


def quarantined(cells: Iterable[Cell], most: float) -> tuple[Key, ...]:
    """Name the batches, arm by arm, of whose runs more than that share were infrastructure."""
    all_runs: Counter[Key] = Counter()
    lost: Counter[Key] = Counter()
    for each in cells:
        all_runs[each.arm, each.batch] += each.runs + each.infrastructure
        lost[each.arm, each.batch] += each.infrastructure
    return tuple(sorted(key for key, runs in all_runs.items() if runs and lost[key] / runs > most))
