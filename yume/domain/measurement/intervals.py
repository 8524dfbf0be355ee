"""The intervals by which a difference is decided, at three levels (measurement.md section 3, (3))."""

from __future__ import annotations

import math
from dataclasses import dataclass

from yume.domain.measurement.cells import Parameters
from yume.domain.measurement.sequential import half_width


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval of a difference."""

    low: float
    high: float

    @property
    def below_zero(self) -> bool:
        """Whether all of it is better."""
        return self.high < 0

    @property
    def above_zero(self) -> bool:
        """Whether all of it is worse."""
        return self.low > 0


def bounds(rd: float, variance: float, alpha: float, tau: float) -> Bounds:
    """Return the always-valid interval of level 1 - alpha."""
    half = half_width(variance, alpha=alpha, tau=tau)
    return Bounds(rd - half, rd + half)


def intervals(rd: float, variance: float, parameters: Parameters) -> tuple[Bounds, Bounds, Bounds]:
    """Return the intervals by which is said improved, regressed, and roll back."""
    levels = (parameters.improve, parameters.regress, parameters.rollback)
    first, second, third = (bounds(rd, variance, alpha, parameters.tau) for alpha in levels)
    return first, second, third


def deciding(rd: float, variance: float, parameters: Parameters) -> tuple[Bounds, Bounds, Bounds]:
    """Return the intervals under the boundary; the one for the alarm may be looked at for ever under each."""
    first, second, third = intervals(rd, variance, parameters)
    if parameters.z is not None:
        half = parameters.z * math.sqrt(variance)
        first = second = Bounds(rd - half, rd + half)
    return first, second, third
