"""The embedded default: a PostgreSQL and a nats-server for whatever no URL names."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from yume.errors import PermanentError
from yume.local.nats import NatsServer
from yume.local.postgres import Postgres


@dataclass(frozen=True, slots=True)
class Urls:
    """Where the two servers are; `embedded` holds, by name, those that were started here."""

    database: str
    nats: str
    embedded: Mapping[str, Postgres | NatsServer] = field(default_factory=dict)


@contextmanager
def embedded(folder: Path, *, database_url: str | None, nats_url: str | None) -> Iterator[Urls]:
    """Start the server that has no URL, stop it at the end; its data stays in the folder.

    One process at a time may do so on one folder. Call it from the main thread.
    """
    if database_url is not None and nats_url is not None:
        yield Urls(database_url, nats_url)
        return
    with locked(folder), ExitStack() as running:
        started: dict[str, Postgres | NatsServer] = {}
        if nats_url is None:
            nats = NatsServer(folder / "nats")
            running.callback(nats.stop)
            nats_url = nats.start().url
            started["nats"] = nats
        if database_url is None:
            postgres = Postgres(folder / "postgres")
            running.callback(postgres.stop)
            database_url = postgres.start().url
            started["postgres"] = postgres
        yield Urls(database_url, nats_url, started)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock goes with the process, however that ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+")
    except OSError as error:
        raise PermanentError(f"cannot write in the data folder {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise PermanentError(
                f"the data folder {folder} is in use by process {holder}: stop that or choose another folder"
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
