"""What can be said to the `yume` command; to read it loads nothing of what the commands load."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="yume",
        description="Looks back after each batch of task runs, writes what it learnt into one slot, "
        "and measures whether that helped.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_serving(commands)
    _add_upkeep(commands)
    _add_dead(commands)
    _add_looking(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = _command(
        commands,
        "demo",
        "serving:demo",
        "run everything here on a practice platform, and show what comes of it",
    )
    demo.add_argument("--seed", type=int, default=1, help="the same seed gives the same tasks (default 1)")
    demo.add_argument("--batches", type=_positive, default=8, help="batches of tasks in all (default 8)")
    demo.add_argument("--size", type=_positive, default=30, help="tasks in a batch (default 30)")
    demo.add_argument(
        "--obedience",
        type=_share,
        default=0.9,
        help="how often the worker follows a lesson; 0: never (default 0.9)",
    )
    demo.add_argument(
        "--folder", type=Path, help="keep everything in this new folder (default: a temporary one)"
    )
    _json(demo)


def _add_serving(commands: Any) -> None:
    _command(
        commands,
        "up",
        "serving:up",
        "run everything: one process a trust zone, and the servers that no URL names",
    )
    worker = _command(commands, "worker", "serving:worker", "serve the steps named, all of one trust zone")
    worker.add_argument("steps", nargs="+", metavar="STEP", help="such as s1 or s1_pull")
    _command(
        commands,
        "orchestrator",
        "serving:orchestrator",
        "collect batches, start dreams, announce again what got lost",
    )
    _command(commands, "api", "serving:api", "serve /livez and /readyz")


def _add_upkeep(commands: Any) -> None:
    db = commands.add_parser("db", help="the tables").add_subparsers(metavar="ACTION", required=True)
    _command(
        db,
        "migrate",
        "upkeep:migrate",
        "apply the migrations that are missing; safe from many processes at once",
    )
    streams = commands.add_parser("streams", help="the streams").add_subparsers(
        metavar="ACTION", required=True
    )
    _command(
        streams,
        "apply",
        "upkeep:streams_apply",
        "create what is missing and change what differs from streams/",
    )
    _json(
        _command(
            streams, "check", "upkeep:streams_check", "compare with streams/; exit 1 if anything differs"
        )
    )
    platform = commands.add_parser("platform", help="the platforms").add_subparsers(
        metavar="ACTION", required=True
    )
    add = _command(platform, "add", "upkeep:platform_add", "add a platform, or give a known one new tokens")
    add.add_argument("platform", help="its id, such as tobatsu")
    add.add_argument("--base-url", required=True, help="where its API answers")
    add.add_argument(
        "--export-token-file", type=Path, required=True, help="the token that can only read the export"
    )
    add.add_argument(
        "--slot-token-file", type=Path, required=True, help="the token that can only write the slot"
    )
    _json(_command(platform, "list", "upkeep:platform_list", "list the platforms"))


def _add_dead(commands: Any) -> None:
    dead = commands.add_parser("dead", help="the messages that were given up").add_subparsers(
        metavar="ACTION", required=True
    )
    _json(_command(dead, "list", "upkeep:dead_list", "list the dead letters, oldest first"))
    show = _command(dead, "show", "upkeep:dead_show", "show a dead letter with its body")
    show.add_argument("sequence", type=_positive, metavar="SEQ", help="its number in the list")
    _json(show)
    requeue = _command(
        dead, "requeue", "upkeep:dead_requeue", "store messages once more where they stood; exit 1 if refused"
    )
    drop = _command(
        dead, "drop", "upkeep:dead_drop", "remove dead letters for good; the log says who and why"
    )
    for each in (requeue, drop):
        each.add_argument("sequences", type=_positive, nargs="+", metavar="SEQ", help="numbers in the list")
    drop.add_argument("--why", required=True, help="the reason, for the log")


def _add_looking(commands: Any) -> None:
    series = commands.add_parser("series", help="the series").add_subparsers(metavar="ACTION", required=True)
    _json(_command(series, "list", "series:series_list", "list the series with their modes"))
    mode = _command(
        series, "mode", "series:series_mode", "let a series write, or only report; recorded with who and why"
    )
    mode.add_argument("platform")
    mode.add_argument("series")
    mode.add_argument("mode", choices=["report_only", "gated", "auto"])
    mode.add_argument("--why", required=True, help="the reason, kept for good")
    report = _command(commands, "report", "dreams:report", "print a dream's report")
    report.add_argument("--dream", type=_positive, help="its number (default: the newest that has one)")
    dreams = _command(commands, "dreams", "dreams:dreams", "list the dreams of a series")
    lessons = _command(commands, "lessons", "looking:lessons", "list the lessons of a series")
    trail = _command(
        commands, "trail", "looking:trail", "follow a lesson down to the tasks that it was learnt from"
    )
    for each in (report, dreams, lessons, trail):
        each.add_argument("platform")
        each.add_argument("series")
        _json(each)
    trail.add_argument("lesson", help="its id")


def _command(commands: Any, name: str, command: str, help_: str) -> argparse.ArgumentParser:
    """Add a command; `command` is the room in yume/commands/ and the function there that does it."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=help_)
    parser.set_defaults(command=command)
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _share(text: str) -> float:
    if not 0 <= (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{number} is not between 0 and 1")
    return number
