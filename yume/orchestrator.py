"""Collects finished tasks into batches, starts one dream a series, and announces again what got lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from yume import jetstream, timer
from yume.acts import replays
from yume.domain.dreams import REQUESTED, Series
from yume.errors import PermanentError, YumeError
from yume.events import Event, ReplayRequested, RunBatch, TaskFinished, event
from yume.ids import DreamId, SeriesId
from yume.jetstream import JetStream
from yume.pipeline import FIRST, STAGES
from yume.resources import Resources
from yume.settle import Message, Settle, bury, open_broker, stop, subscribe
from yume.store import access, batches, dreams
from yume.store.dreams import Due
from yume.topology import Config, Topology

if TYPE_CHECKING:
    from yume.store.database import Db

log = structlog.get_logger()

CONSUMES: Final = {stage.name: stage.consumes for stage in STAGES}
CLOCK_SKEW: Final = timedelta(
    hours=1
)  # a task from the far future would stretch its batch over all later ones
RELEASE_AFTER_S: Final = 300.0  # several approvals make one release: the last one is that long ago
UNTOLD_AFTER: Final = timedelta(seconds=5)  # leaves the worker that did a step the time to tell so


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """The states between the parts: whatever it does, it does on rows, so that any number of it may run."""

    resources: Resources
    js: JetStream
    topology: Topology
    stall_after: timedelta
    release_after: timedelta
    heal_every_s: float

    async def task_finished(self, body: bytes) -> None:
        """Note a task in its series' batch; close the batch when it is full or its platform says so."""
        told = Event.model_validate_json(body)
        task = TaskFinished.model_validate(told.data)
        if told.subject != event("task.finished", task, key="", at=told.time).subject:
            raise PermanentError(f"an event of type {told.type!r} stood on a subject of finished tasks")
        now = self.resources.now()
        if task.finished_at > now + CLOCK_SKEW:
            raise PermanentError(
                f"a task that finishes at {task.finished_at} has not finished: check the clocks"
            )
        async with self.resources.db.acquire() as db, db.transaction():
            series = await access.series_named(db, task.platform, task.series)
            await batches.lock_series(db, series.id)
            dream = await self._batch_of(db, series, task)
            if dream is not None:
                full = await batches.batch_size(db, dream) >= series.batch_max_runs
                if task.batch_finished or (full and task.batch_id is None):
                    await batches.close_batch(db, dream, batch_id=task.batch_id, now=now)
                    log.info("batch_closed", series=series.external_id, dream_id=str(dream))
            if task.batch_finished:
                await dreams.wake(db, series.id, now)
        await self.start_dream(series.id)

    async def _batch_of(self, db: Db, series: Series, task: TaskFinished) -> DreamId | None:
        """Return the open batch that the task belongs to; None for a copy of a callback dealt with before."""
        now = self.resources.now()
        batch_id, ends_batch = task.batch_id, task.batch_finished
        known = await batches.batch_of_task(db, series.id, task.task_id)
        if known is not None:
            await batches.note_batch(
                db, series.id, task.task_id, batch_id=batch_id, ends_batch=ends_batch, now=now
            )
            dream, status = known
            return dream if status == "collecting" else None
        dream = await batches.collecting(db, series.id, "callback", now)
        await batches.announce_run(
            db,
            series.id,
            dream,
            task_id=task.task_id,
            status=task.status,
            finished_at=task.finished_at,
            batch_id=batch_id,
            ends_batch=ends_batch,
            now=now,
        )
        return dream

    async def dream_ended(self, body: bytes) -> None:
        """Start the next dream of a series whose last one has ended or was parked."""
        ended = RunBatch.model_validate(Event.model_validate_json(body).data)
        async with self.resources.db.acquire() as db:
            series = await access.find_series(db, ended.platform, ended.series)
        if series is not None:
            await self.start_dream(series.id)

    async def replay_requested(self, body: bytes) -> None:
        """Open the replay that somebody asks for: asked twice under one key, it is one dream."""
        asked = ReplayRequested.model_validate(Event.model_validate_json(body).data)
        series = await replays.queue(asked, self.resources)
        await self.start_dream(series)

    async def start_dream(self, series: SeriesId) -> None:
        """Start the oldest queued dream, unless one is running, and announce it."""
        async with self.resources.db.acquire() as db, db.transaction():
            await batches.lock_series(db, series)
            started = await batches.start_next(db, series, self.resources.now())
        if started is not None:
            log.info("dream_started", dream_id=str(started))
            await self.announce()

    async def announce(self) -> None:
        """See to it that the next event of every running dream gets stored where it is not known to be."""
        async with self.resources.db.acquire() as db:
            now = self.resources.now()
            due = await dreams.unannounced(db, now, now - UNTOLD_AFTER)
        for each in due:
            if each.step is None:
                await self._request(each)
            else:
                await self._have_told(each, each.step)

    async def _request(self, due: Due) -> None:
        """Ask for the dream's first step."""
        await self._store(FIRST, due, f"{due.id}/{REQUESTED}/{due.attempt}")
        async with self.resources.db.acquire() as db:
            await dreams.mark_announced(db, due.id, REQUESTED, self.resources.now())
        log.info("dream_requested", dream_id=str(due.id), attempt=due.attempt)

    async def _have_told(self, due: Due, step: str) -> None:
        """Hand a step that is done its message once more: its worker alone knows what it has to tell."""
        await self._store(CONSUMES[step], due, f"{due.id}/{step}/{due.attempt}/again")
        log.info("step_to_be_told", dream_id=str(due.id), step=step, attempt=due.attempt)

    async def _store(self, kind: str, due: Due, key: str) -> None:
        batch = RunBatch(platform=due.platform, series=due.series, dream_id=due.id, attempt=due.attempt)
        await self.js.store(event(kind, batch, key=key, at=self.resources.now()))

    async def sweep(self) -> None:
        """Do whatever is due now; a second orchestrator that does the same finds nothing left."""
        now = self.resources.now()
        await timer.call_for_commands(self.resources, self.js)
        async with self.resources.db.acquire() as db:
            overdue = await batches.overdue_batches(db, now)
            late = await dreams.past_deadline(db, now)
            stalled = await dreams.revive_stalled(db, now - self.stall_after, now)
        for dream, series in overdue:
            async with self.resources.db.acquire() as db, db.transaction():
                await batches.lock_series(db, series)
                await batches.close_batch(db, dream, batch_id=None, now=now)
        for dream in late:
            async with self.resources.db.acquire() as db:
                await dreams.fail(db, dream, "the dream's deadline has passed", now)
        if stalled:
            log.warning("dreams_stalled", dreams=[str(each) for each in stalled])
        async with self.resources.db.acquire() as db:
            waiting = await batches.waiting_series(db)
        for series in waiting:
            await self.start_dream(series)
        await self.announce()
        await self._tell_endings()
        for series in await timer.look_at_exports(self.resources):
            await self.start_dream(series)

    async def _tell_endings(self) -> None:
        """Have the last event of an ended dream told again where it got lost; S9 tells both endings."""
        async with self.resources.db.acquire() as db:
            untold = await dreams.untold_endings(db, self.resources.now() - UNTOLD_AFTER)
        for each in untold:
            await self._have_told(each, STAGES[-1].name)

    async def watch(self, sweep_every_s: float) -> None:
        """Sweep and heal for as long as the process lives; what fails now is tried again."""
        loop = asyncio.get_running_loop()
        healed_at = loop.time()
        while True:
            try:
                if loop.time() - healed_at >= self.heal_every_s:
                    healed_at = loop.time()
                    await self.heal()
                    for series in await timer.open_releases(self.resources, self.release_after):
                        await self.start_dream(series)
                await self.sweep()
            except YumeError as error:
                log.warning("sweep_failed", error=str(error))
            await asyncio.sleep(sweep_every_s)

    async def heal(self) -> None:
        """Create the streams and consumers that are missing; a live one is never changed."""
        made = await self.js.heal(self.topology)
        if made:
            log.info("streams_healed", made=made)


