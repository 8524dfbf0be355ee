"""What the folder `streams/` says: the streams and consumers that the server should hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from yume.errors import PermanentError
from yume.events import Event
from yume.settings import Settings, contracts

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


def stream_of(event: Event) -> str:
    """Return the stream that holds an event's subject."""
    return _STREAM_OF[_group(event.type)]


def holds(stream: str, subject: str) -> bool:
    """Say whether Yume puts a subject into a stream: no other subject is ever published on."""
    return _STREAM_OF.get(_group(subject)) == stream


def _group(subject: str) -> str:
    return ".".join(subject.split(".")[:2])


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


def differences(name: str, wanted: Config, live: Config | None) -> list[Difference]:
    """Compare field by field what is wanted with what lives; what is not wanted is the server's to say."""
    if live is None:
        return [Difference(name, "name", name, None)]
    return [
        Difference(name, field, value, live.get(field))
        for field, value in wanted.items()
        if (value or live.get(field)) and value != live.get(field)
    ]
