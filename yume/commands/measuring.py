"""Commands that show what was measured, and how far the measuring itself can be trusted."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from typing import Any, Final

from yume import operate
from yume.acts import measured
from yume.commands.asked import where
from yume.commands.printing import DONE, REFUSED, as_json, escaped
from yume.domain.measurement.cells import DEFAULTS
from yume.domain.measurement.wording import told, told_of_lesson
from yume.resources import open_resources
from yume.settings import Settings

_COLUMNS: Final = (
    f"{'improved':>9}  {'regressed':>9}  {'alarm':>6}  {'runs':>5}  {'naive +':>8}  {'naive -':>8}"
)


async def measure(arguments: argparse.Namespace, found: Settings) -> int:
    """Show every look at a version, newest first."""
    async with open_resources(operate.located(found), "cli") as resources:
        rows = await measured.looks(*where(arguments), resources)
        lessons = await measured.lessons(*where(arguments), resources)
    if arguments.json:
        print(as_json({"versions": rows, "lessons": lessons}))
        return DONE
    lines = [*map(told, rows), *(line for each in lessons for line in told_of_lesson(each))]
    print("\n".join(map(escaped, lines)) or "nothing was measured yet")
    return DONE


async def bench_measurement(arguments: argparse.Namespace, found: Settings) -> int:
    """Run a file of reference cases; refused if any figure differs."""
    from yume.bench import cases  # noqa: PLC0415  # a worker needs none of it

    del found
    checked = cases.check(arguments.cases)
    passed = Counter(each.function for each in checked if not each.differences)
    failed = Counter(each.function for each in checked if each.differences)
    if arguments.json:
        rows = {name: {"passed": passed[name], "failed": failed[name]} for name in {*passed, *failed}}
        print(as_json({"passed": passed.total(), "failed": failed.total(), "functions": rows}))
    else:
        for name in sorted({*passed, *failed}):
            print(f"{name:20} {passed[name]:>3} passed  {failed[name]:>3} failed")
        for each in checked:
            for difference in each.differences:
                print(escaped(f"{each.function} {each.name!r}: {difference}"))
    return REFUSED if failed else DONE


async def bench_trust(arguments: argparse.Namespace, found: Settings) -> int:
    """Simulate worlds whose truth is known, and show how often the measurement is wrong about them."""
    from yume.bench import trust  # noqa: PLC0415  # a worker needs none of it

    del found
    parameters = replace(DEFAULTS, boundary=arguments.boundary)
    if arguments.without_guard:
        parameters = trust.unguarded(parameters)
    if not arguments.json:
        print(
            f"{arguments.replicates} histories a world, 15 looks each: the share in which it was ever said\n"
        )
        print(f"{'world':24} {_COLUMNS}")
    results = trust.trust(
        arguments.replicates,
        seed=arguments.seed,
        told=lambda each: None if arguments.json else print(_line(each), flush=True),
        parameters=parameters,
    )
    if arguments.json:
        print(
            as_json(
                {
                    "replicates": arguments.replicates,
                    "seed": arguments.seed,
                    "boundary": arguments.boundary,
                    "guard": not arguments.without_guard,
                    "worlds": [each.to_json() for each in results],
                }
            )
        )
    else:
        print("\nnaive: a z-test of all runs since against the last batch before, read after every batch")
    if arguments.peers and not arguments.json:
        print("\nrules that look at no reference: in how many histories each fires, whatever the truth")
        for name in results[0].peers:
            shares = [each.peers[name] for each in results]
            print(f"  {name:32} {min(shares):.0%} to {max(shares):.0%}, world by world")
    return DONE


def _line(each: Any) -> str:
    runs = each.runs_to_improved or each.runs_to_alarm
    shares = (each.improved, each.regressed, each.alarm)
    shown = "  ".join(f"{share:>{width}.1%}" for share, width in zip(shares, (9, 9, 6), strict=True))
    naive = f"{each.naive_improved:>8.1%}  {each.naive_regressed:>8.1%}"
    return f"{each.world:24} {shown}  {'-' if runs is None else round(runs):>5}  {naive}  {each.about}"
