"""Commands that run until told to stop, and the demo."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from yume.commands.printing import DONE
from yume.settings import Settings


async def demo(arguments: argparse.Namespace, found: Settings) -> int:
    """Run the demo to its end."""
    from yume.local import demo as local_demo  # noqa: PLC0415  # a worker needs none of it

    plan = local_demo.Plan(
        seed=arguments.seed,
        batches=arguments.batches,
        size=arguments.size,
        obedience=arguments.obedience,
        harm=arguments.harm,
        pitfalls=arguments.pitfalls,
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
