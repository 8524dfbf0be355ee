"""Runs the steps of one trust zone: each message is run once, told about, and then settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, assert_never

import structlog
from faststream.nats import NatsBroker
from pydantic import ValidationError

from yume import jetstream
from yume.domain.dreams import Duty, duty
from yume.errors import PermanentError, StepTakenError, YumeError
from yume.events import Event, RunBatch, event, every
from yume.ids import DreamId
from yume.jetstream import JetStream
from yume.pipeline import STAGES, STREAM, Stage
from yume.resources import Resources
from yume.settle import Message, Settle, bury, check_subject, open_broker, stop, subscribe
from yume.store import dreams
from yume.store.dreams import Progress

log = structlog.get_logger()

BEAT_S: Final = 2.0


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


@dataclass(frozen=True, slots=True)
class StepHandler:
    """What happens to one step's messages."""

    stage: Stage
    resources: Resources
    js: JetStream

    async def __call__(self, body: bytes) -> None:
        """Run the step if it has to be run, and store its events before the message is acknowledged."""
        batch = RunBatch.model_validate(Event.model_validate_json(body).data)
        dream = DreamId(batch.dream_id)
        structlog.contextvars.bind_contextvars(step=self.stage.name, dream_id=str(dream), series=batch.series)
        match owed := await self._duty(batch):
            case "run":
                await self._run(batch)
                await self._announce(batch)
            case "announce":
                await self._announce(batch)
            case "tell_failure":
                await self._tell_failure(batch)
            case "nothing":
                log.info("message_ignored", reason="the dream is not at this step")
            case _:
                assert_never(owed)

    async def _duty(self, batch: RunBatch) -> Duty:
        async with self.resources.db.acquire() as db:
            progress = await dreams.progress_of(db, DreamId(batch.dream_id))
        if progress is None or not _is_of(batch, progress):
            raise PermanentError(f"{batch.platform}/{batch.series} has no dream {batch.dream_id}")
        return duty(progress.status, progress.step, progress.announced, self.stage.name)

    async def _run(self, batch: RunBatch) -> None:
        beating = asyncio.create_task(self._beat(DreamId(batch.dream_id)))
        try:
            await self.stage.run(batch, self.resources)
        except StepTakenError as taken:
            log.info("step_taken", reason=str(taken))
        else:
            log.info("step_done")
        finally:
            beating.cancel()

    async def _beat(self, dream: DreamId) -> None:
        while True:
            try:
                async with self.resources.db.acquire() as db:
                    await dreams.beat(db, dream, self.resources.now())
            except YumeError as error:
                log.warning("heartbeat_missed", error=str(error))
            await asyncio.sleep(BEAT_S)

    async def _announce(self, batch: RunBatch) -> None:
        dream, step = DreamId(batch.dream_id), self.stage.name
        async with self.resources.db.acquire() as db:
            progress = await dreams.progress_of(db, dream)
        if progress is None or progress.step != step:
            return  # whoever took the step also announces it
        told = await self.stage.tell(batch, self.resources)
        emitted = emission(self.stage.emits, batch, step, self.resources)
        for each in [*told, *([] if any(each.type == emitted.type for each in told) else [emitted])]:
            await self.js.store(each)
        async with self.resources.db.acquire() as db:
            await dreams.mark_announced(db, dream, step, self.resources.now())

    async def _tell_failure(self, batch: RunBatch) -> None:
        async with self.resources.db.acquire() as db:
            progress = await dreams.progress_of(db, DreamId(batch.dream_id))
        reason = progress.error if progress and progress.error else "unknown"
        await tell_failure(batch, reason, self.resources, self.js)


def emission(kind: str, batch: RunBatch, step: str, resources: Resources) -> Event:
    """Return a step's event; its id is the same for every copy of one attempt."""
    return event(kind, batch, key=f"{batch.dream_id}/{step}/{batch.attempt}", at=resources.now())


async def tell_failure(batch: RunBatch, reason: str, resources: Resources, js: JetStream) -> None:
    """Store `dream.failed`, the last event of a dream that did not make it, and note that it is stored."""
    data = batch.model_dump(mode="json") | {"reason": reason}
    await js.store(event("dream.failed", data, key=f"{batch.dream_id}/failed", at=resources.now()))
    async with resources.db.acquire() as db:
        await dreams.mark_announced(db, DreamId(batch.dream_id), STAGES[-1].name, resources.now())


@dataclass(frozen=True, slots=True)
class StepUndertaker:
    """Gives up a step's message with its dream, or puts both off."""

    resources: Resources
    js: JetStream

    async def bury(self, message: Message, reason: str) -> None:
        """Keep the bytes and the reason, then fail the dream and tell so."""
        await bury(self.js, message, reason)
        batch = await self._batch_of(message)
        if batch is None:
            return
        async with self.resources.db.acquire() as db:
            failed = await dreams.fail(db, DreamId(batch.dream_id), reason, self.resources.now())
        if failed:
            await tell_failure(batch, reason, self.resources, self.js)

    async def put_off(self, message: Message, delay: timedelta) -> bool:
        """Make the dream's step due again later; the orchestrator will announce it."""
        batch = await self._batch_of(message)
        if batch is None:
            return False
        async with self.resources.db.acquire() as db:
            return await dreams.put_off(db, DreamId(batch.dream_id), self.resources.now() + delay)

    async def _batch_of(self, message: Message) -> RunBatch | None:
        """Return what a message is about; None if it speaks of a dream that is not its own series'."""
        try:
            check_subject(message.body, message.subject)
            batch = RunBatch.model_validate(Event.model_validate_json(message.body).data)
        except (ValidationError, PermanentError):
            return None
        async with self.resources.db.acquire() as db:
            progress = await dreams.progress_of(db, DreamId(batch.dream_id))
        return batch if progress is not None and _is_of(batch, progress) else None


def _is_of(batch: RunBatch, progress: Progress) -> bool:
    return (batch.platform, batch.series) == (progress.platform, progress.series)


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
        for stage in stages:
            handler = StepHandler(stage, resources, js)
            subscribe(
                broker,
                handler,
                filter_subject=every(f"yume.{stage.consumes}"),
                stream=STREAM,
                durable=stage.name,
            )
        await start(broker, js, [stage.name for stage in stages])
        stack.push_async_callback(stop, broker)
        yield js


async def start(broker: NatsBroker, js: JetStream, durables: Sequence[str]) -> None:
    """Start consuming once the orchestrator has made the durables; a worker makes none itself."""
    while missing := await js.missing((STREAM, name) for name in durables):
        log.info("waiting_for_consumers", missing=missing)
        await asyncio.sleep(0.5)
    await broker.start()
