"""One look of S9 at a version: its runs so far, its reference window, and what else changed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from yume.domain.measurement.cells import DEFAULTS, Boundary, Cell, Parameters
from yume.domain.measurement.comparison import Comparison, Flags, compare
from yume.domain.measurement.effects import Arm
from yume.domain.measurement.placebo import Placebo, blind_templates, compare_blind
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.sequential import runs_needed
from yume.domain.measurement.window import Past, VersionedBatch, Window, reference

METHODS: Final[Mapping[Boundary, str]] = {
    "always_valid": "mantel-haenszel, always-valid 95 %, 1",
    "pocock": "mantel-haenszel, Pocock bound for 15 looks, 1",
}
TEN_POINTS: Final = 0.10
_JUDGED: Final = ("success", "failure", "infrastructure")
_WHATS: Final = ("template_version", "agent_model", "taxonomy")


@dataclass(frozen=True, slots=True)
class Injected:
    """A version as it came into the slot; `made_from` are the batches of the dream that made it."""

    version: str
    written_at: datetime
    made_from: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Confounder:
    """Something else that changed inside a comparison: the values on both sides."""

    what: str
    reference: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A look: the comparison of the agent's failures, the one of infrastructure, and what they rest on."""

    injected: Injected
    comparison: Comparison
    infrastructure: Comparison
    window: Window
    batches: tuple[UUID, ...]
    pending: int
    unknown: int
    confounders: tuple[Confounder, ...]
    cells: tuple[Cell, ...]
    runs_needed: int | None
    placebo: Placebo | None = None
    parameters: Parameters = DEFAULTS

    def to_json(self) -> dict[str, Any]:
        """Return everything that is needed to recompute the look, and what it came to."""
        made, effect = self.comparison, self.comparison.effect
        told: dict[str, Any] = {
            "evidence": "observational",
            "boundary": self.parameters.boundary,
            "comparator_versions": list(self.window.versions),
            "reference_batches": [str(each.batch) for each in self.window.batches],
            "new_batches": [str(each) for each in self.batches],
            "reference": {"runs": made.reference_runs, "failures": made.reference_fails},
            "pending": self.pending,
            "unknown_version": self.unknown,
            "quarantined": [list(each) for each in made.quarantined],
            "overlap": made.overlap,
            "guard": made.guard,
            "placebo": None if self.placebo is None else self.placebo.to_json(),
            "rollback_alarm": made.rollback_alarm,
            "infrastructure_flag": _excludes_zero(self.infrastructure),
            "confounders": [
                {"what": each.what, "reference": list(each.reference), "new": list(each.new)}
                for each in self.confounders
            ],
            "runs_needed_for_10_points": self.runs_needed,
            "cells": [
                [each.arm, each.batch, each.stratum, each.runs, each.fails, each.infrastructure]
                for each in self.cells
            ],
        }
        if self.parameters.z is not None:
            told |= {"z": self.parameters.z, "planned_looks": self.parameters.planned_looks}
        if effect is not None:
            told |= {
                "rd": effect.rd,
                "se": effect.se,
                "se_sato": effect.se_sato,
                "se_null": effect.se_null,
                "sigma_b": effect.sigma_b,
                "cs95": [effect.cs95.low, effect.cs95.high],
                "cs90": [effect.cs90.low, effect.cs90.high],
                "cs80": [effect.cs80.low, effect.cs80.high],
                "log_e_better": effect.log_e_better,
                "log_e_worse": effect.log_e_worse,
                "level_change": effect.level_change,
            }
        return told


def look(
    facts: Iterable[RunFact],
    injected: Injected,
    *,
    past: Mapping[str, Past],
    now: datetime,
    number: int | None = None,
    parameters: Parameters = DEFAULTS,
) -> Measured:
    """Compare a version's mature batches with the reference window, as the runs stand now.

    Templates that never read the slot are no part of it: they are the placebo beside it. `number` is that of
    the look. The placebo, and whether a version loses more runs, are watched for ever, whatever is planned.
    """
    all_known = [each for each in facts if each.outcome != "cancelled"]
    blind = blind_templates(all_known)
    known = [each for each in all_known if each.template_version not in blind]
    history = versioned_batches(known)
    window = reference(
        history, injected_at=injected.written_at, made_from=injected.made_from, past=past, now=now
    )
    new = [each for each in history if each.version == injected.version and each.mature(now)]
    cells = tuple(_cells(known, [*window.batches, *new], injected.version))
    unplanned = replace(parameters, boundary="always_valid")
    infrastructure = compare(_as_infrastructure(cells), parameters=unplanned)
    placebo = compare_blind(
        [each for each in all_known if each.template_version in blind],
        new=_batches_in_order(new),
        reference=_batches_in_order(window.batches),
        parameters=unplanned,
    )
    unknown = sum(each.runs for each in known if _unknown_after(each, injected.written_at))
    made = compare(
        cells,
        unknown_new=unknown,
        flags=Flags(
            infrastructure=_excludes_zero(infrastructure), placebo=placebo is not None and placebo.moved
        ),
        look=number,
        parameters=parameters,
    )
    of_version = [each for each in known if each.counted_version == injected.version]
    return Measured(
        injected=injected,
        comparison=made,
        infrastructure=infrastructure,
        window=window,
        batches=tuple(each.batch for each in new),
        pending=sum(each.runs for each in of_version if not each.settled),
        unknown=unknown,
        confounders=tuple(_confounders(known, window.batches, new)),
        cells=cells,
        placebo=placebo,
        runs_needed=_needed(made, parameters),
        parameters=parameters,
    )


