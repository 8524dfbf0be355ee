"""Commands on experiments: coins that say which batch reads which lessons."""

from __future__ import annotations

import argparse
import secrets

from yume import operate
from yume.acts import experiments as acts
from yume.commands.asked import operator, where
from yume.commands.printing import DONE, as_json, escaped
from yume.domain.measurement.experiments import Experiment
from yume.resources import open_resources
from yume.settings import Settings


async def start(arguments: argparse.Namespace, found: Settings) -> int:
    """Throw the coins, and let the next batches read what they say."""
    seed = arguments.seed or secrets.token_hex(8)
    async with open_resources(operate.located(found), "cli") as resources:
        made = await acts.start(
            *where(arguments),
            arguments.kind,
            resources,
            blocks=arguments.blocks,
            washout_runs=arguments.washout_runs,
            seed=seed,
            by=operator(),
            why=arguments.why,
        )
    _show(arguments, made)
    return DONE


async def stop(arguments: argparse.Namespace, found: Settings) -> int:
    """End a running experiment."""
    async with open_resources(operate.located(found), "cli") as resources:
        ended = await acts.stop(*where(arguments), resources, by=f"{operator()}: {arguments.why}")
    _show(arguments, ended)
    return DONE


async def show(arguments: argparse.Namespace, found: Settings) -> int:
    """Show the last experiment of a series."""
    async with open_resources(operate.located(found), "cli") as resources:
        last = await acts.shown(*where(arguments), resources)
    if last is None:
        print("null" if arguments.json else "no experiment yet")
    else:
        _show(arguments, last)
    return DONE


def _show(arguments: argparse.Namespace, made: Experiment) -> None:
    if arguments.json:
        print(as_json(made.to_json()))
        return
    state = f"ended by {made.ended_by}" if made.ended_at else f"{acts.needs(made)} batches to go"
    done = " ".join(made.arm(number) for number in range(len(made.batches))) or "none yet"
    without = f", without the first {made.washout_runs} runs of a batch" if made.washout_runs else ""
    about = f"{made.kind} of {len(made.coins)} blocks{without}, seed {made.seed}"
    print(escaped(f"{about}: {state}; batches so far: {done}"))
