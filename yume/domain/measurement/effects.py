"""The difference of two failure rates over strata, and how uncertain it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Arm = Literal["reference", "new"]
ARMS: Final[tuple[Arm, Arm]] = ("reference", "new")


@dataclass(frozen=True, slots=True)
class Table:
    """Failures and runs of both arms in one stratum."""

    new_fails: int
    new_runs: int
    reference_fails: int
    reference_runs: int

    @property
    def compares(self) -> bool:
        """Whether both arms have runs: a stratum with an empty arm says nothing about a difference."""
        return self.new_runs > 0 and self.reference_runs > 0

    @property
    def weight(self) -> float:
        """Return the Mantel-Haenszel weight."""
        return self.new_runs * self.reference_runs / (self.new_runs + self.reference_runs)


@dataclass(frozen=True, slots=True)
class Difference:
    """A stratified risk difference, new minus reference: negative is better."""

    rd: float
    sato: float
    null: float
    weight: float


@dataclass(frozen=True, slots=True)
class TaskCell:
    """The runs of one task in one arm of a stratum."""

    stratum: str
    arm: Arm
    task: str
    runs: int
    fails: int


@dataclass(frozen=True, slots=True)
class Clustered:
    """The same difference with the variance that runs of the same task leave (CRV1, clustered by task)."""

    rd: float
    variance: float
    tasks: int


def mantel_haenszel(tables: Iterable[Table]) -> Difference | None:
    """Return the Mantel-Haenszel risk difference with Sato's variance and the one under no difference.

    Greenland and Robins 1985, Sato 1989; the null variance is that of the Cochran-Mantel-Haenszel test. None
    if no stratum has runs in both arms.
    """
    used = [each for each in tables if each.compares]
    weight = sum(each.weight for each in used)
    if not weight:
        return None
    rd = sum(_excess(each) for each in used) / weight
    p, q = (sum(part(each) for each in used) for part in (_sato_p, _sato_q))
    null = sum(_null(each) for each in used)
    return Difference(rd, max(0.0, (rd * p + q) / weight**2), null / weight**2, weight)


def _excess(table: Table) -> float:
    runs = table.new_runs + table.reference_runs
    return (table.new_fails * table.reference_runs - table.reference_fails * table.new_runs) / runs


def _sato_p(table: Table) -> float:
    new, reference = table.new_runs, table.reference_runs
    share, rest = new / (new + reference), reference / (new + reference)
    balance = share * rest * (reference - new) / 2
    return table.reference_fails * share**2 - table.new_fails * rest**2 + balance


def _sato_q(table: Table) -> float:
    new_passes = table.new_runs - table.new_fails
    reference_passes = table.reference_runs - table.reference_fails
    discordant = table.new_fails * reference_passes + table.reference_fails * new_passes
    return discordant / (2 * (table.new_runs + table.reference_runs))


def _null(table: Table) -> float:
    runs, fails = table.new_runs + table.reference_runs, table.new_fails + table.reference_fails
    if runs == 1:
        return 0.0
    return table.new_runs * table.reference_runs * fails * (runs - fails) / (runs**2 * (runs - 1))


def clustered(cells: Iterable[TaskCell]) -> Clustered | None:
    """Return the variance of the Mantel-Haenszel difference where a task runs more than once.

    It is the arm's coefficient in a regression on stratum dummies with CRV1 standard errors (Liang and Zeger
    1986), small-sample factor G/(G-1) (N-1)/(N-K). None if no stratum has both arms, or where it cannot be
    computed: a single task, or not more runs than strata.
    """
    rows = list(cells)
    tables = tables_of((each.stratum, each.arm, each.runs, each.fails) for each in rows)
    found = mantel_haenszel(tables.values())
    if found is None:
        return None
    scores: defaultdict[str, float] = defaultdict(float)
    runs = 0
    for each in rows:
        if (table := tables[each.stratum]).compares:
            runs += each.runs
            scores[each.task] += _score(each, table, found.rd)
    strata = sum(each.compares for each in tables.values())
    tasks, free = len(scores), runs - strata - 1
    if tasks < 2 or free < 1:  # noqa: PLR2004  # between fewer than two nothing varies
        return None
    small = tasks / (tasks - 1) * (runs - 1) / free
    return Clustered(found.rd, small * sum(each**2 for each in scores.values()) / found.weight**2, tasks)


def _score(cell: TaskCell, table: Table, rd: float) -> float:
    runs = table.new_runs + table.reference_runs
    share, rate = table.new_runs / runs, (table.new_fails + table.reference_fails) / runs
    lever = (cell.arm == "new") - share
    return lever * (cell.fails - cell.runs * rate - rd * cell.runs * lever)


def tables_of(rows: Iterable[tuple[str, Arm, int, int]]) -> dict[str, Table]:
    """Sum (stratum, arm, runs, fails) up to a table a stratum."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for stratum, arm, runs, fails in rows:
        place = 0 if arm == "new" else 2
        sums[stratum][place] += fails
        sums[stratum][place + 1] += runs
    return {stratum: Table(*counts) for stratum, counts in sums.items()}


