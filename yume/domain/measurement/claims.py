"""Whether single lessons help: shrunk ratios to rank by, exact tests to claim by."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from yume.domain.measurement.effects import Table, between, shrunk

PRIOR_SD: Final = 0.5
PRIOR_FREE: Final = 4
Q: Final = 0.10
_NORMAL: Final = NormalDist()
_Z_95: Final = _NORMAL.inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How often a lesson's failure was seen: of the runs before it, and of those that had it."""

    after_hits: int
    after_runs: int
    before_hits: int
    before_runs: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """A failure's rate after over before with a 95 % interval; for ranking and display, never for claims."""

    rr: float
    low: float
    high: float
    p_helps: float


@dataclass(frozen=True, slots=True)
class Shrunk:
    """All lessons' ratios, with the common mean and variance of their logarithms."""

    ratios: tuple[Ratio, ...]
    mean: float
    variance: float


def summed(tables: Iterable[Table]) -> Recurrence:
    """Sum strata up: the new side is the one with the lesson."""
    known = list(tables)
    return Recurrence(
        sum(each.new_fails for each in known),
        sum(each.new_runs for each in known),
        sum(each.reference_fails for each in known),
        sum(each.reference_runs for each in known),
    )


def ratio_beside(seen: Recurrence, other: Recurrence | None = None) -> Ratio:
    """Return a ratio as it was seen, over another one's where there is one: for display, not for claims."""
    pairs = [seen] if other is None else [seen, other]
    middle = _log_ratio(seen) - (0.0 if other is None else _log_ratio(other))
    sd = math.sqrt(sum(_noise(each) for each in pairs))
    low, high = (math.exp(middle + sign * _Z_95 * sd) for sign in (-1, 1))
    return Ratio(math.exp(middle), low, high, _NORMAL.cdf(-middle / sd))


def shrunk_ratios(
    lessons: Sequence[Recurrence], *, prior_sd: float = PRIOR_SD, prior_free: float = PRIOR_FREE
) -> Shrunk:
    """Return every lesson's ratio by empirical Bayes on log ratios with half a hit added."""
    logs = [_log_ratio(each) for each in lessons]
    noise = [_noise(each) for each in lessons]
    raw, free = between([list(zip(logs, noise, strict=True))])
    variance = shrunk(raw, free, prior_sd=prior_sd, prior_free=prior_free)
    weights = [1 / (each + variance) for each in noise]
    total = sum(weights) + 1 / prior_sd**2
    mean = sum(w * y for w, y in zip(weights, logs, strict=True)) / total
    ratios = tuple(
        _ratio(y, s2, mean=mean, variance=variance, total=total) for y, s2 in zip(logs, noise, strict=True)
    )
    return Shrunk(ratios, mean, variance)


def _log_ratio(each: Recurrence) -> float:
    after = (each.after_hits + 0.5) / (each.after_runs + 1)
    return math.log(after) - math.log((each.before_hits + 0.5) / (each.before_runs + 1))


def _noise(each: Recurrence) -> float:
    return 1 / (each.after_hits + 0.5) + 1 / (each.before_hits + 0.5)


def _ratio(y: float, noise: float, *, mean: float, variance: float, total: float) -> Ratio:
    trust = variance / (variance + noise)
    middle = mean + trust * (y - mean)
    sd = math.sqrt(trust * noise + (1 - trust) ** 2 / total)
    low, high = (math.exp(middle + sign * _Z_95 * sd) for sign in (-1, 1))
    return Ratio(math.exp(middle), low, high, _NORMAL.cdf(-middle / sd))


def exact_less(tables: Iterable[Table]) -> float:
    """Return the one-sided exact p-value that the new arm has fewer hits, given each stratum's margins.

    The sum of independent hypergeometrics: the exact Cochran-Mantel-Haenszel test, Fisher's with one stratum.
    """
    from scipy.stats import hypergeom  # noqa: PLC0415  # a second to load, and only claims need it

    chances = [1.0]
    lowest = seen = 0
    for each in tables:
        if not each.compares:
            continue
        hits, runs = each.new_fails + each.reference_fails, each.new_runs + each.reference_runs
        low, high = max(0, hits - each.reference_runs), min(hits, each.new_runs)
        own = [float(hypergeom.pmf(k, runs, hits, each.new_runs)) for k in range(low, high + 1)]
        chances = _convolved(chances, own)
        lowest += low
        seen += each.new_fails
    return min(1.0, sum(chances[: seen - lowest + 1]))


def _convolved(one: Sequence[float], other: Sequence[float]) -> list[float]:
    made = [0.0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            made[i + j] += a * b
    return made


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for the false discovery rate (Benjamini and Hochberg 1995), in their order."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place], reverse=True)
    made = [0.0] * len(p_values)
    least = 1.0
    for number, place in enumerate(order):
        least = min(least, p_values[place] * len(p_values) / (len(p_values) - number))
        made[place] = least
    return made


def discoveries(e_values: Sequence[float], q: float = Q) -> list[bool]:
    """Tell which e-values stand at a false discovery rate of q (e-BH, Wang and Ramdas 2022).

    The values must be current ones: with the largest ever seen the rate does not hold.
    """
    order = sorted(range(len(e_values)), key=lambda place: -e_values[place])
    stands = 0
    for rank, place in enumerate(order, start=1):
        if e_values[place] * rank / len(e_values) >= 1 / q:
            stands = rank
    kept = set(order[:stands])
    return [place in kept for place in range(len(e_values))]
