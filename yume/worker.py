"""Runs the steps of one trust zone, and beside S8 the commands that persons have for the slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from faststream.nats import NatsBroker

from yume import jetstream
from yume.errors import PermanentError
from yume.events import every
from yume.jetstream import JetStream
from yume.pipeline import STAGES, STREAM, Stage
from yume.resources import Resources
from yume.settle import Settle, open_broker, stop, subscribe
from yume.slot_calls import CommandHandler, CommandUndertaker
from yume.stages import s8_commands
from yume.steps import StepHandler, StepUndertaker

log = structlog.get_logger()

COMMANDS: Final = "lessons"  # the stream of the slot's subjects


def select(names: Sequence[str]) -> list[Stage]:
    """Return the named steps in the pipeline's order; `s3` is enough of `s3_classify`."""
    chosen = [stage for stage in STAGES if stage.name in names or stage.name[:2] in names]
    known = {name for stage in STAGES for name in (stage.name, stage.name[:2])}
    if unknown := [name for name in names if name not in known]:
        raise PermanentError(
            f"no step is named {unknown[0]!r}; there are {', '.join(s.name for s in STAGES)}"
        )
    if not chosen:
        raise PermanentError(f"name at least one step of {', '.join(s.name for s in STAGES)}")
    zones = {stage.zone for stage in chosen}
    if len(zones) > 1:
        raise PermanentError(
            f"one process serves one trust zone, these steps are in {len(zones)}: {sorted(zones)}"
        )
    return chosen


@asynccontextmanager
async def serving(
    stages: Iterable[Stage], *, resources: Resources, nats_url: str, ack_wait_s: float
) -> AsyncGenerator[JetStream]:
    """Serve the steps until the context is left; what is under way then is finished first."""
    async with AsyncExitStack() as stack:
        js = await stack.enter_async_context(jetstream.connect(nats_url, name=f"yume-{resources.zone}"))
        undertaker = StepUndertaker(resources, js)
        broker = open_broker(
            nats_url, partial(Settle, undertaker=undertaker, heartbeat_s=ack_wait_s / 3), name=resources.zone
        )
        stages = list(stages)
        durables = [(STREAM, stage.name) for stage in stages]
        for stage in stages:
            handler = StepHandler(stage, resources, js, timedelta(seconds=ack_wait_s))
            subscribe(
                broker,
                handler,
                filter_subject=every(f"yume.{stage.consumes}"),
                stream=STREAM,
                durable=stage.name,
            )
        if "slot" in {stage.zone for stage in stages}:
            await stack.enter_async_context(_commands(resources, nats_url, js, ack_wait_s))
        await start(broker, js, durables)
        stack.push_async_callback(stop, broker)
        yield js


@asynccontextmanager
async def _commands(
    resources: Resources, nats_url: str, js: JetStream, ack_wait_s: float
) -> AsyncGenerator[None]:
    """Serve the slot's commands beside its step: by a broker of their own, as they are settled otherwise."""
    undertaker = CommandUndertaker(resources, js)
    broker = open_broker(
        nats_url, partial(Settle, undertaker=undertaker, heartbeat_s=ack_wait_s / 3), name="slot-commands"
    )
    subscribe(
        broker,
        CommandHandler(resources, js),
        filter_subject=every("yume.slot.requested"),
        stream=COMMANDS,
        durable=s8_commands.NAME,
    )
    await start(broker, js, [(COMMANDS, s8_commands.NAME)])
    try:
        yield
    finally:
        await stop(broker)


async def start(broker: NatsBroker, js: JetStream, durables: Sequence[tuple[str, str]]) -> None:
    """Start consuming once the orchestrator has made the durables; a worker makes none itself."""
    while missing := await js.missing(durables):
        log.info("waiting_for_consumers", missing=missing)
        await asyncio.sleep(0.5)
    await broker.start()