def between(groups: Iterable[Sequence[tuple[float, float]]]) -> tuple[float, int]:
    """Return the variance between units beyond chance, and its degrees of freedom.

    DerSimonian and Laird 1986. Each group of (value, variance) has its own mean. Values without variance and
    groups of one are left out.
    """
    q = scale = 0.0
    free = 0
    for group in groups:
        known = [(value, variance) for value, variance in group if variance > 0]
        if len(known) < 2:  # noqa: PLR2004  # one unit does not vary
            continue
        weights = [1 / variance for _, variance in known]
        total = sum(weights)
        mean = sum(w * value for w, (value, _) in zip(weights, known, strict=True)) / total
        q += sum(w * (value - mean) ** 2 for w, (value, _) in zip(weights, known, strict=True))
        scale += total - sum(w * w for w in weights) / total
        free += len(known) - 1
    return (max(0.0, (q - free) / scale) if scale > 0 else 0.0), free


def shrunk(variance: float, free: int, *, prior_sd: float, prior_free: float) -> float:
    """Draw a variance with `free` degrees of freedom towards the prior's."""
    return (prior_free * prior_sd**2 + free * variance) / (prior_free + free)


def level_change(batches: Sequence[tuple[Arm, float, int]]) -> float:
    """Return what of the difference survives a straight trend over the batches, given in their order.

    Each batch is (arm, failure rate beyond its strata's, runs): the coefficient of the arm in a regression,
    weighted by runs, on 1, the batch's number and the arm.
    """
    matrix = [[0.0] * 3 for _ in range(3)]
    right = [0.0] * 3
    for number, (arm, excess, runs) in enumerate(batches):
        row = (1.0, float(number), float(arm == "new"))
        for i in range(3):
            right[i] += runs * row[i] * excess
            for j in range(3):
                matrix[i][j] += runs * row[i] * row[j]
    replaced = [[*row[:2], right[place]] for place, row in enumerate(matrix)]
    return _determinant(replaced) / _determinant(matrix)


def _determinant(m: Sequence[Sequence[float]]) -> float:
    return (
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
        - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
        + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    )


def rate_of(table: Table, arm: Arm) -> float:
    """Return an arm's failure rate in a stratum, 0 where it has no runs."""
    fails, runs = (
        (table.new_fails, table.new_runs) if arm == "new" else (table.reference_fails, table.reference_runs)
    )
    return fails / runs if runs else 0.0


def pooled_rates(tables: Mapping[str, Table]) -> dict[str, float]:
    """Return each stratum's failure rate over both arms."""
    return {
        stratum: (each.new_fails + each.reference_fails) / (each.new_runs + each.reference_runs)
        for stratum, each in tables.items()
    }
