"""A version against its reference window, and the verdict on it (measurement.md section 3, (2) to (4))."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from yume.domain.measurement.cells import DEFAULTS, Cell, Key, Parameters, quarantined
from yume.domain.measurement.effects import (
    ARMS,
    Arm,
    Difference,
    Table,
    TaskCell,
    between,
    clustered,
    level_change,
    mantel_haenszel,
    pooled_rates,
    rate_of,
    shrunk,
    tables_of,
)
from yume.domain.measurement.intervals import Bounds, deciding
from yume.domain.measurement.sequential import log_e_above

Verdict = Literal["improved", "regressed", "no_evidence", "not_comparable"]
Guard = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference with its standard errors and the three intervals that decide.

    Under a planned boundary `cs95` and `cs90` are both the one that it gives.
    """

    rd: float
    se_sato: float
    se_null: float
    se_task: float | None
    sigma_b: float
    sum_c2: float
    se: float
    cs95: Bounds
    cs90: Bounds
    cs80: Bounds
    log_e_better: float
    log_e_worse: float
    level_change: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison came to; `effect` is None where it was not computed."""

    verdict: Verdict
    reason: str
    new_runs: int
    new_fails: int
    reference_runs: int
    reference_fails: int
    quarantined: tuple[Key, ...] = ()
    overlap: float | None = None
    effect: Effect | None = None
    guard: Guard = "skipped"
    new_batches: int = 0
    reference_batches: int = 0
    tasks: Mapping[Arm, int] = field(default_factory=dict)

    def ruled(self, verdict: Verdict, reason: str) -> Comparison:
        """Return the same counts with a verdict."""
        return replace(self, verdict=verdict, reason=reason)

    @property
    def rollback_alarm(self) -> bool:
        """Whether the version looks worse on the level that a rollback goes by, whatever the verdict."""
        return self.effect is not None and self.effect.cs80.above_zero


@dataclass(frozen=True, slots=True)
class Flags:
    """What forbids to call a difference an improvement, found beside the comparison."""

    infrastructure: bool = False
    placebo: bool = False


NO_FLAGS: Final = Flags()


def compare(
    cells: Iterable[Cell],
    *,
    unknown_new: int = 0,
    tasks: Sequence[TaskCell] | None = None,
    flags: Flags = NO_FLAGS,
    look: int | None = None,
    parameters: Parameters = DEFAULTS,
) -> Comparison:
    """Compare the new arm with the reference, without a coin: the first reason that fits decides.

    `unknown_new` are runs of the new window of which nobody knows what they read. `tasks`, where a task ran
    more than once, are the same runs by task. A batch of which too large a share was infrastructure is left
    out of its arm. `look` is this look's number, from 1: a planned boundary gives no verdict after its last.
    """
    too_late = parameters.too_late(look)
    given = list(cells)
    left_out = quarantined(given, parameters.quarantine)
    used = [each for each in given if (each.arm, each.batch) not in left_out and each.runs > 0]
    tables = tables_of((each.stratum, each.arm, each.runs, each.fails) for each in used)
    made = _counted(used, tables, left_out, tasks or ())
    if unknown_new and unknown_new / (unknown_new + made.new_runs) > parameters.unknown:
        return made.ruled("not_comparable", "unknown_version")
    if too_few(made, parameters):
        return made.ruled("no_evidence", "too_few")
    overlap = _overlap(tables, made.new_runs, parameters)
    made = replace(made, overlap=overlap)
    if overlap < parameters.overlap:
        return _watched(made, used, tables, tasks, parameters).ruled("not_comparable", "strata_overlap")
    if tasks is not None and min(made.tasks.values()) < parameters.fewest_tasks:
        return made.ruled("no_evidence", "few_tasks")
    effect = _effect(used, tables, tasks, parameters)
    if effect is None:
        return made.ruled("not_comparable", "strata_overlap")
    guard = _guard(effect, parameters)
    made = replace(made, effect=effect, guard=guard)
    over: tuple[Verdict, str] = "no_evidence", "planned_looks_over"
    return made.ruled(*(over if too_late else _verdict(made, effect, guard, flags, parameters)))


def too_few(made: Comparison, parameters: Parameters) -> bool:
    """Tell whether there is too little to say anything, whatever the rates."""
    fails = made.new_fails + made.reference_fails
    passes = made.new_runs + made.reference_runs - fails
    runs = min(made.new_runs, made.reference_runs)
    return runs < parameters.fewest_runs or min(fails, passes) < parameters.fewest_events


def _watched(
    made: Comparison,
    used: Sequence[Cell],
    tables: Mapping[str, Table],
    tasks: Sequence[TaskCell] | None,
    parameters: Parameters,
) -> Comparison:
    """Add the effect among the runs that have their like, if they are enough: it can sound the alarm.

    A part cannot speak for the version, so it earns no verdict. But a harm in it is a harm, and would go on
    unseen for as long as the other runs have no counterpart.
    """
    alike = {name: each for name, each in tables.items() if each.compares}
    if too_few(_counted(used, alike, made.quarantined, ()), parameters):
        return made
    return replace(made, effect=_effect(used, tables, tasks, parameters))


def _counted(
    used: Sequence[Cell], tables: Mapping[str, Table], left_out: tuple[Key, ...], tasks: Iterable[TaskCell]
) -> Comparison:
    named: dict[Arm, set[str]] = {arm: set() for arm in ARMS}
    for each in tasks:
        named[each.arm].add(each.task)
    batches = {arm: len({each.batch for each in used if each.arm == arm}) for arm in ARMS}
    return Comparison(
        verdict="no_evidence",
        reason="too_few",
        new_runs=sum(each.new_runs for each in tables.values()),
        new_fails=sum(each.new_fails for each in tables.values()),
        reference_runs=sum(each.reference_runs for each in tables.values()),
        reference_fails=sum(each.reference_fails for each in tables.values()),
        quarantined=left_out,
        new_batches=batches["new"],
        reference_batches=batches["reference"],
        tasks={arm: len(each) for arm, each in named.items()},
    )


def _overlap(tables: Mapping[str, Table], new_runs: int, parameters: Parameters) -> float:
    """Return the share of new runs whose stratum the reference knows well enough."""
    known = (each.new_runs for each in tables.values() if each.reference_runs >= parameters.overlap_runs)
    return sum(known) / new_runs


def _effect(
    used: Sequence[Cell],
    tables: Mapping[str, Table],
    tasks: Sequence[TaskCell] | None,
    parameters: Parameters,
) -> Effect | None:
    found = mantel_haenszel(tables.values())
    by_task = None if tasks is None else clustered(tasks)
    if found is None:
        return None
    task_variance = None if by_task is None else by_task.variance
    sigma2, sum_c2 = _between_batches(used, tables, found, parameters)
    variance = max(found.sato, found.null, task_variance or 0.0) + sigma2 * sum_c2
    cs95, cs90, cs80 = deciding(found.rd, variance, parameters)
    return Effect(
        rd=found.rd,
        se_sato=math.sqrt(found.sato),
        se_null=math.sqrt(found.null),
        se_task=None if task_variance is None else math.sqrt(task_variance),
        sigma_b=math.sqrt(sigma2),
        sum_c2=sum_c2,
        se=math.sqrt(variance),
        cs95=cs95,
        cs90=cs90,
        cs80=cs80,
        log_e_better=log_e_above(-found.rd, variance, tau=parameters.tau),
        log_e_worse=log_e_above(found.rd, variance, tau=parameters.tau),
        level_change=_level(used, tables, parameters),
    )


def _between_batches(
    used: Sequence[Cell], tables: Mapping[str, Table], found: Difference, parameters: Parameters
) -> tuple[float, float]:
    """Return the shrunk variance between batches, and the sum of their squared shares in the difference."""
    excess: defaultdict[Key, float] = defaultdict(float)
    variance: defaultdict[Key, float] = defaultdict(float)
    share: defaultdict[Key, float] = defaultdict(float)
    runs: Counter[Key] = Counter()
    for each in used:
        key, table = (each.arm, each.batch), tables[each.stratum]
        rate = rate_of(table, each.arm)
        excess[key] += each.fails - each.runs * rate
        variance[key] += each.runs * rate * (1 - rate)
        runs[key] += each.runs
        if table.compares:
            of_arm = table.new_runs if each.arm == "new" else table.reference_runs
            share[key] += table.weight * each.runs / of_arm / found.weight
    groups = [
        [(excess[key] / runs[key], variance[key] / runs[key] ** 2) for key in runs if key[0] == arm]
        for arm in ARMS
    ]
    raw, free = between(groups)
    sigma2 = shrunk(raw, free, prior_sd=parameters.prior_sd, prior_free=parameters.prior_free)
    return sigma2, sum(each**2 for each in share.values())


def _level(used: Sequence[Cell], tables: Mapping[str, Table], parameters: Parameters) -> float | None:
    """Return the change of level beside a trend; None where there are too few batches to tell one."""
    pooled = pooled_rates(tables)
    excess: defaultdict[Key, float] = defaultdict(float)
    runs: Counter[Key] = Counter()
    for each in used:
        excess[each.arm, each.batch] += each.fails - each.runs * pooled[each.stratum]
        runs[each.arm, each.batch] += each.runs
    arms = Counter(arm for arm, _ in runs)
    if (
        len(runs) < parameters.guard_batches
        or arms["reference"] < parameters.guard_reference_batches
        or arms["new"] < parameters.fewest_new_batches
    ):
        return None
    in_order = sorted(runs, key=lambda key: key[1])
    return level_change([(key[0], excess[key] / runs[key], runs[key]) for key in in_order])


def _guard(effect: Effect, parameters: Parameters) -> Guard:
    """Tell whether enough of a gain survives a trend that may have been there all along."""
    if effect.level_change is None:
        return "skipped"
    return "passed" if effect.level_change < parameters.drift * effect.rd else "failed"


def _verdict(
    made: Comparison, effect: Effect, guard: Guard, flags: Flags, parameters: Parameters
) -> tuple[Verdict, str]:
    if effect.cs95.below_zero and made.new_batches >= parameters.fewest_new_batches:
        if flags.infrastructure:
            return "not_comparable", "infrastructure"
        if flags.placebo or guard == "failed":
            return "not_comparable", "drift"
        return "improved", "observational"
    if effect.cs90.above_zero:
        return "regressed", "observational"
    return "no_evidence", "interval_covers_zero"
