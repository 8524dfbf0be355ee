"""Blocks of batches of which a coin says which one gets the new version (measurement.md section 5)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from yume.domain.measurement.cells import DEFAULTS, Parameters
from yume.domain.measurement.comparison import Verdict
from yume.domain.measurement.effects import Table, between, mantel_haenszel, shrunk
from yume.domain.measurement.intervals import Bounds, intervals

Side = Literal["two", "less", "greater"]

EXACT_BLOCKS: Final = 16
DRAWN: Final = 10_000
FEWEST_BLOCKS: Final = 6
_EPSILON: Final = 1e-12
_THETAS: Final = (5.0, 10.0, 20.0)


@dataclass(frozen=True, slots=True)
class Switchback:
    """What the blocks came to; the difference is new minus reference, within blocks."""

    verdict: Verdict
    reason: str
    new_runs: int
    new_fails: int
    reference_runs: int
    reference_fails: int
    blocks: int
    rd: float | None = None
    sigma_b: float | None = None
    sum_c2: float | None = None
    se: float | None = None
    cs95: Bounds | None = None
    cs90: Bounds | None = None
    cs80: Bounds | None = None
    p_flip: float | None = None

    @property
    def rollback_alarm(self) -> bool:
        """Whether the version looks worse on the level that a rollback goes by."""
        return self.cs80 is not None and self.cs80.above_zero


def compare_blocks(
    blocks: Sequence[Sequence[Table]], *, parameters: Parameters = DEFAULTS, fewest: int = FEWEST_BLOCKS
) -> Switchback:
    """Compare the arms within blocks, each given as its strata's tables, in the order of time.

    A verdict needs both the interval and the exact randomisation test, which assumes nothing but the coins.
    """
    tables = [each for block in blocks for each in block]
    counts = (
        sum(each.new_runs for each in tables),
        sum(each.new_fails for each in tables),
        sum(each.reference_runs for each in tables),
        sum(each.reference_fails for each in tables),
    )
    whole = mantel_haenszel(tables)
    if whole is None:
        return Switchback("no_evidence", "too_few", *counts, blocks=0)
    parts = [part for block in blocks if (part := mantel_haenszel(block)) is not None]
    raw, free = between([[(each.rd, each.null) for each in parts]])
    sigma2 = shrunk(raw / 2, free, prior_sd=parameters.prior_sd, prior_free=parameters.prior_free)
    sum_c2 = sum(2 * (each.weight / whole.weight) ** 2 for each in parts)
    variance = max(whole.sato, whole.null) + sigma2 * sum_c2
    if variance <= 0:
        return Switchback("no_evidence", "too_few", *counts, blocks=len(parts))
    cs95, cs90, cs80 = intervals(whole.rd, variance, parameters)
    p_flip = sign_flip([each.rd * each.weight for each in parts])
    enough = len(parts) >= fewest and not _too_few(counts, parameters)
    verdict: Verdict = "no_evidence"
    reason = "too_few"
    if enough:
        verdict, reason = _verdict((cs95, cs90), p_flip, parameters)
    return Switchback(
        verdict,
        reason,
        *counts,
        blocks=len(parts),
        rd=whole.rd,
        sigma_b=math.sqrt(sigma2),
        sum_c2=sum_c2,
        se=math.sqrt(variance),
        cs95=cs95,
        cs90=cs90,
        cs80=cs80,
        p_flip=p_flip,
    )


def _too_few(counts: tuple[int, int, int, int], parameters: Parameters) -> bool:
    new_runs, new_fails, reference_runs, reference_fails = counts
    fails = new_fails + reference_fails
    events = min(fails, new_runs + reference_runs - fails)
    return min(new_runs, reference_runs) < parameters.fewest_runs or events < parameters.fewest_events


def _verdict(levels: tuple[Bounds, Bounds], p_flip: float, parameters: Parameters) -> tuple[Verdict, str]:
    if levels[0].below_zero and p_flip <= parameters.improve:
        return "improved", "randomised"
    if levels[1].above_zero and p_flip <= parameters.regress:
        return "regressed", "randomised"
    return "no_evidence", "interval_covers_zero"


def sign_flip(differences: Sequence[float], side: Side = "two", *, seed: str = "") -> float:
    """Return the randomisation p-value of the blocks' differences: how often coins alone give as much.

    Exact to 16 blocks, beyond that 10,000 draws that `seed` decides. Fisher 1935.
    """
    seen = sum(differences)
    if len(differences) <= EXACT_BLOCKS:
        sums = [0.0]
        for each in differences:
            sums = [known + sign * each for known in sums for sign in (1, -1)]
        return sum(_as_much(each, seen, side) for each in sums) / len(sums)
    drawn = (_flipped(differences, f"{seed}:{number}") for number in range(DRAWN))
    return (1 + sum(_as_much(each, seen, side) for each in drawn)) / (1 + DRAWN)


def _as_much(value: float, seen: float, side: Side) -> bool:
    match side:
        case "two":
            return abs(value) >= abs(seen) - _EPSILON
        case "less":
            return value <= seen + _EPSILON
        case "greater":
            return value >= seen - _EPSILON


def _flipped(differences: Sequence[float], seed: str) -> float:
    bits = int.from_bytes(hashlib.shake_256(seed.encode()).digest(len(differences) // 8 + 1))
    return sum(each if bits >> place & 1 else -each for place, each in enumerate(differences))


def log_e_flip(differences: Sequence[float], *, lower: bool, thetas: Sequence[float] = _THETAS) -> float:
    """Return the logarithm of the evidence in the blocks that the new version is lower (else higher)."""
    sign = -1.0 if lower else 1.0
    logs = [sum(theta * sign * each - _log_cosh(theta * each) for each in differences) for theta in thetas]
    most = max(logs)
    return most + math.log(sum(math.exp(each - most) for each in logs) / len(logs))


def _log_cosh(x: float) -> float:
    return abs(x) + math.log1p(math.exp(-2 * abs(x))) - math.log(2)
