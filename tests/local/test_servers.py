from __future__ import annotations

import asyncpg
import nats
import pytest

from yume.errors import PermanentError
from yume.local.servers import Urls, embedded, locked

_HOLD = """
import sys
from pathlib import Path
from yume.local.servers import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


async def test_what_has_no_url_is_started_and_stopped(folder):
    with embedded(folder, database_url=None, nats_url=None) as urls:
        connection = await asyncpg.connect(urls.database, ssl=False)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        client = await nats.connect(urls.nats)
        await client.jetstream().account_info()
        await client.close()
        assert all(server.running for server in urls.embedded.values())
    assert set(urls.embedded) == {"nats", "postgres"}
    assert not any(server.running for server in urls.embedded.values())


def test_what_has_a_url_is_not_started(folder):
    with embedded(folder, database_url="postgresql://elsewhere", nats_url=None) as urls:
        assert urls.database == "postgresql://elsewhere"
        assert set(urls.embedded) == {"nats"}


def test_two_urls_need_no_folder(folder):
    with embedded(folder, database_url="postgresql://elsewhere", nats_url="nats://elsewhere") as urls:
        assert urls == Urls("postgresql://elsewhere", "nats://elsewhere")
    assert not folder.exists()


def test_a_database_that_does_not_start_takes_nats_down_with_it(folder, monkeypatch):
    started = []
    monkeypatch.setattr(
        "yume.local.servers.NatsServer.stop", lambda server: (started.append(server), server.kill())
    )
    (folder / "postgres").parent.mkdir()
    (folder / "postgres").touch()
    with (
        pytest.raises(FileExistsError),
        embedded(folder, database_url=None, nats_url=None),
    ):
        pytest.fail("no database, and yet it began")
    assert not started[0].running


def test_a_folder_in_use_is_refused_and_free_again_afterwards(folder, in_another_process):
    with in_another_process(_HOLD, str(folder), stdin=-1) as holder:
        holder.stdout.readline()
        with (
            pytest.raises(PermanentError, match=f"{folder} is in use by process {holder.pid}"),
            locked(folder),
        ):
            pytest.fail("two hold one folder")
        holder.kill()
    with locked(folder):
        assert (folder / "lock").exists()


def test_a_folder_that_cannot_be_made_is_named(folder):
    folder.touch()
    with pytest.raises(PermanentError, match=f"cannot write in the data folder {folder}"), locked(folder):
        pytest.fail("a file is no folder")
