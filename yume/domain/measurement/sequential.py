"""Intervals that hold at every look at once: normal-mixture confidence sequences.

Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021. The mixture over the true effect is N(0, tau^2).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

TAU: Final = 0.10
_FAR: Final = -30.0  # standard deviations; beyond it the normal tail is taken from its asymptote
_RUNS_CAP: Final = 100_000
_NORMAL: Final = NormalDist()


def half_width(variance: float, *, alpha: float, tau: float = TAU) -> float:
    """Return half the width of the interval of level 1 - alpha that may be looked at after every batch."""
    both = variance + tau * tau
    room = 2 * math.log(1 / alpha) + math.log(both / variance)
    return math.sqrt(variance * both / (tau * tau) * room)


def log_e(d: float, variance: float, *, tau: float = TAU) -> float:
    """Return the logarithm of the evidence against no difference, whichever way it goes."""
    both = variance + tau * tau
    return 0.5 * math.log(variance / both) + (d * tau) ** 2 / (2 * variance * both)


def log_e_above(d: float, variance: float, *, tau: float = TAU) -> float:
    """Return the logarithm of the evidence that the difference is above 0; with -d, that it is below."""
    lever = d * tau / math.sqrt(variance * (variance + tau * tau))
    return log_e(d, variance, tau=tau) + math.log(2) + _log_cdf(lever)


def _log_cdf(x: float) -> float:
    if x > _FAR:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    return -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi))


def runs_needed(
    reference: float,
    new: float,
    *,
    reference_runs: int,
    batch: int,
    alpha: float,
    power: float = 0.8,
    tau: float = TAU,
    sigma_b: float = 0.03,
    z: float | None = None,
) -> int | None:
    """Return after how many new runs one look shows the difference with that power; None beyond 100,000.

    Cautious: earlier looks may decide already. The rates are failure rates; runs come in whole batches. With
    `z`, the interval is that many standard errors to each side.
    """
    quantile = _NORMAL.inv_cdf(power)
    for runs in range(batch, _RUNS_CAP + 1, batch):
        pooled = (reference * reference_runs + new * runs) / (reference_runs + runs)
        chance = pooled * (1 - pooled) * (1 / reference_runs + 1 / runs)
        variance = chance + sigma_b**2 * (batch / reference_runs + batch / runs)
        se = math.sqrt(variance)
        half = half_width(variance, alpha=alpha, tau=tau) if z is None else z * se
        if abs(new - reference) >= half + quantile * se:
            return runs
    return None
