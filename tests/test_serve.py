from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest
from pydantic import SecretStr

from yume import jetstream, serve, worker
from yume.errors import PermanentError
from yume.events import RunBatch, event
from yume.ids import DreamId, PlatformId
from yume.local.nats import NatsServer
from yume.pipeline import STAGES
from yume.settings import Settings, contracts
from yume.store import access, batches, dreams
from yume.store.access import Platform
from yume.topology import load, of_deployment

NOW = datetime(2025, 5, 1, 12, tzinfo=UTC)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as door:
        return door.getsockname()[1]


class Process:
    """Yume's processes in this one: what `yume worker` and `yume orchestrate` serve until told to stop."""

    def __init__(self, database_url, nats_url, folder):
        self.stop = asyncio.Event()
        self.settings = Settings(
            database_url=SecretStr(database_url),
            nats_url=SecretStr(nats_url),
            data_dir=folder,
            health_port=free_port(),
            sweep_every_s=1,
            heal_every_s=1,
        )

    @property
    def url(self):
        return f"http://127.0.0.1:{self.settings.health_port}"

    async def readiness(self):
        """Return the answer's status and what is wrong; None before anything answers."""
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.get(f"{self.url}/readyz", timeout=10)
        except httpx.TransportError:
            return None
        return answer.status_code, answer.json().get("wrong", {})

    async def is_ready(self, status=200):
        found = await self.readiness()
        return found is not None and found[0] == status

    @asynccontextmanager
    async def running(self, serving):
        task = asyncio.create_task(serving)
        try:
            yield task
        finally:
            self.stop.set()
            await task


async def until(state, timeout_s=30):
    async with asyncio.timeout(timeout_s):
        while not await state():  # noqa: ASYNC110  # the state is a server's, which sets no event here
            await asyncio.sleep(0.02)


async def ask(js, what):
    return json.loads((await js.client.request(f"$JS.API.{what}", b"{}")).data)


@pytest.fixture
async def js(nats_url):
    async with jetstream.connect(nats_url, name="test") as js:
        await js.apply(load(contracts("streams"), replicas=1, ack_wait_s=30))
        yield js
        for name in (await ask(js, "STREAM.NAMES"))["streams"]:
            await ask(js, f"STREAM.DELETE.{name}")


@pytest.fixture
def process(migrated_url, nats_url, tmp_path):
    return Process(migrated_url, nats_url, tmp_path)


async def test_a_worker_is_ready_and_red_while_its_consumer_is_deleted(process, js):
    async with process.running(serve.worker_until(process.stop, ["s6", "s7"], process.settings)):
        await until(process.is_ready)
        await ask(js, "CONSUMER.DELETE.dream.s6_gate")
        assert await process.readiness() == (503, {"consumers": "missing in NATS: s6_gate"})
        await js.heal(of_deployment(process.settings))
        assert await process.readiness() == (200, {})


async def test_a_consumer_of_another_worker_is_not_its_business(process, js):
    async with process.running(serve.worker_until(process.stop, ["s6"], process.settings)):
        await until(process.is_ready)
        await ask(js, "CONSUMER.DELETE.dream.s1_pull")
        assert await process.readiness() == (200, {})


async def test_an_orchestrator_turns_ready_by_healing_and_needs_every_consumer(process, js, nats_url):
    await ask(js, "STREAM.DELETE.dream")
    async with process.running(serve.orchestrator_until(process.stop, process.settings)):
        await until(process.is_ready)
        assert await js.check(of_deployment(process.settings)) == []
        await ask(js, "STREAM.DELETE.tasks")

        async def healed():
            return await js.missing([("tasks", "orchestrator_tasks")]) == [] and await process.is_ready()

        await until(healed)


async def test_a_worker_is_red_while_postgres_is_gone(process, js, postgres):
    import asyncpg  # noqa: PLC0415  # stands in for the operator who drops it

    async with process.running(serve.worker_until(process.stop, ["s6"], process.settings)):
        await until(process.is_ready)
        name = process.settings.database_url.get_secret_value().rpartition("/")[2]
        operator = await asyncpg.connect(postgres.url, ssl=False)
        try:
            await operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            await operator.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            )

            async def red():
                found = await process.readiness()
                return found[0] == 503 and list(found[1]) == ["database"]

            await until(red)
            await operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            await until(process.is_ready)
        finally:
            await operator.close()


async def test_a_worker_is_red_while_nats_is_away_and_ends_cleanly_even_then(
    migrated_url, server_folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(serve.health, "CHECK_TIMEOUT_S", 0.5)
    server = NatsServer(server_folder / "nats-of-serve").start()
    process = Process(migrated_url, server.url, tmp_path)
    try:
        async with jetstream.connect(server.url, name="test") as js:
            await js.apply(of_deployment(process.settings))
        async with process.running(serve.worker_until(process.stop, ["s6"], process.settings)):
            await until(process.is_ready)
            server.kill()

            async def red():
                return await process.readiness() == (503, {"consumers": "no answer within 0.5 s"})

            await until(red)
    finally:
        server.stop()


async def test_being_told_to_stop_finishes_the_step_under_way(process, js, database, monkeypatch):
    under_way, may_end = asyncio.Event(), asyncio.Event()

    async def run(batch, resources, /):
        under_way.set()
        await may_end.wait()
        async with resources.db.acquire() as db, db.transaction():
            fence = (await dreams.dream_of(db, DreamId(batch.dream_id))).fence
            await dreams.mark_step(db, DreamId(batch.dream_id), "s1_pull", resources.now(), fence=fence)

    monkeypatch.setattr(worker, "STAGES", (dataclasses.replace(STAGES[0], run=run), *STAGES[1:]))
    async with database.acquire() as db:
        await access.add_platform(db, Platform(PlatformId("tobatsu"), "http://127.0.0.1:1", None, None, {}))
        series = (await access.series_named(db, "tobatsu", "kamila")).id
        dream = await batches.collecting(db, series, "callback", NOW)
        await batches.announce_run(db, series, dream, task_id="T1", status="failed", finished_at=NOW, now=NOW)
        await batches.close_batch(db, dream, batch_id=None, now=NOW)
        await batches.start_next(db, series, datetime.now(UTC))  # noqa: TID251  # the real clock serves
    batch = RunBatch(platform="tobatsu", series="kamila", dream_id=dream)
    await js.store(event("dream.requested", batch, key="k", at=NOW))

    async with process.running(serve.worker_until(process.stop, ["s1"], process.settings)) as serving:
        await under_way.wait()
        process.stop.set()
        done, _ = await asyncio.wait({serving}, timeout=0.3)
        assert not done
        may_end.set()
    async with database.acquire() as db:
        progress = await dreams.progress_of(db, dream)
    assert (progress.step, progress.announced) == ("s1_pull", "s1_pull")
    assert (await ask(js, "CONSUMER.INFO.dream.s1_pull"))["num_ack_pending"] == 0


async def test_without_a_servers_address_the_setting_is_named(tmp_path):
    with pytest.raises(PermanentError, match="YUME_DATABASE_URL is not set"):
        await serve.worker_until(asyncio.Event(), ["s6"], Settings(data_dir=tmp_path))


async def test_steps_that_are_no_zone_are_refused_before_anything_is_opened(process):
    with pytest.raises(PermanentError, match="one trust zone"):
        await serve.worker_until(process.stop, ["s1", "s8"], process.settings)
