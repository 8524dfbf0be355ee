"""Simulated platforms whose truth is known: what the batches before and after a version come to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numpy.random import Generator

REFERENCE: Final = 10  # batches before the version; the last one's dream made it
NEW: Final = 15
SIZE: Final = 40
SHOCK: Final = 0.05
SPREAD: Final = (1.2, 2.8)  # of tasks' own failure rates: a beta distribution with mean 0.3
TASKS: Final = 10
KINDS: Final = 16


@dataclass(frozen=True, slots=True)
class Drawn:
    """Runs of one batch in one stratum, of one task where tasks are told apart."""

    stratum: str
    runs: int
    fails: int
    infrastructure: int = 0
    task: str | None = None


Batch = list[Drawn]
Rates = Callable[
    [int], Mapping[str, tuple[float, float]]
]  # by batch: stratum -> (share of runs, failure rate)


def one(rate: float) -> Mapping[str, tuple[float, float]]:
    """Return a batch of one stratum."""
    return {"t1": (1.0, rate)}


@dataclass(frozen=True, slots=True)
class World:
    """A platform: `rates` are those of each batch by number, the first new one being number REFERENCE."""

    name: str
    about: str
    rates: Rates
    shock: float = 0.0
    bad_trigger: bool = False
    outages: frozenset[int] = frozenset()
    tasks: str = ""  # "other": other tasks under the new version; "same": the same ones
    first: int = 0  # the first batch there is: what came before read a version that was decided upon

    def draw(self, chance: Generator) -> list[Batch]:
        """Draw all batches of one history."""
        if self.tasks:
            return list(self._by_task(chance))
        return [self._batch(number, chance) for number in range(REFERENCE + NEW)]

    def _batch(self, number: int, chance: Generator) -> Batch:
        if number < self.first:
            return []
        drawn = self._once(number, chance)
        if self.bad_trigger and number == REFERENCE - 1:
            rate = self.rates(number)["t1"][1]
            least = SIZE * rate + (SIZE * rate * (1 - rate)) ** 0.5
            while sum(each.fails for each in drawn) < least:
                drawn = self._once(number, chance)
        return drawn

    def _once(self, number: int, chance: Generator) -> Batch:
        shock = chance.normal(0, self.shock) if self.shock else 0.0
        shares = self.rates(number)
        counts = chance.multinomial(SIZE, [share for share, _ in shares.values()])
        drawn = []
        for (stratum, (_, rate)), runs in zip(shares.items(), counts, strict=True):
            lost = int(chance.binomial(runs, 0.5)) if number in self.outages else 0
            fails = int(chance.binomial(runs - lost, min(0.98, max(0.02, rate + shock))))
            drawn.append(Drawn(stratum, int(runs) - lost, fails, lost))
        return drawn

    def _by_task(self, chance: Generator) -> Iterator[Batch]:
        old = chance.beta(*SPREAD, TASKS)
        new = old if self.tasks == "same" else chance.beta(*SPREAD, TASKS)
        for number in range(REFERENCE + NEW):
            rates = old if number < REFERENCE else new
            prefix = "new" if number >= REFERENCE and self.tasks == "other" else "task"
            yield [
                Drawn("t1", SIZE // TASKS, int(chance.binomial(SIZE // TASKS, rate)), 0, f"{prefix}-{place}")
                for place, rate in enumerate(rates)
            ]


def _switch(before: float, after: float) -> Rates:
    return lambda number: one(before if number < REFERENCE else after)


def _drift(change: float) -> Rates:
    return lambda number: one(0.35 + change * number / (REFERENCE + NEW - 1))


def _easier(number: int) -> Mapping[str, tuple[float, float]]:
    easy = 0.3 if number < REFERENCE else 0.8
    return {"easy": (easy, 0.15), "hard": (1 - easy, 0.45)}


def _template(number: int) -> Mapping[str, tuple[float, float]]:
    return {"t1": (1.0, 0.30)} if number < REFERENCE else {"t2": (1.0, 0.20)}


def _many_kinds(change: float) -> Rates:
    old = {f"kind-{kind}": (1 / KINDS, 0.02 * kind) for kind in range(KINDS)}
    new = {name: (share, rate + change) for name, (share, rate) in old.items()}
    return lambda number: old if number < REFERENCE else new


WORLDS: Final[Sequence[World]] = (
    World("a/a", "nothing changes, 30 % fail", _switch(0.3, 0.3)),
    World(
        "regression to the mean", "no effect, written after a bad batch", _switch(0.3, 0.3), bad_trigger=True
    ),
    World("template change", "a new template with the version, 30 to 20 %", _template),
    World("mix drift", "no effect, the tasks get easier", _easier),
    World(
        "outage before",
        "no effect, half of the last batch before lost",
        _switch(0.3, 0.3),
        outages=frozenset({REFERENCE - 1}),
    ),
    World(
        "outage after",
        "no effect, half of the second new batch lost",
        _switch(0.3, 0.3),
        outages=frozenset({REFERENCE + 1}),
    ),
    World(
        "repeats, other tasks",
        "no effect, ten tasks four times a batch, other ten after",
        _switch(0.3, 0.3),
        tasks="other",
    ),
    World(
        "repeats, same tasks",
        "no effect, the same ten tasks four times a batch",
        _switch(0.3, 0.3),
        tasks="same",
    ),
    World("batch shocks", "no effect, batches differ by 5 points", _switch(0.3, 0.3), shock=SHOCK),
    World("thin reference", "no effect, 40 runs of 16 kinds before", _many_kinds(0.0), first=REFERENCE - 2),
    World("slow drift", "no effect, 10 points less over all batches", _drift(-0.10)),
    World("fast drift", "no effect, 20 points less over all batches", _drift(-0.20)),
    World("improvement 30-20", "30 to 20 %", _switch(0.3, 0.2)),
    World("improvement 30-15", "30 to 15 %", _switch(0.3, 0.15)),
    World("regression 20-30", "20 to 30 %", _switch(0.2, 0.3)),
    World("regression 20-40", "20 to 40 %", _switch(0.2, 0.4)),
    World(
        "thin regression",
        "15 to 55 %, 40 runs of 16 kinds before",
        _many_kinds(0.4),
        first=REFERENCE - 2,
    ),
)
