"""Serves the practice platform as a process of its own: `python -m yume.local.practice --folder F`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path

from yume.local.practice.habits import Habits
from yume.local.practice.host import Practice
from yume.local.practice.pitfalls import OWN, load


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m yume.local.practice", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the platform keeps what it knows")
    parser.add_argument("--port", type=int, default=0, help="0: any free port of 127.0.0.1")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same tasks")
    parser.add_argument("--series", action="append", default=[], help="a series to open; may be repeated")
    parser.add_argument(
        "--pitfalls", type=Path, action="append", default=[], help="a folder of more pitfalls"
    )
    parser.add_argument("--obedience", type=float, default=Habits().obedience, help="0 to 1")
    parser.add_argument("--harm", type=float, default=0.0, help="0 to 1: how a harmful lesson is followed")
    return parser.parse_args()


async def serve(practice: Practice, port: int) -> None:
    """Serve until SIGTERM or SIGINT; the first line of output tells the address and both tokens as JSON."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with practice.serving(port) as base_url:
        told = {
            "base_url": base_url,
            "export_token": practice.export_token,
            "slot_token": practice.slot_token,
        }
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    """Open the folder and serve it."""
    asked = arguments()
    habits = Habits(obedience=asked.obedience, harm=asked.harm)
    practice = Practice(asked.folder, habits=habits, seed=asked.seed, pitfalls=load(OWN, *asked.pitfalls))
    with contextlib.closing(practice):
        for series in asked.series:
            practice.add_series(series)
        asyncio.run(serve(practice, asked.port))


if __name__ == "__main__":
    main()
