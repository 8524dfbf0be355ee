"""What each command does, and what it prints; the exit code is 0 for done and 1 for refused."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from getpass import getuser
from typing import Any, Final

from yume import operate
from yume.settings import Settings

DONE: Final = 0
REFUSED: Final = 1


async def demo(arguments: argparse.Namespace, found: Settings) -> int:
    """Run the demo to its end."""
    from yume.local import demo as local_demo  # noqa: PLC0415  # a worker needs none of it

    plan = local_demo.Plan(
        seed=arguments.seed, batches=arguments.batches, size=arguments.size, obedience=arguments.obedience
    )
    return await local_demo.run(plan, found, folder=arguments.folder, as_json=arguments.json)


async def up(arguments: argparse.Namespace, found: Settings) -> int:
    """Run everything until told to stop."""
    from yume.local import up as local_up  # noqa: PLC0415  # as above

    del arguments
    with local_up.ground(found) as standing:
        async with local_up.up(standing) as supervisor, _stop_signal() as stop:
            for state in supervisor.state():
                print(f"{state.name:14} pid {state.pid}")
            print(f"logs in {found.data_dir.absolute() / 'logs'}; stop with Ctrl-C", flush=True)
            await local_up.until_stopped(supervisor, stop)
    return DONE


async def worker(arguments: argparse.Namespace, found: Settings) -> int:
    """Serve steps until told to stop."""
    from yume import serve  # noqa: PLC0415  # FastStream takes its time to load

    async with _stop_signal() as stop:
        await serve.worker_until(stop, arguments.steps, found)
    return DONE


async def orchestrator(arguments: argparse.Namespace, found: Settings) -> int:
    """Orchestrate until told to stop."""
    from yume import serve  # noqa: PLC0415  # FastStream takes its time to load

    del arguments
    async with _stop_signal() as stop:
        await serve.orchestrator_until(stop, found)
    return DONE


async def api(arguments: argparse.Namespace, found: Settings) -> int:
    """Serve the API until told to stop."""
    from yume import serve  # noqa: PLC0415  # FastStream takes its time to load

    del arguments
    async with _stop_signal() as stop:
        await serve.api_until(stop, found)
    return DONE


async def migrate(arguments: argparse.Namespace, found: Settings) -> int:
    """Bring the tables up to date."""
    del arguments
    applied = await operate.migrate(found)
    print("\n".join(f"applied {name}" for name in applied) or "nothing to apply: the tables are up to date")
    return DONE


async def streams_apply(arguments: argparse.Namespace, found: Settings) -> int:
    """Bring the streams up to date."""
    del arguments
    print("\n".join(await operate.apply_streams(found)) or "nothing to do: the server is as streams/ says")
    return DONE


async def streams_check(arguments: argparse.Namespace, found: Settings) -> int:
    """Show where the streams differ; refused if they do."""
    rows = await operate.check_streams(found)
    _print(rows, arguments, ("name", "field", "wanted", "live"), empty="the server is as streams/ says")
    return REFUSED if rows else DONE


async def platform_add(arguments: argparse.Namespace, found: Settings) -> int:
    """Add a platform with its two tokens."""
    export_token = operate.token_in(arguments.export_token_file)
    slot_token = operate.token_in(arguments.slot_token_file)
    await operate.add_platform(
        found,
        arguments.platform,
        base_url=arguments.base_url,
        export_token=export_token,
        slot_token=slot_token,
    )
    if export_token == slot_token:
        print("warning: both tokens are the same: who may read the export may then write the slot")
    print(f"platform {arguments.platform} is known; its series start in report_only")
    return DONE


async def platform_list(arguments: argparse.Namespace, found: Settings) -> int:
    """List the platforms."""
    _print(
        await operate.platforms(found), arguments, ("id", "base_url", "disabled_at"), empty="no platform yet"
    )
    return DONE


async def series_list(arguments: argparse.Namespace, found: Settings) -> int:
    """List the series."""
    columns = ("platform_id", "external_id", "mode", "mode_reason", "paused_at")
    _print(
        await operate.all_series(found), arguments, columns, empty="no series yet: a finished task brings one"
    )
    return DONE


async def series_mode(arguments: argparse.Namespace, found: Settings) -> int:
    """Change a series' mode, on the record."""
    changed = await operate.set_mode(
        found, arguments.platform, arguments.series, arguments.mode, by=f"cli:{getuser()}", why=arguments.why
    )
    was = "is now" if changed else "was already"
    print(f"{arguments.platform}/{arguments.series} {was} in mode {arguments.mode}")
    return DONE


async def report(arguments: argparse.Namespace, found: Settings) -> int:
    """Print a report as it lies in the archive."""
    where = (arguments.platform, arguments.series, arguments.dream)
    print(await operate.report_of(found, *where, as_json=arguments.json), end="")
    return DONE


async def dreams(arguments: argparse.Namespace, found: Settings) -> int:
    """List the dreams of a series."""
    rows = await operate.dreams_of(found, arguments.platform, arguments.series)
    _print(rows, arguments, ("number", "status", "result", "reason", "step", "error"), empty="no dream yet")
    return DONE


async def lessons(arguments: argparse.Namespace, found: Settings) -> int:
    """List the lessons of a series."""
    rows = await operate.lessons_of(found, arguments.platform, arguments.series)
    _print(rows, arguments, ("id", "state", "category", "signals", "rule"), empty="no lesson yet")
    return DONE


async def trail(arguments: argparse.Namespace, found: Settings) -> int:
    """Follow a lesson; refused if its trail does not hold."""
    followed = await operate.trail_of(found, arguments.platform, arguments.series, arguments.lesson)
    if arguments.json:
        print(json.dumps(followed.to_json(), ensure_ascii=False))
    else:
        print(operate.describe(followed))
    return DONE if followed.holds else REFUSED


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
