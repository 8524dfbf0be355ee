"""Serves one process: its work, its health, and a clean end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog

from yume import jetstream, worker
from yume.api import health
from yume.errors import PermanentError, TransientError
from yume.jetstream import JetStream
from yume.orchestrator import orchestrating
from yume.pipeline import STREAM
from yume.resources import Resources, Zone, open_resources
from yume.settings import Settings
from yume.topology import of_deployment

log = structlog.get_logger()

RETRY_S: Final = 1.0


async def worker_until(stop: asyncio.Event, steps: Sequence[str], settings: Settings) -> None:
    """Serve steps of one zone until told to stop."""
    stages = worker.select(steps)
    async with (
        _resources(settings, stages[0].zone) as resources,
        worker.serving(
            stages, resources=resources, nats_url=_nats_url(settings), ack_wait_s=settings.ack_wait_s
        ) as js,
    ):
        durables = [(STREAM, stage.name) for stage in stages]
        await _until(stop, settings.health_port, _checks(resources, js, durables))


async def orchestrator_until(stop: asyncio.Event, settings: Settings) -> None:
    """Orchestrate until told to stop."""
    topology = of_deployment(settings)
    async with (
        _resources(settings, "orchestrator") as resources,
        orchestrating(
            resources=resources,
            nats_url=_nats_url(settings),
            topology=topology,
            ack_wait_s=settings.ack_wait_s,
            sweep_every_s=settings.sweep_every_s,
            heal_every_s=settings.heal_every_s,
            stall_after_s=settings.stall_after_s,
            release_after_s=settings.release_after_s,
        ) as (js, watching),
    ):
        durables = [(each.stream, name) for name, each in topology.consumers.items()]
        await _until(stop, settings.health_port, _checks(resources, js, durables), watching)


async def api_until(stop: asyncio.Event, settings: Settings) -> None:
    """Serve the API until told to stop."""
    async with AsyncExitStack() as stack:
        resources = await stack.enter_async_context(_resources(settings, "api"))
        js = await stack.enter_async_context(jetstream.connect(_nats_url(settings), name="yume-api"))
        address = await stack.enter_async_context(
            health.serving(_checks(resources, js, [("tasks", "orchestrator_tasks")]), settings.api_port)
        )
        log.info("api_serving", url=address.url)
        await stop.wait()


def _checks(
    resources: Resources, js: JetStream, durables: Sequence[tuple[str, str]]
) -> Mapping[str, health.Check]:
    async def database() -> str | None:
        async with resources.db.acquire() as db:
            await db.execute("SELECT 1")
        return None

    async def consumers() -> str | None:
        missing = await js.missing(durables)
        return f"missing in NATS: {', '.join(missing)}" if missing else None

    return {"database": database, "consumers": consumers}


async def _until(
    stop: asyncio.Event,
    health_port: int | None,
    checks: Mapping[str, health.Check],
    working: asyncio.Task[None] | None = None,
) -> None:
    """Wait for the end and tell the process's health; work that breaks ends the process with its error."""
    async with AsyncExitStack() as stack:
        if health_port is not None:
            await stack.enter_async_context(health.serving(checks, health_port))
        waiting = {asyncio.create_task(stop.wait())} | ({working} if working else set())
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()
    log.info("stopping")


@asynccontextmanager
async def _resources(settings: Settings, zone: Zone) -> AsyncGenerator[Resources]:
    """Open the zone's resources, waiting for servers that are not up yet."""
    async with AsyncExitStack() as stack:
        while True:
            try:
                resources = await stack.enter_async_context(open_resources(settings, zone))
                break
            except TransientError as error:
                log.warning("waiting", error=str(error))
                await asyncio.sleep(RETRY_S)
        log.info("serving", zone=zone, python=sys.version.split()[0])
        yield resources


def _nats_url(settings: Settings) -> str:
    if settings.nats_url is None:
        raise PermanentError("YUME_NATS_URL is not set: `yume up` starts an embedded server and sets it")
    return settings.nats_url.get_secret_value()
