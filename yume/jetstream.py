"""What NATS holds: stores events, and keeps the server's streams and consumers as `streams/` says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import nats
import nats.errors
import nats.js.errors
import structlog
from nats.aio.client import Client
from nats.js import JetStreamContext

from yume.errors import PermanentError, TransientError
from yume.events import Event
from yume.stored import Stored
from yume.topology import Config, Consumer, Difference, Topology, differences, stream_of

log = structlog.get_logger()

API_TIMEOUT_S: Final = 10.0
PUBLISH_TIMEOUT_S: Final = 5.0
_NOT_FOUND: Final = 404
_NO_MESSAGE: Final = 10037
_NO_STORE: Final = 10049
_STORE_TRIES: Final = 20
_STORE_WAIT_S: Final = 0.1


class JetStream:
    """A connection that stores events for good and administers streams and consumers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._context: JetStreamContext = client.jetstream(timeout=API_TIMEOUT_S)

    async def store(self, event: Event) -> None:
        """Return once the event is in its stream; its id is the message id, so a second copy is dropped."""
        await self.store_bytes(event.subject, event.to_bytes(), stream=stream_of(event), key=event.id)

    async def store_bytes(
        self, subject: str, body: bytes, *, stream: str, key: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Store bytes as they are under a message id."""
        try:
            await self._context.publish(
                subject,
                body,
                stream=stream,
                timeout=PUBLISH_TIMEOUT_S,
                headers={
                    "Nats-Msg-Id": key,
                    "Content-Type": "application/cloudevents+json",
                    **(headers or {}),
                },
            )
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise TransientError(
                f"NATS did not store {subject} in stream {stream}: {type(error).__name__}: {error}; "
                "is the server up, and does `yume streams check` find the stream?",
                retry_in=timedelta(seconds=2),
            ) from error

    async def stored(
        self, stream: str, *, subject: str | None = None, since: datetime | None = None
    ) -> AsyncIterator[Stored]:
        """Give the messages of a stream in order, up to the one that was its last at the beginning.

        `subject` may hold wildcards; `since` leaves out what was stored before. One request a message:
        nothing is kept on the server or here, so a reader may take its time and stop anywhere.
        """
        state = (await self._stream(stream))["state"]
        last, sequence = int(state["last_seq"]), max(1, int(state["first_seq"]))
        if since is not None:
            sequence = await self._first_since(stream, since, range(sequence, last + 1))
        while sequence <= last:
            found = await self._get(stream, {"seq": sequence, "next_by_subj": subject or ">"})
            if found is None or found.sequence > last:
                return
            yield found
            sequence = found.sequence + 1

    async def message(self, stream: str, sequence: int) -> Stored | None:
        """Return one message; None if the stream does not hold it (any more)."""
        return await self._get(stream, {"seq": sequence})

    async def remove(self, stream: str, sequence: int) -> bool:
        """Take one message out of a stream for good; False if it is not there."""
        try:
            await self._request(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})
        except _MissingError:
            raise _no_stream(stream) from None
        except PermanentError:  # the server has several answers about what is not there
            if await self.message(stream, sequence) is not None:
                raise
            return False
        return True

    async def backlog(self, topology: Topology) -> dict[str, int]:
        """Return how many messages each durable has not settled; one that the server lacks is left out."""
        found = {}
        for name, consumer in topology.consumers.items():
            told = await self._told(f"CONSUMER.INFO.{consumer.stream}.{name}")
            if told is not None:
                found[name] = int(told["num_pending"]) + int(told["num_ack_pending"])
        return found

    async def heal(self, topology: Topology) -> list[str]:
        """Create what is missing, change nothing that lives, and return the names of what was made."""
        made = []
        for name, config in topology.streams.items():
            if await self._info(f"STREAM.INFO.{name}") is None:
                await self._create_stream(name, config)
                made.append(name)
        for name, consumer in topology.consumers.items():
            if await self._info(f"CONSUMER.INFO.{consumer.stream}.{name}") is None:
                await self._put_consumer(name, consumer, "create")
                made.append(name)
        return made

    async def apply(self, topology: Topology) -> list[str]:
        """Create what is missing and change what differs; return what was done, a line each."""
        differing = {difference.name for difference in await self.check(topology)}
        missing = set(await self.heal(topology))
        for name in sorted(differing - missing):
            if name in topology.streams:
                await self._request(f"STREAM.UPDATE.{name}", topology.streams[name])
            else:
                await self._put_consumer(name, topology.consumers[name], "")
        return sorted(
            [f"created {name}" for name in missing] + [f"updated {name}" for name in differing - missing]
        )

    async def check(self, topology: Topology) -> list[Difference]:
        """Compare field by field what the folder names with what the server holds."""
        found: list[Difference] = []
        for name, config in topology.streams.items():
            live = await self._info(f"STREAM.INFO.{name}")
            found += differences(name, config, live)
        for name, consumer in topology.consumers.items():
            live = await self._info(f"CONSUMER.INFO.{consumer.stream}.{name}")
            found += differences(name, consumer.config, live)
        return found

    async def missing(self, consumers: Iterable[tuple[str, str]]) -> list[str]:
        """Return those (stream, consumer) that the server lacks: a worker bound to one is not ready."""
        return [
            name for stream, name in consumers if await self._info(f"CONSUMER.INFO.{stream}.{name}") is None
        ]

    async def _create_stream(self, name: str, config: Config) -> None:
        """Create a stream, also while the server still clears away the files of one with the same name.

        nats-server answers a deletion before it has removed the folder, and refuses a new stream until then.
        """
        for left in reversed(range(_STORE_TRIES)):
            try:
                await self._request(f"STREAM.CREATE.{name}", config)
            except _NoStoreError as refused:
                if not left:
                    raise TransientError(
                        f"JetStream could not make the files of stream {name} in {_STORE_TRIES} tries: "
                        f"{refused}; is its disk full or read-only? The server's own log names the cause"
                    ) from refused
                await asyncio.sleep(_STORE_WAIT_S)
            else:
                return

    async def _put_consumer(self, name: str, consumer: Consumer, action: str) -> None:
        body = {"stream_name": consumer.stream, "config": consumer.config, "action": action}
        filters = consumer.config.get("filter_subject")
        await self._request(
            f"CONSUMER.CREATE.{consumer.stream}.{name}" + (f".{filters}" if filters else ""), body
        )

    async def _first_since(self, stream: str, since: datetime, within: range) -> int:
        """Return where to begin: the first sequence from which on nothing was stored before `since`."""
        low, high = within.start, within.stop
        while low < high:
            middle = (low + high) // 2
            found = await self._get(stream, {"seq": middle, "next_by_subj": ">"})
            if found is None or found.stored_at >= since:
                high = middle
            else:
                low = found.sequence + 1
        return low

    async def _get(self, stream: str, wanted: Config) -> Stored | None:
        try:
            answer = await self._request(f"STREAM.MSG.GET.{stream}", wanted)
        except _MissingError as missing:
            if missing.err_code == _NO_MESSAGE:
                return None
            raise _no_stream(stream) from None
        return Stored.from_api(answer["message"])

    async def _stream(self, stream: str) -> Config:
        found = await self._told(f"STREAM.INFO.{stream}")
        if found is None:
            raise _no_stream(stream)
        return found

    async def _info(self, what: str) -> Config | None:
        found = await self._told(what)
        return None if found is None else dict(found["config"])

    async def _told(self, what: str) -> Config | None:
        try:
            return await self._request(what, {})
        except _MissingError:
            return None

    async def _request(self, what: str, body: Config) -> Config:
        try:
            message = await self.client.request(
                f"$JS.API.{what}", json.dumps(body).encode(), timeout=API_TIMEOUT_S
            )
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise TransientError(
                f"JetStream did not answer {what}: {type(error).__name__} {error}; "
                "is the server up, and started with JetStream?"
            ) from error
        answer = json.loads(message.data)
        if fault := answer.get("error"):
            if fault.get("code") == _NOT_FOUND:
                raise _MissingError(what, fault.get("err_code"))
            refused = f"JetStream refused {what}: {fault.get('description')} ({fault.get('err_code')})"
            raise (_NoStoreError if fault.get("err_code") == _NO_STORE else PermanentError)(refused)
        return dict(answer)


class _MissingError(Exception):
    """The stream, consumer or message that was asked about does not exist."""

    def __init__(self, what: str, err_code: int | None) -> None:
        super().__init__(what)
        self.err_code = err_code


class _NoStoreError(PermanentError):
    """The server could not make a stream's files."""


def _no_stream(stream: str) -> PermanentError:
    return PermanentError(f"the server has no stream {stream}: `yume streams apply` creates it")


@asynccontextmanager
async def connect(url: str, *, name: str) -> AsyncGenerator[JetStream]:
    """Connect, and go on trying to connect again for as long as the process lives."""
    leaving: list[bool] = []

    async def on_error(error: Exception) -> None:
        log.warning("nats_error", error=f"{type(error).__name__}: {error}")

    async def on_reconnect() -> None:
        log.info("nats_reconnected")

    async def on_disconnect() -> None:
        if not leaving:
            log.warning("nats_disconnected")

    try:
        client = await nats.connect(
            url,
            name=name,
            error_cb=on_error,
            reconnected_cb=on_reconnect,
            disconnected_cb=on_disconnect,
            connect_timeout=5,
            reconnect_time_wait=0.5,
            max_reconnect_attempts=-1,
            ping_interval=10,
            allow_reconnect=True,
        )
    except (nats.errors.Error, OSError, TimeoutError) as error:
        raise TransientError(
            f"NATS cannot be reached: {type(error).__name__}: {error}; see YUME_NATS_URL"
        ) from error
    try:
        yield JetStream(client)
    finally:
        leaving.append(True)
        try:
            await client.close()
        except (nats.errors.Error, OSError) as error:  # a server that is away cannot hold up the end
            log.warning("nats_not_closed", error=type(error).__name__)
