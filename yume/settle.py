"""How a message ends: the one place that acks, naks with a delay, or terminates."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import structlog
from faststream import AckPolicy, BaseMiddleware
from faststream.message import StreamMessage
from faststream.nats import JStream, NatsBroker, PullSub
from pydantic import ValidationError

from yume.errors import ParkedError, PermanentError, TransientError, YumeError, faults
from yume.events import REASON_HEADER, REPLAY_HEADER, Data, Event, subject
from yume.jetstream import JetStream

log = structlog.get_logger()

BACKOFF_S: Final = (1.0, 5.0, 30.0, 300.0)
MAX_TRIES: Final = len(BACKOFF_S) + 1
MAX_NAKS: Final = 10  # afterwards a message waits on its row, well before NATS gives it up and tells nobody
LONGEST_NAK: Final = timedelta(seconds=60)
CANCELLED_NAK_S: Final = 0.1
REASON_LIMIT: Final = 1_000
GRACE_S: Final = 30.0  # how long what is under way may take when the process is told to end
KEPT_BYTES: Final = 1_000_000  # with its headers this still fits into the dead stream's largest message

End = timedelta | Literal["ack", "term"]
Handler = Callable[[bytes], Awaitable[None]]


class Undertaker(Protocol):
    """What has to be done with a message that is not simply handled: given up, put off, parked, replayed."""

    async def bury(self, message: Message, reason: str) -> None:
        """Keep the message's bytes with the reason, and fail what it was about."""
        ...

    async def put_off(self, message: Message, delay: timedelta) -> bool:
        """Note on the row that it is due later; False if the message is about no row."""
        ...

    async def park(self, message: Message, reason: str) -> None:
        """Leave what it was about to a person."""
        ...

    async def replay(self, message: Message, key: str) -> None:
        """Have what it was about done once more: the message is a stored one, published again on purpose."""
        ...


class Message:
    """What settling needs to know of a JetStream message."""

    def __init__(self, message: StreamMessage[Any]) -> None:
        raw = message.raw_message
        self.subject: str = raw.subject
        self.body: bytes = raw.data
        self.stream: str = raw.metadata.stream
        self.consumer: str = raw.metadata.consumer
        self.sequence: int = raw.metadata.sequence.stream
        self.tries: int = raw.metadata.num_delivered


class Settle(BaseMiddleware[Any, Any]):
    """Turns how a handler ended into what NATS is told, with the undertaker and the heartbeat's pace."""

    def __init__(self, msg: Any, /, *, context: Any, undertaker: Undertaker, heartbeat_s: float) -> None:
        super().__init__(msg, context=context)
        self.undertaker = undertaker
        self.heartbeat_s = heartbeat_s

    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: StreamMessage[Any]) -> Any:
        """Handle the message, keeping it ours for as long as that takes."""
        structlog.contextvars.clear_contextvars()
        heartbeat = asyncio.create_task(self._keep(msg))
        try:
            check_subject(msg.raw_message.data, msg.raw_message.subject)
            if key := (msg.raw_message.headers or {}).get(REPLAY_HEADER):
                await self.undertaker.replay(Message(msg), key)
            else:
                await call_next(msg)
            await msg.ack()
        except asyncio.CancelledError:
            await msg.nack(delay=CANCELLED_NAK_S)  # type: ignore[call-arg]  # a NatsMessage takes it
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the message must be settled
            await self._refuse(msg, error)
        finally:
            heartbeat.cancel()

    async def _keep(self, msg: StreamMessage[Any]) -> None:
        while True:
            await asyncio.sleep(self.heartbeat_s)
            try:
                await msg.in_progress()  # type: ignore[attr-defined]  # a NatsMessage has it
            except Exception as error:  # noqa: BLE001  # one missed beat must not be the last
                log.warning("heartbeat_missed", error=describe(error))

    async def _refuse(self, msg: StreamMessage[Any], error: Exception) -> None:
        message = Message(msg)
        try:
            end = await self._end(message, error)
        except Exception as unsettled:  # noqa: BLE001  # nothing is given up that is not kept
            log.warning("message_unsettled", subject=message.subject, error=describe(unsettled))
            end = min(timedelta(seconds=backoff(message.tries)), LONGEST_NAK)
        if end == "term":
            await msg.reject()
        elif end == "ack":
            await msg.ack()
        else:
            await msg.nack(delay=end.total_seconds())  # type: ignore[call-arg]  # a NatsMessage takes it

    async def _end(self, message: Message, error: Exception) -> End:
        if isinstance(error, (PermanentError, ValidationError)):
            return await self._give_up(message, describe(error))
        if isinstance(error, TransientError):
            return await self._try_later(message, error)
        if isinstance(error, ParkedError):
            log.warning("dream_parked", subject=message.subject, reason=str(error))
            await self.undertaker.park(message, str(error))
            return "ack"
        if message.tries >= MAX_TRIES:
            return await self._give_up(message, f"failed {message.tries} times, last: {describe(error)}")
        delay = timedelta(seconds=backoff(message.tries))
        log.warning(
            "message_failed",
            subject=message.subject,
            retry_in_s=delay.total_seconds(),
            error=type(error).__name__,
            frames=frames(error),
        )
        return delay

    async def _try_later(self, message: Message, error: TransientError) -> End:
        delay = error.retry_in or timedelta(seconds=backoff(message.tries))
        if message.tries >= MAX_NAKS:
            delay = max(delay, timedelta(seconds=BACKOFF_S[-1]))
        log.warning(
            "message_put_off",
            subject=message.subject,
            retry_in_s=delay.total_seconds(),
            error=describe(error),
        )
        if delay <= LONGEST_NAK:
            return delay
        if await self.undertaker.put_off(message, delay):
            return "ack"
        return LONGEST_NAK  # about no row: it waits in NATS, whose consumers of such events never give up

    async def _give_up(self, message: Message, reason: str) -> End:
        log.error("message_given_up", subject=message.subject, tries=message.tries, error=reason)
        await self.undertaker.bury(message, reason)
        return "term"


