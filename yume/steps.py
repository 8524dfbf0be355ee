"""What happens to one step's messages: run once, told about, or given up with their dream."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, assert_never
from uuid import UUID

import structlog
from pydantic import ValidationError

from yume.domain.dreams import Duty, duty
from yume.errors import PermanentError, StepTakenError, TransientError, YumeError
from yume.events import DreamFinished, Event, ReplayRequested, RunBatch, event
from yume.ids import DreamId, derived_id, new_id
from yume.jetstream import JetStream
from yume.pipeline import STAGES, Stage
from yume.resources import Resources
from yume.settle import Message, bury, check_subject
from yume.store import dreams
from yume.store.dreams import Progress

log = structlog.get_logger()

BEAT_S: Final = 2.0
RETRY: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class StepHandler:
    """What happens to one step's messages."""

    stage: Stage
    resources: Resources
    js: JetStream
    lease: timedelta

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
            case "tell_failure" | "tell_cancelled":
                await self._tell_ending(batch)
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
        """Run the step under a lease, which is given back however that ends."""
        dream, holder = DreamId(batch.dream_id), new_id()
        await self._take_lease(dream, holder)
        beating = asyncio.create_task(self._beat(dream, holder))
        try:
            await self.stage.run(batch, self.resources)
        except StepTakenError as taken:
            log.info("step_taken", reason=str(taken))
        except BaseException:
            await self._give_lease_back(dream, holder)
            raise
        else:
            log.info("step_done")
        finally:
            beating.cancel()

    async def _take_lease(self, dream: DreamId, holder: UUID) -> None:
        now = self.resources.now()
        async with self.resources.db.acquire() as db:
            if await dreams.take_lease(db, dream, holder, now=now, until=now + self.lease):
                return
            progress = await dreams.progress_of(db, dream)
        until = None if progress is None else progress.lease_until
        raise TransientError(
            f"another worker has step {self.stage.name} of dream {dream}",
            retry_in=max(until - now, RETRY) if until else RETRY,
        )

    async def _give_lease_back(self, dream: DreamId, holder: UUID) -> None:
        """Spare the next worker the wait; where that fails, the lease runs out by itself."""
        try:
            async with self.resources.db.acquire() as db:
                await dreams.give_lease_back(db, dream, holder)
        except YumeError as error:
            log.warning("lease_not_given_back", error=str(error))

    async def _beat(self, dream: DreamId, holder: UUID) -> None:
        while True:
            try:
                now = self.resources.now()
                async with self.resources.db.acquire() as db:
                    await dreams.beat(db, dream, holder, now=now, until=now + self.lease)
            except YumeError as error:
                log.warning("heartbeat_missed", error=str(error))
            await asyncio.sleep(min(BEAT_S, self.lease.total_seconds() / 3))

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

    async def _tell_ending(self, batch: RunBatch) -> None:
        async with self.resources.db.acquire() as db:
            progress = await dreams.progress_of(db, DreamId(batch.dream_id))
        if progress is not None and progress.status == "cancelled":
            await tell_cancelled(batch, progress, self.resources, self.js)
            return
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


async def tell_cancelled(batch: RunBatch, progress: Progress, resources: Resources, js: JetStream) -> None:
    """Store `dream.finished` for a dream that a person ended, and note that it is stored."""
    ended = DreamFinished(
        **batch.model_dump(), number=progress.number, result="cancelled", reason=progress.reason
    )
    await js.store(event("dream.finished", ended, key=f"{batch.dream_id}/finished", at=resources.now()))
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

    async def park(self, message: Message, reason: str) -> None:
        """Leave the dream to a person, and tell so: first the notice, so that it cannot get lost."""
        batch = await self._batch_of(message)
        if batch is None:
            await bury(self.js, message, reason)
            return
        data = batch.model_dump(mode="json") | {"reason": reason}
        key = f"{batch.dream_id}/parked/{batch.attempt}"
        await self.js.store(event("dream.parked", data, key=key, at=self.resources.now()))
        async with self.resources.db.acquire() as db:
            await dreams.park(db, DreamId(batch.dream_id), reason)

    async def replay(self, message: Message, key: str) -> None:
        """Ask for a replay of the dream from this step; the key makes it one replay."""
        batch = await self._batch_of(message)
        if batch is None:
            raise PermanentError("a replay was asked for of a dream that this series does not have")
        step = next(stage.name for stage in STAGES if stage.name == message.consumer)
        asked = ReplayRequested(
            platform=batch.platform, series=batch.series, dream_id=batch.dream_id, from_step=step, key=key
        )
        name = str(derived_id(batch.dream_id, "replay", step, key))
        await self.js.store(event("dream.replay_requested", asked, key=name, at=self.resources.now()))

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
