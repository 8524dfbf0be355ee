"""Templates that cannot read the slot: what changes among their runs was not changed by any lesson."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from yume.domain.measurement.cells import DEFAULTS, Cell, Parameters
from yume.domain.measurement.comparison import Comparison, compare
from yume.domain.measurement.effects import Arm
from yume.domain.measurement.rates import RunFact

NOTHING_READ: Final = "0"
FEWEST_RUNS: Final = 50  # in each arm
_JUDGED: Final = ("success", "failure")
_LATER: Final = 1_000_000  # the number of the first batch of the new arm: after all of the reference


@dataclass(frozen=True, slots=True)
class Placebo:
    """How the runs of such templates changed from the reference batches to the version's own batches."""

    templates: tuple[str | None, ...]
    comparison: Comparison

    @property
    def moved(self) -> bool:
        """Whether it changed although no lesson was read: then no change of the others is the lesson's."""
        effect = self.comparison.effect
        return effect is not None and (effect.cs90.below_zero or effect.cs90.above_zero)

    def to_json(self) -> dict[str, Any]:
        """Return what a measurement keeps of it."""
        made, effect = self.comparison, self.comparison.effect
        return {
            "templates": list(self.templates),
            "runs": made.new_runs,
            "failures": made.new_fails,
            "reference": {"runs": made.reference_runs, "failures": made.reference_fails},
            "rd": None if effect is None else effect.rd,
            "cs90": None if effect is None else [effect.cs90.low, effect.cs90.high],
            "moved": self.moved,
        }


def blind_templates(facts: Iterable[RunFact]) -> frozenset[str | None]:
    """Name the templates of which no run ever read a version, though some ended after others had read one."""
    known = [each for each in facts if each.counted_version is not None and each.last_at is not None]
    reading = [each for each in known if each.counted_version != NOTHING_READ]
    if not reading:
        return frozenset()
    since = min(each.last_at for each in reading if each.last_at is not None)
    late = {each.template_version for each in known if each.last_at is not None and each.last_at > since}
    return frozenset(late - {each.template_version for each in reading})


def compare_blind(
    facts: Sequence[RunFact],
    *,
    new: Sequence[UUID],
    reference: Sequence[UUID],
    parameters: Parameters = DEFAULTS,
) -> Placebo | None:
    """Compare their runs in the version's batches with those in the reference's, in the batches' order.

    None where either side has fewer than 50 runs.
    """
    shared = set(new) & set(reference)
    sides: dict[Arm, list[UUID]] = {
        "reference": [each for each in reference if each not in shared],
        "new": [each for each in new if each not in shared],
    }
    cells = [cell for arm, batches in sides.items() for cell in _cells(facts, batches, arm)]
    runs: Counter[Arm] = Counter()
    for each in cells:
        runs[each.arm] += each.runs
    if min(runs["new"], runs["reference"]) < FEWEST_RUNS:
        return None
    templates = {each.template_version for each in facts}
    return Placebo(tuple(sorted(templates, key=str)), compare(cells, parameters=parameters))


def _cells(facts: Iterable[RunFact], batches: Collection[UUID], arm: Arm) -> list[Cell]:
    number = {batch: place + (_LATER if arm == "new" else 0) for place, batch in enumerate(batches)}
    counted: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for each in facts:
        if each.batch in number and each.settled:
            counted[number[each.batch], each.stratum][each.outcome] += each.runs
    return [
        Cell(
            arm,
            place,
            stratum,
            sum(outcomes[name] for name in _JUDGED),
            outcomes["failure"],
            outcomes["infrastructure"],
        )
        for (place, stratum), outcomes in sorted(counted.items())
    ]
