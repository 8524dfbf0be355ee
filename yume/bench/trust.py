"""How often the measurement is wrong, and how soon it is right, on worlds whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from statistics import NormalDist, median
from typing import Any, Final
from uuid import UUID

from yume.bench.worlds import NEW, REFERENCE, WORLDS, Batch, World
from yume.domain.measurement.cells import DEFAULTS, Cell, Parameters
from yume.domain.measurement.comparison import Comparison, compare
from yume.domain.measurement.effects import Arm, TaskCell
from yume.domain.measurement.window import VersionedBatch, reference

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
CHUNK: Final = 100  # histories that one process draws at a time
MANY_FAILURES: Final = 3
MANY_SUCCESSES: Final = 20
_Z: Final = NormalDist().inv_cdf(0.975)


@dataclass(slots=True)
class Tried:
    """What came of one history: the first look at which each word was said, and the runs by then."""

    improved: int | None = None
    regressed: int | None = None
    alarm: int | None = None
    naive_improved: bool = False
    naive_regressed: bool = False
    peers: set[str] = field(default_factory=set)
    verdicts: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Result:
    """Shares of the histories in which something was said at any of the looks."""

    world: str
    about: str
    replicates: int
    improved: float
    regressed: float
    alarm: float
    runs_to_improved: float | None
    runs_to_alarm: float | None
    naive_improved: float
    naive_regressed: float
    peers: Mapping[str, float]
    verdicts: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the row for programs."""
        return asdict(self)


def unguarded(parameters: Parameters) -> Parameters:
    """Return the method without its guard against drift, which then never has batches enough."""
    return replace(parameters, guard_batches=REFERENCE + NEW + 1)


def trust(
    replicates: int,
    *,
    seed: int,
    told: Callable[[Result], None],
    worlds: Sequence[World] = WORLDS,
    parameters: Parameters = DEFAULTS,
) -> list[Result]:
    """Try every world that often, on all cores; `told` hears of each world as it is done."""
    results = []
    with ProcessPoolExecutor() as pool:
        for place, world in enumerate(worlds):
            sizes = [min(CHUNK, replicates - start) for start in range(0, replicates, CHUNK)]
            jobs = [
                pool.submit(try_world, world.name, size, (seed, place, part), parameters)
                for part, size in enumerate(sizes)
            ]
            tried = [each for job in jobs for each in job.result()]
            results.append(made := summed(world, tried))
            told(made)
    return results


def try_world(
    name: str, replicates: int, seed: tuple[int, ...], parameters: Parameters = DEFAULTS
) -> list[Tried]:
    """Draw that many histories of a world and look at each after every new batch."""
    from numpy.random import default_rng  # noqa: PLC0415  # only simulations draw

    world = next(each for each in WORLDS if each.name == name)
    chance = default_rng(seed)
    return [look_at(world.draw(chance), parameters) for _ in range(replicates)]


def look_at(history: Sequence[Batch], parameters: Parameters = DEFAULTS) -> Tried:
    """Compare after each new batch, as S9 does, and beside it as one who reads two numbers."""
    tried = Tried()
    known = _window(history)
    cells = [cell for number in known for cell in _cells(history[number], number, "reference")]
    tasks = [cell for number in known for cell in _tasks(history[number], "reference")]
    for looked in range(1, NEW + 1):
        number = REFERENCE + looked - 1
        cells += _cells(history[number], number, "new")
        tasks += _tasks(history[number], "new")
        made = compare(cells, tasks=tasks or None, look=looked, parameters=parameters)
        _note(tried, made)
        _note_naive(tried, history[REFERENCE - 1], history[REFERENCE : number + 1])
        tried.peers |= {name for name, says in PEERS.items() if says(history[REFERENCE : number + 1])}
    return tried


def _window(history: Sequence[Batch]) -> list[int]:
    """Choose the reference batches by the product's own rule: the one that made the version is out."""
    known = [
        VersionedBatch(UUID(int=number), "0", runs, runs, START + timedelta(days=number))
        for number, batch in enumerate(history[:REFERENCE])
        if (runs := sum(each.runs for each in batch))
    ]
    at = START + timedelta(days=REFERENCE - 0.5)
    window = reference(known, injected_at=at, made_from={UUID(int=REFERENCE - 1)}, past={}, now=at)
    return sorted(each.batch.int for each in window.batches)


def _cells(batch: Batch, number: int, arm: Arm) -> list[Cell]:
    return [Cell(arm, number, each.stratum, each.runs, each.fails, each.infrastructure) for each in batch]


def _tasks(batch: Batch, arm: Arm) -> list[TaskCell]:
    return [TaskCell(each.stratum, arm, each.task, each.runs, each.fails) for each in batch if each.task]


def _note(tried: Tried, made: Comparison) -> None:
    tried.verdicts.add(f"{made.verdict}/{made.reason}")
    if made.verdict == "improved" and tried.improved is None:
        tried.improved = made.new_runs
    if made.verdict == "regressed" and tried.regressed is None:
        tried.regressed = made.new_runs
    if made.rollback_alarm and tried.alarm is None:
        tried.alarm = made.new_runs


def _note_naive(tried: Tried, trigger: Batch, new: Sequence[Batch]) -> None:
    """Judge by a z-test of all new runs against the last batch before, where a lost run is a failed one."""
    x0, n0 = _counted([trigger])
    x1, n1 = _counted(new)
    pooled = (x0 + x1) / (n0 + n1)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / n0 + 1 / n1))
    z = (x1 / n1 - x0 / n0) / spread if spread else 0.0
    tried.naive_improved |= z < -_Z
    tried.naive_regressed |= z > _Z


def _any_failure(new: Sequence[Batch]) -> bool:
    return _counted(new)[0] >= 1


def _three_failures(new: Sequence[Batch]) -> bool:
    return _counted(new)[0] >= MANY_FAILURES


def _many_successes(new: Sequence[Batch]) -> bool:
    fails, runs = _counted(new)
    return runs - fails >= MANY_SUCCESSES


# Rules that others go by: without a denominator, without a base rate, without a control.
PEERS: Final[Mapping[str, Callable[[Sequence[Batch]], bool]]] = {
    "regressed at the first failure": _any_failure,
    "quarantined after 3 failures": _three_failures,
    "promoted after 20 successes": _many_successes,
}


def _counted(batches: Sequence[Batch]) -> tuple[int, int]:
    rows = [each for batch in batches for each in batch]
    lost = sum(each.infrastructure for each in rows)
    return sum(each.fails for each in rows) + lost, sum(each.runs for each in rows) + lost


def summed(world: World, tried: Sequence[Tried]) -> Result:
    """Return the shares of one world."""
    count = len(tried)
    said = {
        name: [getattr(each, name) for each in tried if getattr(each, name) is not None]
        for name in ("improved", "regressed", "alarm")
    }
    return Result(
        world=world.name,
        about=world.about,
        replicates=count,
        improved=len(said["improved"]) / count,
        regressed=len(said["regressed"]) / count,
        alarm=len(said["alarm"]) / count,
        runs_to_improved=median(said["improved"]) if said["improved"] else None,
        runs_to_alarm=median(said["alarm"]) if said["alarm"] else None,
        naive_improved=sum(each.naive_improved for each in tried) / count,
        naive_regressed=sum(each.naive_regressed for each in tried) / count,
        peers={name: sum(name in each.peers for each in tried) / count for name in PEERS},
        verdicts=tuple(sorted({verdict for each in tried for verdict in each.verdicts})),
    )
