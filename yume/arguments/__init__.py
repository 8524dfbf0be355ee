"""What can be said to the `yume` command; to read it loads nothing of what the commands load."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from yume.arguments.measuring import add_bench, add_experiment
from yume.arguments.parts import (
    command,
    duration,
    key,
    of_series,
    positive,
    share,
    with_boundary,
    with_json,
    with_why,
)


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
    _add_files(commands)
    _add_slot(commands)
    _add_looking(commands)
    add_experiment(commands)
    add_bench(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = command(
        commands,
        "demo",
        "serving:demo",
        "run everything here on a practice platform, and show what comes of it",
    )
    demo.add_argument("--seed", type=int, default=1, help="the same seed gives the same tasks (default 1)")
    demo.add_argument("--batches", type=positive, default=18, help="batches of tasks in all (default 18)")
    demo.add_argument("--size", type=positive, default=40, help="tasks in a batch (default 40)")
    obedience = "how often the worker follows a lesson; 0: never (default 0.9)"
    demo.add_argument("--obedience", type=share, default=0.9, metavar="SHARE", help=obedience)
    harm = "plant a lesson that makes things worse, and let the worker follow it this often"
    demo.add_argument("--harm", type=share, default=0.0, metavar="SHARE", help=f"{harm} (default: none)")
    pitfalls = "a folder of pitfalls besides the built-in ones"
    demo.add_argument("--pitfalls", type=Path, metavar="DIR", help=pitfalls)
    demo.add_argument(
        "--folder", type=Path, help="keep everything in this new folder (default: a temporary one)"
    )
    with_json(demo)


def _add_serving(commands: Any) -> None:
    command(
        commands,
        "up",
        "serving:up",
        "run everything: one process a trust zone, and the servers that no URL names",
    )
    worker = command(commands, "worker", "serving:worker", "serve the steps named, all of one trust zone")
    worker.add_argument("steps", nargs="+", metavar="STEP", help="such as s1 or s1_pull")
    command(
        commands,
        "orchestrator",
        "serving:orchestrator",
        "collect batches, start dreams, announce again what got lost",
    )
    command(commands, "api", "serving:api", "serve /livez and /readyz")


def _add_upkeep(commands: Any) -> None:
    db = commands.add_parser("db", help="the tables").add_subparsers(metavar="ACTION", required=True)
    command(
        db,
        "migrate",
        "upkeep:migrate",
        "apply the migrations that are missing; safe from many processes at once",
    )
    streams = commands.add_parser("streams", help="the streams").add_subparsers(
        metavar="ACTION", required=True
    )
    command(
        streams,
        "apply",
        "upkeep:streams_apply",
        "create what is missing and change what differs from streams/",
    )
    with_json(
        command(streams, "check", "upkeep:streams_check", "compare with streams/; exit 1 if anything differs")
    )
    platform = commands.add_parser("platform", help="the platforms").add_subparsers(
        metavar="ACTION", required=True
    )
    add = command(platform, "add", "upkeep:platform_add", "add a platform, or give a known one new tokens")
    add.add_argument("platform", help="its id, such as tobatsu")
    add.add_argument("--base-url", required=True, help="where its API answers")
    add.add_argument(
        "--export-token-file", type=Path, required=True, help="the token that can only read the export"
    )
    add.add_argument(
        "--slot-token-file", type=Path, required=True, help="the token that can only write the slot"
    )
    with_json(command(platform, "list", "upkeep:platform_list", "list the platforms"))


def _add_dead(commands: Any) -> None:
    dead = commands.add_parser("dead", help="the messages that were given up").add_subparsers(
        metavar="ACTION", required=True
    )
    with_json(command(dead, "list", "upkeep:dead_list", "list the dead letters, oldest first"))
    show = command(dead, "show", "upkeep:dead_show", "show a dead letter with its body")
    show.add_argument("sequence", type=positive, metavar="SEQ", help="its number in the list")
    with_json(show)
    requeue = command(
        dead, "requeue", "upkeep:dead_requeue", "store messages once more where they stood; exit 1 if refused"
    )
    drop = command(dead, "drop", "upkeep:dead_drop", "remove dead letters for good; the log says who and why")
    for each in (requeue, drop):
        each.add_argument("sequences", type=positive, nargs="+", metavar="SEQ", help="numbers in the list")
    drop.add_argument("--why", required=True, help="the reason, for the log")


def _add_series(commands: Any) -> None:
    series = commands.add_parser("series", help="the series").add_subparsers(metavar="ACTION", required=True)
    with_json(command(series, "list", "series:series_list", "list the series with their modes"))
    room, mode_help = "series:series_", "let a series write, or only report; recorded with who and why"
    show = "show a series' policy, its next look by the clock, its slot, its queue and its last dreams"
    of_series(command(series, "show", f"{room}show", show))
    add_help = "add a series, which only reports at first; a known one is changed"
    add = command(series, "add", f"{room}add", add_help)
    set_ = command(series, "set", f"{room}set", "change what is given of a series' policy, and nothing else")
    for each in (add, set_):
        of_series(each)
        _policy(each)
        with_why(each)
    set_.add_argument("--no-schedule", action="store_true", help="look at the export by callbacks alone")
    mode = of_series(command(series, "mode", f"{room}mode", mode_help))
    mode.add_argument("mode", choices=["report_only", "gated", "auto"])
    with_why(mode, required=True)
    with_why(
        of_series(command(series, "pause", f"{room}pause", "start no more dreams; one that runs goes on"))
    )
    with_why(of_series(command(series, "resume", f"{room}resume", "start dreams again after a pause")))
    adopt_help = "show a text in the slot that Yume did not write; with --sha256 make it the owner's rules"
    adopt = command(series, "adopt", f"{room}adopt", adopt_help)
    of_series(adopt).add_argument("--sha256", help="of the text that was shown: no other one is adopted")
    with_why(adopt, default=None)


def _policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch-max-runs", type=int, metavar="N", help="close a batch at this many tasks")
    parser.add_argument(
        "--batch-max-wait", type=duration, metavar="TIME", help="close a batch after this long, such as 6h"
    )
    parser.add_argument(
        "--schedule", metavar="CRON", help="close a batch by the clock too, such as '0 3 * * *'; with --zone"
    )
    parser.add_argument("--zone", help="the schedule's time zone, such as Asia/Shanghai")
    parser.add_argument("--budget-tokens", type=int, metavar="N", help="the longest text for the slot")
    parser.add_argument("--language", choices=["en", "zh"], help="the language of the text's header")
    back = "let a version that looks worse be rolled back by itself; without, it is proposed"
    parser.add_argument("--auto-rollback", action=argparse.BooleanOptionalAction, default=None, help=back)
    with_boundary(parser)
    parser.add_argument("--instructions", metavar="TEXT", help="the owner's words to whoever drafts lessons")


def _add_dreams(commands: Any) -> None:
    now = "close the open batch and start its dream now, though it is not full; "
    now += "with --runs: review the runs in a file or folder, and only report"
    dream = command(commands, "dream", "dreams:dream", now)
    for name in ("platform", "series"):
        dream.add_argument(name, nargs="?")
    dream.add_argument("--runs", type=Path, metavar="PATH", help="a file or folder of runs; with --format")
    dream.add_argument("--format", help="what wrote them, as `yume formats` lists it (default: contract)")
    language = "the language of the report's lessons, with --runs (default: en)"
    dream.add_argument("--language", choices=["en", "zh"], help=language)
    dream.add_argument("--name", help="the series' name in the text (default: that of the file or folder)")
    dream.add_argument("--output", type=Path, metavar="FILE", help="write the report there, as Markdown")
    with_why(dream, default=None)
    with_json(dream)
    cancel = command(commands, "cancel", "dreams:cancel", "end a dream that has not ended, for good")
    resume = command(commands, "resume", "dreams:resume", "let a parked dream go on where it was parked")
    for each in (cancel, resume):
        of_series(each).add_argument("number", type=positive, help="the dream's, as `yume dreams` shows it")
    with_why(cancel, required=True)
    with_why(resume)
    again = "review a dream's batch once more and show what differs; without --apply it changes nothing. "
    again += "With --subject: the batches of all dreams that stored messages name"
    replay = command(commands, "replay", "dreams:replay", again)
    for name in ("platform", "series"):
        replay.add_argument(name, nargs="?")
    replay.add_argument("number", type=positive, nargs="?", help="the dream's, as `yume dreams` shows it")
    replay.add_argument("--from", dest="step", metavar="STEP", help="such as s4 (default: the first, s1)")
    replay.add_argument("--subject", help="such as 'yume.dream.classified.tobatsu.kamila'; with --since")
    replay.add_argument("--since", type=duration, metavar="TIME", help="how far back to look, such as 2h")
    apply = "merge on what stands now, through gate and release; with --why"
    replay.add_argument("--apply", action="store_true", help=apply)
    replay.add_argument("--key", type=key, help="asked twice under one key it is one replay (default: new)")
    wait = "wait for the end of one dream's replay, which goes on if nobody does"
    replay.add_argument("--wait", action=argparse.BooleanOptionalAction, default=True, help=wait)
    with_why(replay, default=None)
    with_json(replay)


def _add_files(commands: Any) -> None:
    turn = "turn what another tool wrote into records of the platform contract, one a line"
    import_ = command(commands, "import", "files:import_", turn)
    import_.add_argument("format", metavar="FORMAT", help="what wrote it, as `yume formats` lists it")
    import_.add_argument("path", metavar="PATH", type=Path, help="a file or folder")
    import_.add_argument("--output", type=Path, metavar="FILE", help="write the records there")
    import_.add_argument("--name", help="the records' series (default: the name of the file or folder)")
    only = "print one object that says what was read; the records are then written with --output alone"
    import_.add_argument("--json", action="store_true", help=only)
    with_json(command(commands, "formats", "files:formats", "list the formats that can be read"))


def _add_slot(commands: Any) -> None:
    preview = "show the next text, what comes, goes and is left out and why, and whether it may be released"
    of_series(command(commands, "preview", "slot:preview", preview))
    now = "write what is approved without waiting for the measurement"
    release = of_series(command(commands, "release", "slot:release", now))
    release.add_argument("--now", action="store_true", help="do it; without, the text is only shown")
    back = "put an old version back into the slot, before any dream's write"
    rollback = of_series(command(commands, "rollback", "slot:rollback", back))
    rollback.add_argument("--to", type=positive, metavar="N", help="default: the version before")
    rollback.add_argument("--dry-run", action="store_true", help="only show what would go and come back")
    owners = "leave only the owner's rules in the slot; the series only reports from then on"
    kill = of_series(command(commands, "kill", "slot:kill", owners))
    kill.add_argument("--all", action="store_true", help="leave nothing at all in the slot")
    for each in (release, rollback):
        with_why(each, default=None)
    with_why(kill, required=True)


def _add_looking(commands: Any) -> None:
    status = "show every series, its slot, its queue and what waits; dead letters and backlog"
    with_json(command(commands, "status", "status:status", status))
    measure = "show every look at a version: its failure rate, the effect with its interval, the verdict"
    of_series(command(commands, "measure", "measuring:measure", measure))
    report = command(commands, "report", "dreams:report", "print a dream's report")
    report.add_argument("--dream", type=positive, help="its number (default: the newest that has one)")
    dreams = command(commands, "dreams", "dreams:dreams", "list the dreams of a series")
    lessons = command(commands, "lessons", "looking:lessons", "list the lessons of a series")
    trail = command(
        commands, "trail", "looking:trail", "follow a lesson down to the tasks that it was learnt from"
    )
    for each in (report, dreams, lessons, trail):
        of_series(each)
    trail.add_argument("lesson", help="its id")
