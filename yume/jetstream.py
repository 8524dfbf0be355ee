"""What NATS holds: stores events, and keeps the server's streams and consumers as `streams/` says."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import nats
import nats.errors
import nats.js.errors
import structlog
from nats.aio.client import Client
from nats.js import JetStreamContext

from yume.errors import PermanentError, TransientError
from yume.events import Event
from yume.settings import Settings, contracts

log = structlog.get_logger()

API_TIMEOUT_S: Final = 10.0
PUBLISH_TIMEOUT_S: Final = 5.0
_NOT_FOUND: Final = 404
_NANOSECONDS: Final = 1_000_000_000
_STREAM_OF: Final = {
    "yume.task": "tasks",
    "yume.dream": "dream",
    "yume.lesson": "lessons",
    "yume.slot": "lessons",
    "yume.measurement": "lessons",
    "yume.review": "lessons",
    "yume.dead": "dead",
}

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A durable and the stream that it reads."""

    stream: str
    config: Config


@dataclass(frozen=True, slots=True)
class Topology:
    """Streams and consumers by name, in the server's own form."""

    streams: Mapping[str, Config]
    consumers: Mapping[str, Consumer]


@dataclass(frozen=True, slots=True)
class Difference:
    """One point in which the server is not as the folder says: `live` is None where it is missing."""

    name: str
    field: str
    wanted: Any
    live: Any


def load(folder: Path, *, replicas: int, ack_wait_s: float) -> Topology:
    """Read the folder; the two figures that differ between deployments come from the settings."""
    streams = {file.stem: _read(file) | {"num_replicas": replicas} for file in sorted(folder.glob("*.json"))}
    if not streams:
        raise PermanentError(f"no streams in {folder}: the installation is incomplete")
    consumers = {}
    for file in sorted(folder.glob("consumers/*.json")):
        row = _read(file)
        config = row["config"] | {"ack_wait": int(ack_wait_s * _NANOSECONDS), "num_replicas": replicas}
        consumers[file.stem] = Consumer(row["stream_name"], config)
    return Topology(streams, consumers)


def of_deployment(settings: Settings) -> Topology:
    """Return what `streams/` says, with the figures of this deployment."""
    return load(contracts("streams"), replicas=settings.stream_replicas, ack_wait_s=settings.ack_wait_s)


def _read(file: Path) -> Config:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except ValueError as error:
        raise PermanentError(f"{file}: no JSON object: {error}") from error


def stream_of(event: Event) -> str:
    """Return the stream that holds an event's subject."""
    return _STREAM_OF[".".join(event.type.split(".")[:2])]


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

    async def heal(self, topology: Topology) -> list[str]:
        """Create what is missing, change nothing that lives, and return the names of what was made."""
        made = []
        for name, config in topology.streams.items():
            if await self._info(f"STREAM.INFO.{name}") is None:
                await self._request(f"STREAM.CREATE.{name}", config)
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
            found += _differences(name, config, live)
        for name, consumer in topology.consumers.items():
            live = await self._info(f"CONSUMER.INFO.{consumer.stream}.{name}")
            found += _differences(name, consumer.config, live)
        return found

    async def missing(self, consumers: Iterable[tuple[str, str]]) -> list[str]:
        """Return those (stream, consumer) that the server lacks: a worker bound to one is not ready."""
        return [
            name for stream, name in consumers if await self._info(f"CONSUMER.INFO.{stream}.{name}") is None
        ]

    async def _put_consumer(self, name: str, consumer: Consumer, action: str) -> None:
        body = {"stream_name": consumer.stream, "config": consumer.config, "action": action}
        filters = consumer.config.get("filter_subject")
        await self._request(
            f"CONSUMER.CREATE.{consumer.stream}.{name}" + (f".{filters}" if filters else ""), body
        )

    async def _info(self, what: str) -> Config | None:
        try:
            return dict((await self._request(what, {}))["config"])
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
                raise _MissingError(what)
            raise PermanentError(
                f"JetStream refused {what}: {fault.get('description')} ({fault.get('err_code')})"
            )
        return dict(answer)


class _MissingError(Exception):
    """The stream or consumer that was asked about does not exist."""


def _differences(name: str, wanted: Config, live: Config | None) -> list[Difference]:
    if live is None:
        return [Difference(name, "name", name, None)]
    return [
        Difference(name, field, value, live.get(field))
        for field, value in wanted.items()
        if (value or live.get(field)) and value != live.get(field)
    ]


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