def _batches_in_order(batches: Iterable[VersionedBatch]) -> list[UUID]:
    return list(dict.fromkeys(each.batch for each in sorted(batches, key=lambda one: one.ended_at)))


def versioned_batches(facts: Iterable[RunFact]) -> list[VersionedBatch]:
    """Sum runs up by batch and the version that they read; runs without either are in none."""
    runs: Counter[tuple[UUID, str]] = Counter()
    settled: Counter[tuple[UUID, str]] = Counter()
    ended: dict[tuple[UUID, str], datetime] = {}
    for each in facts:
        version = each.counted_version
        if each.batch is None or version is None or each.last_at is None:
            continue
        key = each.batch, version
        runs[key] += each.runs
        settled[key] += each.runs if each.settled else 0
        ended[key] = max(each.last_at, ended.get(key, each.last_at))
    return [VersionedBatch(*key, count, settled[key], ended[key]) for key, count in runs.items()]


def _cells(facts: Sequence[RunFact], batches: Sequence[VersionedBatch], new_version: str) -> Iterable[Cell]:
    """Return the settled runs of the batches chosen, a cell for each batch, arm and stratum."""
    in_order = sorted(batches, key=lambda each: (each.ended_at, each.version, each.batch))
    number = {(each.batch, each.version): place for place, each in enumerate(in_order)}
    counted: defaultdict[tuple[int, Arm, str], Counter[str]] = defaultdict(Counter)
    for each in facts:
        version = each.counted_version
        place = number.get((each.batch, version)) if each.batch and version else None
        if place is not None and each.settled and each.outcome in _JUDGED:
            arm: Arm = "new" if version == new_version else "reference"
            counted[place, arm, each.stratum][each.outcome] += each.runs
    for (place, arm, stratum), outcomes in sorted(counted.items()):
        runs = outcomes["success"] + outcomes["failure"]
        yield Cell(arm, place, stratum, runs, outcomes["failure"], outcomes["infrastructure"])


def _as_infrastructure(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells in which a lost run is the failure, and every run counts."""
    return [
        Cell(each.arm, each.batch, each.stratum, each.runs + each.infrastructure, each.infrastructure)
        for each in cells
    ]


def _excludes_zero(made: Comparison) -> bool:
    effect = made.effect
    return effect is not None and (effect.cs90.below_zero or effect.cs90.above_zero)


def _unknown_after(fact: RunFact, written_at: datetime) -> bool:
    ended_after = fact.last_at is not None and fact.last_at >= written_at
    return fact.counted_version is None and ended_after


def _confounders(
    facts: Sequence[RunFact], old: Sequence[VersionedBatch], new: Sequence[VersionedBatch]
) -> Iterable[Confounder]:
    """Name what the new runs have that the reference has not."""
    sides = [{(each.batch, each.version) for each in batches} for batches in (old, new)]
    for what in _WHATS:
        before, after = (
            {
                str(getattr(each, what) or "unknown")
                for each in facts
                if (each.batch, each.counted_version) in side
            }
            for side in sides
        )
        if before and after - before:
            yield Confounder(what, tuple(sorted(before)), tuple(sorted(after)))


def _needed(made: Comparison, parameters: Parameters) -> int | None:
    """Return about how many runs of the version would show a change of ten points."""
    if not made.reference_runs or not made.reference_batches:
        return None
    rate = made.reference_fails / made.reference_runs
    size = max(1, made.reference_runs // made.reference_batches)
    changed = rate - TEN_POINTS if rate >= TEN_POINTS else rate + TEN_POINTS
    return runs_needed(
        *(rate, changed),
        reference_runs=made.reference_runs,
        batch=size,
        alpha=parameters.improve,
        z=parameters.z,
    )