def backoff(tries: int) -> float:
    """Return the seconds to wait after this many tries."""
    return BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]


def check_subject(body: bytes, stood_on: str) -> None:
    """Refuse an event that speaks for another series than its subject: NATS grants rights by subject."""
    told = Event.model_validate_json(body)
    about = Data.model_validate(told.data)
    if subject(told.type, about.platform, about.series) != stood_on:
        raise PermanentError(f"an event about another type, platform or series stood on {stood_on}")


def describe(error: Exception) -> str:
    """Say what went wrong in one line; a body that is no event names its fields, never its content."""
    if isinstance(error, ValidationError):
        return f"no event that is understood: {faults(error)}"
    if isinstance(error, YumeError):
        return f"{type(error).__name__}: {error}"
    # Nobody chose these words: they may quote a run's text, or a password in a URL.
    return f"{type(error).__name__} at {', '.join(frames(error)[-1:]) or 'an unknown place'}"


def frames(error: Exception) -> list[str]:
    """Return where an error came from, outermost first, without its own words."""
    return [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]


async def bury(js: JetStream, message: Message, reason: str) -> None:
    """Keep a message's original bytes in the dead stream, with the reason and where it stood.

    Of a body too large for that only its place is kept: it stays in its own stream under its sequence.
    """
    await js.store_bytes(
        f"yume.dead.{message.stream}.{message.consumer}",
        message.body if len(message.body) <= KEPT_BYTES else b"",
        stream="dead",
        # With the body's hash: a stream that is made again counts from 1 again.
        key=f"dead/{message.stream}/{message.consumer}/{message.sequence}/{sha256(message.body).hexdigest()[:12]}",
        headers={
            REASON_HEADER: " ".join(reason.split())[:REASON_LIMIT]
            .encode("ascii", "backslashreplace")
            .decode(),
            "Yume-Subject": message.subject,
            "Yume-Sequence": str(message.sequence),
            "Yume-Tries": str(message.tries),
            "Yume-Bytes": str(len(message.body)),
        },
    )


def open_broker(nats_url: str, settle: Any, *, name: str) -> NatsBroker:
    """Return a broker that never gives up on its server: one that does freezes the event loop."""
    return NatsBroker(
        nats_url,
        name=f"yume-{name}-consumer",
        middlewares=[settle],
        logger=None,
        max_reconnect_attempts=-1,
        reconnect_time_wait=1,
        ping_interval=10,
        graceful_timeout=GRACE_S,
    )


def subscribe(
    broker: NatsBroker, handler: Handler, *, filter_subject: str, stream: str, durable: str
) -> None:
    """Bind a handler of whole bodies to a durable that `streams/` declares; it is never declared here."""

    @broker.subscriber(
        filter_subject,
        durable=durable,
        stream=JStream(stream, declare=False),
        pull_sub=PullSub(batch_size=1, timeout=1.0),
        ack_policy=AckPolicy.MANUAL,
        no_reply=True,  # else a message's own header names a subject on which the worker publishes
        decoder=_body,
        title=durable,
    )
    async def handle(body: bytes) -> None:
        await handler(body)


async def stop(broker: NatsBroker) -> None:
    """Finish what is under way and stop consuming; a server that is away cannot hold up the end."""
    try:
        await broker.stop()
    except Exception as error:  # noqa: BLE001  # whatever was not settled comes back to the next worker
        log.warning("consumer_not_drained", error=describe(error))


async def _body(message: StreamMessage[Any]) -> bytes:
    return bytes(message.body)
