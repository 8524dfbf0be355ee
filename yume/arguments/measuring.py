"""What can be said about measuring: experiments, and what Yume's own code does on known cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from yume.arguments.parts import command, of_series, positive, with_boundary, with_json, with_why


def add_experiment(commands: Any) -> None:
    """Add `experiment` with its actions."""
    experiment = commands.add_parser("experiment", help="coins that say which batch reads which lessons")
    experiment = experiment.add_subparsers(metavar="ACTION", required=True)
    room = "experiments:"
    try_ = "try the version in the slot by coins that are thrown now; nothing is released meanwhile"
    start = of_series(command(experiment, "start", f"{room}start", try_))
    kinds = "switchback: against the version before, one of two batches; holdout: no lessons in one of four"
    start.add_argument("--kind", choices=["switchback", "holdout"], default="switchback", help=kinds)
    start.add_argument("--blocks", type=positive, default=10, help="6 to 100 (default 10)")
    washout = "leave the first N runs of every batch out: the platform may carry traces over (default 0)"
    start.add_argument("--washout-runs", type=int, default=0, metavar="N", help=washout)
    start.add_argument("--seed", help="of the coins (default: drawn, and shown)")
    stop = of_series(command(experiment, "stop", f"{room}stop", "end it; what stands in the slot stays"))
    for each in (start, stop):
        with_why(each, required=True)
    of_series(command(experiment, "show", f"{room}show", "show the last one: its coins and batches"))


def add_bench(commands: Any) -> None:
    """Add `bench` with its cases and simulations."""
    bench = commands.add_parser("bench", help="what Yume's own code does on cases that others can check")
    bench = bench.add_subparsers(metavar="BENCH", required=True)
    run = "run a file of reference cases of the measurement; exit 1 if a figure differs"
    cases = command(bench, "measurement", "measuring:bench_measurement", run)
    cases.add_argument("cases", type=Path, metavar="CASES", help="a JSON file of cases")
    simulate = "simulate platforms whose truth is known: how often is the measurement wrong, how soon right?"
    trust = command(bench, "trust", "measuring:bench_trust", simulate)
    trust.add_argument("--replicates", type=positive, default=500, help="histories a world (default 500)")
    trust.add_argument("--seed", type=int, default=1, help="the same seed gives the same figures (default 1)")
    peers = "show beside it what rules say that count failures or successes alone"
    trust.add_argument("--peers", action="store_true", help=peers)
    with_boundary(trust, default="always_valid")
    guard = "let the guard against drift forbid no verdict: what it costs, and what it saves"
    trust.add_argument("--without-guard", action="store_true", help=guard)
    for each in (cases, trust):
        with_json(each)