@dataclass(frozen=True, slots=True)
class EventUndertaker:
    """Gives up an event that is about no running step: its bytes are kept, and that is all there is to do."""

    js: JetStream

    async def bury(self, message: Message, reason: str) -> None:
        """Keep the bytes and the reason."""
        await bury(self.js, message, reason)

    async def put_off(self, message: Message, delay: timedelta) -> bool:
        """Leave the message to NATS: there is no row on which it could wait."""
        del message, delay
        return False

    async def park(self, message: Message, reason: str) -> None:
        """Treat it as given up: there is no dream that could be parked."""
        await self.bury(message, reason)

    async def replay(self, message: Message, key: str) -> None:
        """Do nothing: only a step can be replayed."""
        log.info("message_ignored", subject=message.subject, reason="only a step is replayed", key=key)


@asynccontextmanager
async def orchestrating(
    *,
    resources: Resources,
    nats_url: str,
    topology: Topology,
    ack_wait_s: float,
    sweep_every_s: float,
    heal_every_s: float,
    stall_after_s: float,
    release_after_s: float = RELEASE_AFTER_S,
) -> AsyncGenerator[tuple[JetStream, asyncio.Task[None]]]:
    """Orchestrate until the context is left; the task is the timer's, and ends only by an error."""
    async with AsyncExitStack() as stack:
        js = await stack.enter_async_context(jetstream.connect(nats_url, name="yume-orchestrator"))
        orchestrator = Orchestrator(
            resources,
            js,
            topology,
            timedelta(seconds=stall_after_s),
            timedelta(seconds=release_after_s),
            heal_every_s,
        )
        await orchestrator.heal()
        broker = open_broker(
            nats_url,
            partial(Settle, undertaker=EventUndertaker(js), heartbeat_s=ack_wait_s / 3),
            name="orchestrator",
        )
        for name, handler in (
            ("orchestrator_tasks", orchestrator.task_finished),
            ("orchestrator_dreams", orchestrator.dream_ended),
            ("orchestrator_replays", orchestrator.replay_requested),
        ):
            consumer = topology.consumers[name]
            subscribe(
                broker, handler, filter_subject=_filter(consumer.config), stream=consumer.stream, durable=name
            )
        await broker.start()
        stack.push_async_callback(stop, broker)
        watching = asyncio.create_task(orchestrator.watch(sweep_every_s))
        stack.callback(watching.cancel)
        yield js, watching


def _filter(config: Config) -> str:
    """Return the subject that a pull subscriber names: with several filters, the one that takes them all."""
    return str(config.get("filter_subject", "yume.dream.*.*.*"))
