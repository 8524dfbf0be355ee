"""The `yume` command."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from yume import logs, settings
from yume.errors import YumeError
from yume.settings import Settings

DONE: Final = 0
REFUSED: Final = 1

Command = Callable[[argparse.Namespace, Settings], Coroutine[Any, Any, int]]


def main() -> None:
    """Run the command that the arguments name: 0 done, 1 refused with a reason, 2 usage."""
    arguments = make_parser().parse_args()
    try:
        found = settings.load()
        logs.configure(found.log_format, found.log_level)
        sys.exit(asyncio.run(arguments.run(arguments, found)))
    except YumeError as error:
        sys.exit(f"yume: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


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
    _add_looking(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = _command(
        commands, "demo", _demo, "run everything here on a practice platform, and show what comes of it"
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
        commands, "up", _up, "run everything: one process a trust zone, and the servers that no URL names"
    )
    worker = _command(commands, "worker", _worker, "serve the steps named, all of one trust zone")
    worker.add_argument("steps", nargs="+", metavar="STEP", help="such as s1 or s1_pull")
    _command(
        commands, "orchestrator", _orchestrator, "collect batches, start dreams, announce again what got lost"
    )
    _command(commands, "api", _api, "serve /livez and /readyz")


def _add_upkeep(commands: Any) -> None:
    db = commands.add_parser("db", help="the tables").add_subparsers(metavar="ACTION", required=True)
    _command(
        db, "migrate", _migrate, "apply the migrations that are missing; safe from many processes at once"
    )
    streams = commands.add_parser("streams", help="the streams").add_subparsers(
        metavar="ACTION", required=True
    )
    _command(streams, "apply", _streams_apply, "create what is missing and change what differs from streams/")
    _json(_command(streams, "check", _streams_check, "compare with streams/; exit 1 if anything differs"))
    platform = commands.add_parser("platform", help="the platforms").add_subparsers(
        metavar="ACTION", required=True
    )
    add = _command(platform, "add", _platform_add, "add a platform, or give a known one new tokens")
    add.add_argument("platform", help="its id, such as tobatsu")
    add.add_argument("--base-url", required=True, help="where its API answers")
    add.add_argument(
        "--export-token-file", type=Path, required=True, help="the token that can only read the export"
    )
    add.add_argument(
        "--slot-token-file", type=Path, required=True, help="the token that can only write the slot"
    )
    _json(_command(platform, "list", _platform_list, "list the platforms"))


def _add_looking(commands: Any) -> None:
    dreams = _command(commands, "dreams", _dreams, "list the dreams of a series")
    lessons = _command(commands, "lessons", _lessons, "list the lessons of a series")
    trail = _command(commands, "trail", _trail, "follow a lesson down to the tasks that it was learnt from")
    for each in (dreams, lessons, trail):
        each.add_argument("platform")
        each.add_argument("series")
        _json(each)
    trail.add_argument("lesson", help="its id")


def _command(commands: Any, name: str, run: Command, help_: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=help_)
    parser.set_defaults(run=run)
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


async def _demo(arguments: argparse.Namespace, found: Settings) -> int:
    from yume.local import demo  # noqa: PLC0415  # the servers and the practice platform load only here

    plan = demo.Plan(
        seed=arguments.seed, batches=arguments.batches, size=arguments.size, obedience=arguments.obedience
    )
    return await demo.run(plan, found, folder=arguments.folder, as_json=arguments.json)


async def _up(arguments: argparse.Namespace, found: Settings) -> int:
    from yume.local import up  # noqa: PLC0415  # a worker needs none of it

    del arguments
    with up.ground(found) as standing:
        async with up.up(standing) as supervisor, _stop_signal() as stop:
            for state in supervisor.state():
                print(f"{state.name:14} pid {state.pid}")
            print(f"logs in {found.data_dir.absolute() / 'logs'}; stop with Ctrl-C", flush=True)
            await up.until_stopped(supervisor, stop)
    return DONE


async def _worker(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import serve  # noqa: PLC0415  # FastStream takes its time to load

    async with _stop_signal() as stop:
        await serve.worker_until(stop, arguments.steps, found)
    return DONE


async def _orchestrator(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import serve  # noqa: PLC0415  # FastStream takes its time to load

    del arguments
    async with _stop_signal() as stop:
        await serve.orchestrator_until(stop, found)
    return DONE


async def _api(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import serve  # noqa: PLC0415  # as above

    del arguments
    async with _stop_signal() as stop:
        await serve.api_until(stop, found)
    return DONE


async def _migrate(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # loads the database's driver

    del arguments
    applied = await operate.migrate(found)
    print("\n".join(f"applied {name}" for name in applied) or "nothing to apply: the tables are up to date")
    return DONE


async def _streams_apply(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # as above

    del arguments
    print("\n".join(await operate.apply_streams(found)) or "nothing to do: the server is as streams/ says")
    return DONE


async def _streams_check(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # as above

    rows = await operate.check_streams(found)
    _print(rows, arguments, ("name", "field", "wanted", "live"), empty="the server is as streams/ says")
    return REFUSED if rows else DONE


async def _platform_add(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # as above

    await operate.add_platform(
        found,
        arguments.platform,
        base_url=arguments.base_url,
        export_token=operate.token_in(arguments.export_token_file),
        slot_token=operate.token_in(arguments.slot_token_file),
    )
    print(f"platform {arguments.platform} is known; its series start in report_only")
    return DONE


async def _platform_list(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # as above

    _print(
        await operate.platforms(found), arguments, ("id", "base_url", "disabled_at"), empty="no platform yet"
    )
    return DONE


async def _dreams(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # as above

    rows = await operate.dreams_of(found, arguments.platform, arguments.series)
    _print(rows, arguments, ("number", "status", "result", "reason", "step", "error"), empty="no dream yet")
    return DONE


async def _lessons(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # as above

    rows = await operate.lessons_of(found, arguments.platform, arguments.series)
    _print(rows, arguments, ("id", "state", "category", "signals", "rule"), empty="no lesson yet")
    return DONE


async def _trail(arguments: argparse.Namespace, found: Settings) -> int:
    from yume import operate  # noqa: PLC0415  # as above

    trail = await operate.trail_of(found, arguments.platform, arguments.series, arguments.lesson)
    if arguments.json:
        print(json.dumps(trail.to_json(), ensure_ascii=False))
    else:
        print(operate.describe(trail))
    return DONE if trail.holds else REFUSED


def _print(
    rows: list[dict[str, Any]], arguments: argparse.Namespace, columns: tuple[str, ...], *, empty: str
) -> None:
    """Print rows as JSON or as a table."""
    if arguments.json:
        print(json.dumps(rows, ensure_ascii=False, default=str))
        return
    if not rows:
        print(empty)
        return
    table = [[column.replace("_", " ") for column in columns]]
    table += [["-" if row[column] is None else str(row[column]) for column in columns] for row in rows]
    widths = [max(len(line[place]) for line in table) for place in range(len(columns) - 1)]
    for line in table:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]))


@asynccontextmanager
async def _stop_signal() -> AsyncGenerator[asyncio.Event]:
    """Give an event that SIGTERM and SIGINT set, so that what is under way can end well."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


if __name__ == "__main__":
    main()
