"""Reference cases of the measurement: inputs and figures that independent libraries gave."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

from yume.domain.measurement import claims, comparison, effects, rates, sequential, switchback
from yume.domain.measurement.cells import Cell
from yume.domain.measurement.comparison import Comparison
from yume.domain.measurement.effects import ARMS, Table, TaskCell
from yume.errors import PermanentError

TOLERANCE: Final = 2e-6  # absolute: the cases are rounded to six digits

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """One case: what differs from its expected figures, nothing if it passes."""

    function: str
    name: str
    differences: tuple[str, ...]


def check(path: Path) -> list[Checked]:
    """Run every case of a file; PermanentError if it is no file of cases."""
    try:
        cases = json.loads(path.read_text("utf-8"))["cases"]
        return [_checked(case["fn"], case["name"], case["input"], case["expected"]) for case in cases]
    except OSError as error:
        raise PermanentError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise PermanentError(f"{path} holds no cases of the measurement: {error!r}") from error


def _checked(function: str, name: str, given: Values, expected: Values) -> Checked:
    if function not in FUNCTIONS:
        return Checked(function, name, ("no such function",))
    return Checked(function, name, tuple(differences(FUNCTIONS[function](given), expected)))


def differences(got: Values, expected: Values) -> Iterator[str]:
    """Name every figure that is missing or not the expected one."""
    for key, wanted in expected.items():
        value = got.get(key)
        if not _same(value, wanted):
            yield f"{key}: {value} and not {wanted}"


def _same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        listed = isinstance(got, list) and len(got) == len(wanted)
        return listed and all(map(_same, got, wanted))
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (got, wanted))
    if numbers:
        close = math.isclose(got, wanted, rel_tol=0, abs_tol=TOLERANCE)
        return close or (math.isnan(got) and math.isnan(wanted))
    return bool(got == wanted)


def tables(rows: Sequence[Sequence[int]]) -> list[Table]:
    """Read tables given as (new failures, new runs, reference failures, reference runs)."""
    return [Table(*row) for row in rows]


def _z(alpha: float) -> float:
    return NormalDist().inv_cdf(1 - alpha / 2)


def _wilson(given: Values) -> Values:
    interval = rates.wilson(given["x"], given["n"], _z(given["alpha"]), deff=given.get("deff", 1.0))
    return {"rate": interval.rate, "lo": interval.low, "hi": interval.high}


def _jeffreys(given: Values) -> Values:
    low, high = rates.jeffreys(given["x"], given["n"], given["alpha"])
    return {"lo": low, "hi": high}


def _cluster_deff(given: Values) -> Values:
    deff, interval = rates.clustered_wilson([(fails, runs) for fails, runs in given["clusters"]])
    return {"deff": deff, "lo": interval.low, "hi": interval.high}


def _two_sample_ci(given: Values) -> Values:
    new, reference, z = (given["x1"], given["n1"]), (given["x0"], given["n0"]), _z(given["alpha"])
    named = {
        "newcomb": rates.newcombe(new, reference, z),
        "agresti-caffo": rates.agresti_caffo(new, reference, z),
    }
    return {
        f"{name}_{end}": value
        for name, ends in named.items()
        for end, value in zip(("lo", "hi"), ends, strict=True)
    }


def _mh_rd(given: Values) -> Values:
    found = effects.mantel_haenszel(tables(given["strata"]))
    if found is None:
        return {}
    half = _z(0.05) * math.sqrt(found.sato)
    return {
        "rd": found.rd,
        "se_sato": math.sqrt(found.sato),
        "se_null": math.sqrt(found.null),
        "fixed95_lo": found.rd - half,
        "fixed95_hi": found.rd + half,
        "cmh_chi2": found.rd**2 / found.null if found.null else 0.0,
    }


def _mh_cluster(given: Values) -> Values:
    counted: Counter[tuple[str, int, str]] = Counter()
    failed: Counter[tuple[str, int, str]] = Counter()
    for stratum, arm, task, fail in given["rows"]:
        counted[stratum, arm, task] += 1
        failed[stratum, arm, task] += fail
    cells = [
        TaskCell(stratum, ARMS[arm], task, runs, failed[stratum, arm, task])
        for (stratum, arm, task), runs in counted.items()
    ]
    found = effects.clustered(cells)
    if found is None:
        return {}
    return {"rd": found.rd, "se_task": math.sqrt(found.variance), "clusters": found.tasks}


def _sigma_b(given: Values) -> Values:
    size, fails = given["runs_per_batch"], given["fails_per_batch"]
    rate = sum(fails) / (size * len(fails))
    raw, free = effects.between([[(each / size - rate, rate * (1 - rate) / size) for each in fails]])
    sigma2 = effects.shrunk(raw, free, prior_sd=given["s0"], prior_free=given["nu0"])
    return {"dl_tau2": raw, "df": free, "sigma_b2": sigma2, "sigma_b": math.sqrt(sigma2)}


def _cs(given: Values) -> Values:
    d, variance, tau = given["d"], given["V"], given["tau"]
    half = sequential.half_width(variance, alpha=given["alpha"], tau=tau)
    return {
        "lo": d - half,
        "hi": d + half,
        "log_e_two": sequential.log_e(d, variance, tau=tau),
        "log_e_one_up": sequential.log_e_above(d, variance, tau=tau),
    }


def _signflip(given: Values) -> Values:
    d, thetas = given["d"], given["thetas"]
    return {
        "p_two": switchback.sign_flip(d),
        "p_less": switchback.sign_flip(d, "less"),
        "p_greater": switchback.sign_flip(d, "greater"),
        "log_e_less": switchback.log_e_flip(d, lower=True, thetas=thetas),
        "log_e_greater": switchback.log_e_flip(d, lower=False, thetas=thetas),
    }


def _strat_exact_less(given: Values) -> Values:
    return {"p": claims.exact_less(tables(given["strata"]))}


def _bh(given: Values) -> Values:
    made = claims.adjusted(given["p"])
    return {"adjusted": made, "reject": [float(each <= given["q"]) for each in made]}


def _e_bh(given: Values) -> Values:
    return {"reject": [float(each) for each in claims.discoveries(given["e"], given["q"])]}


def _eb_logrr(given: Values) -> Values:
    lessons = [claims.Recurrence(*row) for row in given["lessons"]]
    made = claims.shrunk_ratios(lessons, prior_sd=given["prior_sd"], prior_free=given["nu0"])
    return {
        "mu": made.mean,
        "omega2": made.variance,
        "rr": [each.rr for each in made.ratios],
        "lo": [each.low for each in made.ratios],
        "hi": [each.high for each in made.ratios],
        "p_helps": [each.p_helps for each in made.ratios],
    }


def _compare(given: Values) -> Values:
    cells = [
        Cell(ARMS[arm], batch, stratum, runs, fails, infrastructure)
        for arm, batch, stratum, runs, fails, infrastructure in given["cells"]
    ]
    made = comparison.compare(cells, unknown_new=given["unknown_new"])
    return _figures(made) | {"n_new": made.new_runs, "n_ref": made.reference_runs, "overlap": made.overlap}


def _figures(made: Comparison) -> dict[str, Any]:
    told: dict[str, Any] = {
        "verdict": made.verdict,
        "reason": made.reason,
        "rollback_alarm": made.rollback_alarm,
    }
    if made.effect is not None:
        told |= asdict(made.effect)
        for name in ("cs95", "cs90", "cs80"):
            told[f"{name}_lo"], told[f"{name}_hi"] = told[name]["low"], told[name]["high"]
    return told


def _compare_switchback(given: Values) -> Values:
    made = switchback.compare_blocks([tables(block) for block in given["blocks"]])
    told = asdict(made) | {"rollback_alarm": made.rollback_alarm}
    for name in ("cs95", "cs90", "cs80"):
        if told[name] is not None:
            told[f"{name}_lo"], told[f"{name}_hi"] = told[name]["low"], told[name]["high"]
    return told


def _runs_needed(given: Values) -> Values:
    options = {name: given[name] for name in ("batch", "power", "alpha", "tau", "sigma_b")}
    return {"n": sequential.runs_needed(given["p0"], given["p1"], reference_runs=given["n_ref"], **options)}


FUNCTIONS: Final[Mapping[str, Callable[[Values], Values]]] = {
    "wilson": _wilson,
    "jeffreys": _jeffreys,
    "cluster_deff": _cluster_deff,
    "two_sample_ci": _two_sample_ci,
    "mh_rd": _mh_rd,
    "mh_cluster": _mh_cluster,
    "sigma_b": _sigma_b,
    "cs": _cs,
    "signflip": _signflip,
    "strat_exact_less": _strat_exact_less,
    "bh": _bh,
    "e_bh": _e_bh,
    "eb_logrr": _eb_logrr,
    "compare": _compare,
    "compare_switchback": _compare_switchback,
    "runs_needed": _runs_needed,
}
