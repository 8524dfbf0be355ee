from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from yume.errors import PermanentError
from yume.local.postgres import Postgres

_SERVE = """
import sys, time
from pathlib import Path
from yume.local.postgres import Postgres

server = Postgres(Path(sys.argv[1])).start()
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def server(folder):
    server = Postgres(folder).start()
    yield server
    server.stop()


async def answer(server, query):
    connection = await asyncpg.connect(server.url, ssl=False)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_what_was_committed_survives_kill_9_at_the_same_address(server):
    url = server.url
    await answer(server, "CREATE TABLE kept AS SELECT 42 AS number")
    server.kill()
    assert not server.running
    server.start()
    assert server.url == url
    assert await answer(server, "SELECT number FROM kept") == 42


async def test_another_start_on_the_folder_finds_the_data_at_the_same_address(server):
    await answer(server, "CREATE TABLE kept AS SELECT 42 AS number")
    server.stop()
    again = Postgres(server.folder).start()
    try:
        assert again.url == server.url
        assert await answer(again, "SELECT number FROM kept") == 42
    finally:
        again.stop()


def test_starting_what_runs_changes_nothing(server):
    assert server.start().pid == server.pid


def test_two_servers_run_side_by_side(server, postgres):
    assert server.running
    assert postgres.running
    assert server.url != postgres.url


async def test_it_is_durable_and_listens_on_loopback_only(server):
    settings = (
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "listen_addresses",
        "unix_socket_directories",
    )
    found = [await answer(server, f"SHOW {name}") for name in settings]
    assert found == ["on", "on", "on", "127.0.0.1", ""]


async def test_it_lives_in_utc_whatever_the_zone_of_the_machine(folder, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    server = Postgres(folder).start()
    try:
        assert await answer(server, "SHOW timezone") == "UTC"
    finally:
        server.stop()


def test_a_remembered_port_that_somebody_else_took_is_given_up(server):
    url = server.url
    server.stop()
    with socket.create_server(("127.0.0.1", urlsplit(url).port)):
        again = Postgres(server.folder).start()
        again.stop()
    assert again.url != url


def test_a_port_that_was_asked_for_and_is_taken_is_named(folder, monkeypatch):
    monkeypatch.setattr("yume.local.postgres._PORT_PATIENCE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PermanentError, match=f"port {port} of 127.0.0.1 is taken"):
            Postgres(folder, port=port).start()


def test_a_stale_pid_that_a_stranger_now_has_does_not_stop_the_start(server):
    server.kill()
    owner = server.data.stat()
    identity = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    with subprocess.Popen(["/bin/sleep", "60"], cwd="/", **identity) as stranger:
        pid_file = server.data / "postmaster.pid"
        rest = pid_file.read_text().splitlines()[1:]
        pid_file.write_text("\n".join([str(stranger.pid), *rest, ""]))
        server.start()
        assert stranger.poll() is None
        stranger.kill()
    assert server.running


def test_a_second_server_on_a_running_folder_is_refused_with_the_pid_of_the_first(server, monkeypatch):
    monkeypatch.setattr("yume.local.child._PREDECESSOR_PATIENCE_S", 0.05)
    with pytest.raises(PermanentError, match=f"in use by process {server.pid}"):
        Postgres(server.folder).start()
    assert server.running


def test_a_first_start_that_was_interrupted_leaves_nothing_half_made(folder):
    (folder / "data.new" / "base").mkdir(parents=True)
    server = Postgres(folder).start()
    server.stop()
    assert not (folder / "data.new").exists()


def test_a_server_that_does_not_start_says_why(folder):
    with pytest.raises(PermanentError, match=r"did not start.*shared_buffers"):
        Postgres(folder, settings={"shared_buffers": "plenty"}).start()


def test_an_initdb_that_fails_says_why(folder, monkeypatch):
    monkeypatch.setattr("yume.local.postgres._place", lambda *_: "/proc/nowhere")
    with pytest.raises(PermanentError, match=r"(?s)initdb in .* ended with 1: .*/proc/nowhere"):
        Postgres(folder).start()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_it_ends_with_its_killed_parent_and_the_next_start_waits_for_that(
    folder, in_another_process, wait_until
):
    with in_another_process(_SERVE, str(folder)) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    server = Postgres(folder).start()
    server.stop()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_an_ordinary_user_can_run_it(as_ordinary_user):
    said = as_ordinary_user(
        "import sys; from pathlib import Path; from yume.local.postgres import Postgres\n"
        "server = Postgres(Path(sys.argv[1])).start()\n"
        "print(server.data.owner(), server.running); server.stop()"
    )
    assert said.split() == ["nobody", "True"]


def test_data_of_another_user_is_named_not_touched(server, as_ordinary_user):
    server.stop()
    said = as_ordinary_user(
        "import sys; from pathlib import Path; from yume.local.postgres import Postgres\n"
        f"try: Postgres(Path({str(server.folder)!r})).start()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    assert said.startswith("PermanentError")
    assert f"belongs to user id {server.data.stat().st_uid}" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders that root alone may enter")
def test_root_can_run_it_where_only_root_may_enter_and_opens_nothing(server_folder):
    closed = server_folder / "closed"
    closed.mkdir(mode=0o700)
    server = Postgres(closed / "postgres").start()
    server.stop()
    assert closed.stat().st_mode & 0o777 == 0o700
    assert server.data.stat().st_uid != 0


def test_stopping_ends_it_without_recovery_at_the_next_start(server):
    server.stop()
    assert server.process.returncode == 0
    server.start()
    assert "recovery" not in server.output()
