"""Real servers for every test: loopback only, free ports, gone when the session ends, however it ends."""

from __future__ import annotations

import itertools
import random
import secrets
import signal
import sysconfig
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from yume.local.child import Child
from yume.local.nats import NatsServer
from yume.local.ports import LOOPBACK, is_free
from yume.local.postgres import Postgres
from yume.settings import contracts
from yume.store.database import Database, open_database
from yume.store.migrations import migrate

if TYPE_CHECKING:
    from yume.store.database import Db

settings.register_profile(
    "long", max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what a person may want of the tests beyond what every run does."""
    parser.addoption(
        "--large", action="store_true", help="read files of 200 MB where the tests read large ones"
    )


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A short path for the servers' files, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="yume-tests-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # servers of other users live in it
        yield Path(folder)


@pytest.fixture(scope="session")
def postgres(server_folder: Path) -> Iterator[Postgres]:
    """One PostgreSQL for the session; a test that stops it makes its own."""
    server = Postgres(server_folder / "postgres").start()
    yield server
    server.stop()


@pytest.fixture
async def database_url(postgres: Postgres) -> AsyncIterator[str]:
    """A fresh, empty database of this test alone."""
    name = f"test_{secrets.token_hex(6)}"
    await _execute(postgres, f"CREATE DATABASE {name}")
    yield postgres.url.removesuffix("postgres") + name
    await _execute(postgres, f"DROP DATABASE {name} WITH (FORCE)")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def template(postgres: Postgres) -> str:
    """The name of a database that is migrated once, for others to be copied from."""
    name = f"template_{secrets.token_hex(6)}"
    await _execute(postgres, f"CREATE DATABASE {name}")
    await migrate(postgres.url.removesuffix("postgres") + name, contracts("schemas") / "postgres")
    return name


@pytest.fixture
async def migrated_url(postgres: Postgres, template: str) -> AsyncIterator[str]:
    """A fresh database of this test alone, with all tables and no rows but the taxonomies."""
    name = f"test_{secrets.token_hex(6)}"
    await _execute(postgres, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield postgres.url.removesuffix("postgres") + name
    await _execute(postgres, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """The pool that a worker would have on `migrated_url`."""
    async with open_database(migrated_url, size=4) as opened:
        yield opened


@pytest.fixture
async def db(database: Database) -> AsyncIterator[Db]:
    """One connection of `database`; Postgres' own errors reach the test."""
    async with database.acquire() as connection:
        yield connection


async def _execute(postgres: Postgres, statement: str) -> None:
    connection = await asyncpg.connect(postgres.url, ssl=False)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def nats_server(server_folder: Path) -> Iterator[NatsServer]:
    """One nats-server with JetStream for the module."""
    server = NatsServer(server_folder / f"nats-{secrets.token_hex(4)}").start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def nats_url(nats_server: NatsServer) -> str:
    """The address of the module's nats-server; its streams are shared by the module's tests."""
    return nats_server.url


@dataclass(frozen=True, slots=True)
class S3:
    """Where the S3 server listens and who may use it; a test makes its own bucket."""

    endpoint: str
    access_key: str
    secret_key: str


@pytest.fixture(scope="session")
def s3(server_folder: Path) -> Iterator[S3]:
    """One SeaweedFS for the session: it checks signatures and enforces conditional writes."""
    server = Weed(server_folder / "s3")
    yield server.start()
    server.kill()
    for port in server.ports:
        for left_behind in Path("/tmp").glob(f"seaweedfs-*-grpc-{port + 10_000}.sock"):
            left_behind.unlink()


class Weed(Child):
    """`weed mini` on a folder."""

    stop_signal = signal.SIGKILL  # its own shutdown takes seconds, and nothing of it is kept

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "weed.log")
        self.folder = folder
        self.ports = tuple(itertools.islice(_weed_ports(), 5))

    def start(self) -> S3:
        self.folder.mkdir()
        master, volume, filer, s3, admin = self.ports
        self._spawn(
            [
                Path(sysconfig.get_path("scripts")) / "weed",
                f"-logdir={self.folder}",
                "mini",
                f"-dir={self.folder}",
                f"-ip={LOOPBACK}",
                f"-ip.bind={LOOPBACK}",
                f"-master.port={master}",
                "-master.telemetry=false",
                f"-volume.port={volume}",
                f"-filer.port={filer}",
                f"-filer.localSocket={self.folder / 'filer.sock'}",
                f"-s3.port={s3}",
                f"-s3.localSocket={self.folder / 's3.sock'}",
                "-s3.port.iceberg=0",
                "-s3.port.lance=0",
                "-webdav=false",
                f"-admin.port={admin}",
                "-admin.ui=false",
            ],
            cwd=self.folder,
            env={
                "AWS_ACCESS_KEY_ID": "yume",
                "AWS_SECRET_ACCESS_KEY": "made-up-secret",
                "HOME": str(self.folder),
            },
        )
        deadline = time.monotonic() + 60
        while is_free(s3):
            assert self.running, self.output()
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.02)
        return S3(f"http://{LOOPBACK}:{s3}", "yume", "made-up-secret")


def _weed_ports() -> Iterator[int]:
    """Free ports below the system's ephemeral range, with the one 10,000 above free for gRPC."""
    for port in random.sample(range(12_000, 22_000), 10_000):
        if is_free(port) and is_free(port + 10_000):
            yield port
