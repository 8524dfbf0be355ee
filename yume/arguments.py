"""What can be said to the `yume` command; to read it loads nothing of what the commands load."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_KEY_LIMIT: Final = 200


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
    _add_series(commands)
    _add_dreams(commands)
    _add_slot(commands)
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


def _add_series(commands: Any) -> None:
    series = commands.add_parser("series", help="the series").add_subparsers(metavar="ACTION", required=True)
    _json(_command(series, "list", "series:series_list", "list the series with their modes"))
    room, mode_help = "series:series_", "let a series write, or only report; recorded with who and why"
    show = "show a series' policy, its next look by the clock, its slot, its queue and its last dreams"
    _series(_command(series, "show", f"{room}show", show))
    add_help = "add a series, which only reports at first; a known one is changed"
    add = _command(series, "add", f"{room}add", add_help)
    set_ = _command(series, "set", f"{room}set", "change what is given of a series' policy, and nothing else")
    for each in (add, set_):
        _series(each)
        _policy(each)
        _why(each)
    set_.add_argument("--no-schedule", action="store_true", help="look at the export by callbacks alone")
    mode = _series(_command(series, "mode", f"{room}mode", mode_help))
    mode.add_argument("mode", choices=["report_only", "gated", "auto"])
    _why(mode, required=True)
    _why(_series(_command(series, "pause", f"{room}pause", "start no more dreams; one that runs goes on")))
    _why(_series(_command(series, "resume", f"{room}resume", "start dreams again after a pause")))
    adopt_help = "show a text in the slot that Yume did not write; with --sha256 make it the owner's rules"
    adopt = _command(series, "adopt", f"{room}adopt", adopt_help)
    _series(adopt).add_argument("--sha256", help="of the text that was shown: no other one is adopted")
    _why(adopt, default=None)


def _policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch-max-runs", type=int, metavar="N", help="close a batch at this many tasks")
    parser.add_argument(
        "--batch-max-wait", type=_duration, metavar="TIME", help="close a batch after this long, such as 6h"
    )
    parser.add_argument(
        "--schedule", metavar="CRON", help="close a batch by the clock too, such as '0 3 * * *'; with --zone"
    )
    parser.add_argument("--zone", help="the schedule's time zone, such as Asia/Shanghai")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="the longest text for the slot")
    parser.add_argument("--language", choices=["en", "zh"], help="the language of the text's header")
    parser.add_argument("--instructions", metavar="TEXT", help="the owner's words to whoever drafts lessons")


def _add_dreams(commands: Any) -> None:
    dream = "close the open batch and start its dream now, though it is not full"
    _why(_series(_command(commands, "dream", "dreams:dream", dream)))
    cancel = _command(commands, "cancel", "dreams:cancel", "end a dream that has not ended, for good")
    resume = _command(commands, "resume", "dreams:resume", "let a parked dream go on where it was parked")
    for each in (cancel, resume):
        _series(each).add_argument("number", type=_positive, help="the dream's, as `yume dreams` shows it")
    _why(cancel, required=True)
    _why(resume)
    again = "review a dream's batch once more and show what differs; without --apply it changes nothing. "
    again += "With --subject: the batches of all dreams that stored messages name"
    replay = _command(commands, "replay", "dreams:replay", again)
    for name in ("platform", "series"):
        replay.add_argument(name, nargs="?")
    replay.add_argument("number", type=_positive, nargs="?", help="the dream's, as `yume dreams` shows it")
    replay.add_argument("--from", dest="step", metavar="STEP", help="such as s4 (default: the first, s1)")
    replay.add_argument("--subject", help="such as 'yume.dream.classified.tobatsu.kamila'; with --since")
    replay.add_argument("--since", type=_duration, metavar="TIME", help="how far back to look, such as 2h")
    apply = "merge on what stands now, through gate and release; with --why"
    replay.add_argument("--apply", action="store_true", help=apply)
    replay.add_argument("--key", type=_key, help="asked twice under one key it is one replay (default: new)")
    wait = "wait for the end of one dream's replay, which goes on if nobody does"
    replay.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help=wait)
    _why(replay, default=None)
    _json(replay)


def _add_slot(commands: Any) -> None:
    preview = "show the next text, what comes, goes and is left out and why, and whether it may be released"
    _series(_command(commands, "preview", "slot:preview", preview))
    now = "write what is approved without waiting for the measurement"
    release = _series(_command(commands, "release", "slot:release", now))
    release.add_argument("--now", action="store_true", help="do it; without, the text is only shown")
    back = "put an old version back into the slot, before any dream's write"
    rollback = _series(_command(commands, "rollback", "slot:rollback", back))
    rollback.add_argument("--to", type=_positive, metavar="N", help="default: the version before")
    rollback.add_argument("--dry-run", action="store_true", help="only show what would go and come back")
    owners = "leave only the owner's rules in the slot; the series only reports from then on"
    kill = _series(_command(commands, "kill", "slot:kill", owners))
    kill.add_argument("--all", action="store_true", help="leave nothing at all in the slot")
    for each in (release, rollback):
        _why(each, default=None)
    _why(kill, required=True)


def _add_looking(commands: Any) -> None:
    status = "show every series, its slot, its queue and what waits; dead letters and backlog"
    _json(_command(commands, "status", "status:status", status))
    report = _command(commands, "report", "dreams:report", "print a dream's report")
    report.add_argument("--dream", type=_positive, help="its number (default: the newest that has one)")
    dreams = _command(commands, "dreams", "dreams:dreams", "list the dreams of a series")
    lessons = _command(commands, "lessons", "looking:lessons", "list the lessons of a series")
    trail = _command(
        commands, "trail", "looking:trail", "follow a lesson down to the tasks that it was learnt from"
    )
    for each in (report, dreams, lessons, trail):
        _series(each)
    trail.add_argument("lesson", help="its id")


def _command(commands: Any, name: str, command: str, help_: str) -> argparse.ArgumentParser:
    """Add a command; `command` is the room in yume/commands/ and the function there that does it."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=help_)
    parser.set_defaults(command=command, refuse=parser.error)
    return parser


def _series(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Have a command be about one series, and able to print JSON."""
    parser.add_argument("platform")
    parser.add_argument("series")
    _json(parser)
    return parser


def _why(
    parser: argparse.ArgumentParser, *, required: bool = False, default: str | None = "asked for by hand"
) -> None:
    help_ = "the reason, kept for good" + ("" if required or default is None else f" (default: {default})")
    parser.add_argument("--why", type=_reason, required=required, default=default, metavar="TEXT", help=help_)


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _duration(text: str) -> timedelta:
    """Read a time such as `90s`, `30m`, `6h` or `2d`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: a number and s, m, h or d, such as 6h")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _reason(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the reason is empty")
    return text


def _key(text: str) -> str:
    if not 0 < len(text) <= _KEY_LIMIT:
        raise argparse.ArgumentTypeError(f"a key has 1 to {_KEY_LIMIT} characters, this one {len(text)}")
    return text


def _share(text: str) -> float:
    if not 0 <= (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{number} is not between 0 and 1")
    return number
