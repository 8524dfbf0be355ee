"""Everything on one machine: servers that no URL names, tables, streams, and one process a zone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from yume import operate
from yume.clients.archive import describe
from yume.clients.vault import key_in
from yume.local.processes import Supervisor
from yume.local.servers import Urls, embedded
from yume.local.zones import programs
from yume.resources import vault_of
from yume.settings import Settings


@dataclass(frozen=True, slots=True)
class Ground:
    """The settings with every URL filled in, and the servers that were started for it."""

    settings: Settings
    servers: Urls


@contextmanager
def ground(settings: Settings) -> Iterator[Ground]:
    """Start the servers that no URL names, on the data folder; stop them at the end."""
    database_url = None if settings.database_url is None else settings.database_url.get_secret_value()
    nats_url = None if settings.nats_url is None else settings.nats_url.get_secret_value()
    with embedded(settings.data_dir, database_url=database_url, nats_url=nats_url) as servers:
        archive_url = settings.archive_url or (settings.data_dir.absolute() / "archive").as_uri()
        describe(archive_url)  # what cannot be an archive is refused here, once
        filled = {
            "database_url": SecretStr(servers.database),
            "nats_url": SecretStr(servers.nats),
            "secret_keys": settings.secret_keys or key_in(settings.data_dir),
            "archive_url": archive_url,
        }
        vault_of(settings.model_copy(update=filled))  # so is a key that is none
        standing = Ground(settings.model_copy(update=filled), servers)
        with operate.running_here(standing.settings):
            yield standing


async def prepare(settings: Settings) -> tuple[list[str], list[str]]:
    """Bring the tables and the streams up to date; return what was done to each."""
    return await operate.migrate(settings), await operate.apply_streams(settings)


@asynccontextmanager
async def up(standing: Ground) -> AsyncGenerator[Supervisor]:
    """Run one process a trust zone, and start again whatever dies, the embedded servers included."""
    await prepare(standing.settings)
    logs = standing.settings.data_dir.absolute() / "logs"
    async with Supervisor(programs(standing.settings, logs), servers=standing.servers.embedded) as supervisor:
        yield supervisor


async def until_stopped(supervisor: Supervisor, stop: asyncio.Event) -> None:
    """Wait for the signal to stop; if the watching itself breaks, raise what broke it."""
    watching = asyncio.create_task(supervisor.wait())
    stopping = asyncio.create_task(stop.wait())
    done, pending = await asyncio.wait({watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    for task in done:
        task.result()
