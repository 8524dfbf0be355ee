from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import shutil
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from yume import jetstream, orchestrator, worker
from yume.clients.http import Limits
from yume.errors import TransientError
from yume.events import REASON_HEADER, Event, RunBatch, TaskFinished, event
from yume.ids import PlatformId, new_id
from yume.jetstream import JetStream
from yume.local.nats import NatsServer
from yume.orchestrator import orchestrating
from yume.pipeline import STAGES
from yume.resources import Resources
from yume.settings import contracts
from yume.store import access, batches, dreams
from yume.store.access import Platform
from yume.topology import load

AT = datetime(2025, 5, 1, 12, tzinfo=UTC)


def topology():
    return load(contracts("streams"), replicas=1, ack_wait_s=30)


def orchestrator_of(world, *, stall_after=timedelta(minutes=10)):
    return orchestrator.Orchestrator(
        world.resources, world.js, topology(), stall_after, timedelta(minutes=5), heal_every_s=10
    )


class World:
    """A platform that finishes tasks, and what the tables and streams then say."""

    def __init__(self, js, nats_url, database):
        self.js = js
        self.nats_url = nats_url
        self.resources = Resources("orchestrator", database, Limits(), allow_http=True)

    def orchestrating(self, *, stall_after_s=600.0):
        return orchestrating(
            resources=self.resources,
            nats_url=self.nats_url,
            topology=topology(),
            ack_wait_s=30,
            sweep_every_s=0.05,
            heal_every_s=0.1,
            stall_after_s=stall_after_s,
        )

    async def query(self, sql, *arguments):
        async with self.resources.db.acquire() as db:
            return await db.fetch(sql, *arguments)

    async def series(self, name="kamila", **policy):
        """Make a series; its policy is set as an operator would set it."""
        async with self.resources.db.acquire() as db:
            known = await access.series_named(db, "tobatsu", name)
            for column, value in policy.items():
                await db.execute(f"UPDATE yume.series SET {column} = $2 WHERE id = $1", known.id, value)
        return known

    async def finish(self, task_id, *, series="kamila", key=None, at=AT, **more):
        told = TaskFinished(
            platform="tobatsu", series=series, task_id=task_id, status="failed", finished_at=at, **more
        )
        await self.js.store(event("task.finished", told, key=key or f"tobatsu/{series}/{task_id}", at=AT))

    async def dreams(self):
        return await self.query("SELECT * FROM yume.dream_runs ORDER BY series_id, number")

    async def statuses(self):
        return [row["status"] for row in await self.dreams()]

    async def tasks_of(self, dream):
        return [
            row["task_id"]
            for row in await self.query(
                "SELECT task_id FROM yume.runs WHERE dream_id = $1 ORDER BY task_id", dream
            )
        ]

    async def reach(self, *statuses):
        async def there():
            return await self.statuses() == list(statuses)

        await until(there)

    async def handled(self, durable="orchestrator_tasks", stream="tasks"):
        """Wait until every message of a durable is settled."""

        async def there():
            info = await self.ask(f"CONSUMER.INFO.{stream}.{durable}")
            return not (info["num_pending"] or info["num_ack_pending"])

        await until(there)

    async def ask(self, what):
        return json.loads((await self.js.client.request(f"$JS.API.{what}", b"{}")).data)

    async def stored(self, stream="dream"):
        last = (await self.ask(f"STREAM.INFO.{stream}"))["state"]["last_seq"]
        return [await self.js.client.jetstream().get_msg(stream, each) for each in range(1, last + 1)]

    async def told(self, kind=None):
        """Return the events about dreams, or those of one type."""
        every = [Event.model_validate_json(each.data) for each in await self.stored()]
        return [each for each in every if kind in {None, each.type.removeprefix("yume.")}]

    async def tells(self, kind, count=1):
        async def there():
            return len(await self.told(kind)) >= count

        await until(there)
        return await self.told(kind)

    async def running_dream(self):
        """A dream that was started, by an orchestrator that then died: its request was never stored."""
        known = await self.series()
        async with self.resources.db.acquire() as db:
            dream = await batches.collecting(db, known.id, "callback", AT)
            now = self.resources.now()
            await batches.close_batch(db, dream, batch_id=None, now=now)
            await batches.start_next(db, known.id, now)
        return dream

    async def end(self, dream):
        """End a dream as its last step would."""
        async with self.resources.db.acquire() as db:
            await dreams.mark_step(db, dream, STAGES[-1].name, AT)
            await dreams.finish(db, dream, AT)
        about = RunBatch(platform="tobatsu", series="kamila", dream_id=dream)
        await self.js.store(event("dream.finished", about, key=f"{dream}/finished", at=AT))
        async with self.resources.db.acquire() as db:
            await dreams.mark_announced(db, dream, STAGES[-1].name, AT)


async def until(state, timeout_s=30):
    async with asyncio.timeout(timeout_s):
        while not await state():  # noqa: ASYNC110  # the state is a server's, which sets no event here
            await asyncio.sleep(0.01)


@asynccontextmanager
async def a_world(nats_url, database):
    async with jetstream.connect(nats_url, name="test") as js:
        await js.apply(topology())
        async with database.acquire() as db:
            await access.add_platform(
                db, Platform(PlatformId("tobatsu"), "http://127.0.0.1:1", None, None, {})
            )
        world = World(js, nats_url, database)
        yield world
        for name in (await world.ask("STREAM.NAMES"))["streams"]:
            await world.ask(f"STREAM.DELETE.{name}")


@pytest.fixture
async def world(nats_url, database):
    async with a_world(nats_url, database) as world:
        yield world


async def shuffled_copies(world, tasks, copies):
    """Tell of each task many times, out of order, as if after the dedup window."""
    told = [(f"T{task}", copy) for task in range(tasks) for copy in range(copies)]
    random.Random(7).shuffle(told)
    for task, copy in told:
        await world.finish(task, key=f"{task}/{copy}")


async def test_the_same_callback_100_times_is_one_task_of_one_dream(world):
    async with world.orchestrating():
        for copy in range(100):
            await world.finish("T1", key=f"copy {copy}", batch_finished=True)
        await world.handled()
    (dream,) = await world.dreams()
    assert await world.tasks_of(dream["id"]) == ["T1"]
    assert [each.data["dream_id"] for each in await world.told("dream.requested")] == [str(dream["id"])]


async def test_copies_out_of_order_make_one_batch(world):
    await world.series(batch_max_runs=10)
    async with world.orchestrating():
        await shuffled_copies(world, tasks=10, copies=10)
        await world.handled()
    (dream,) = await world.dreams()
    assert len(await world.tasks_of(dream["id"])) == 10
    assert dream["status"] == "running"


async def test_two_orchestrators_do_what_one_does(world):
    await world.series(batch_max_runs=10)
    async with world.orchestrating(), world.orchestrating():
        await shuffled_copies(world, tasks=20, copies=5)
        await world.handled()
        await world.tells("dream.requested")
    rows = await world.dreams()
    assert [row["status"] for row in rows] == ["running", "queued"]
    assert [len(await world.tasks_of(row["id"])) for row in rows] == [10, 10]
    assert len(await world.told()) == 1


async def test_a_task_of_an_unknown_platform_is_buried_with_the_way_out(world):
    told = TaskFinished(platform="stranger", series="s", task_id="T1", status="failed", finished_at=AT)
    await world.js.store(event("task.finished", told, key="k", at=AT))
    async with world.orchestrating():
        await world.handled()
    (dead,) = await world.stored("dead")
    assert dead.headers[REASON_HEADER] == (
        "PermanentError: platform 'stranger' is not known: add it with `yume platform add`"
    )
    assert await world.dreams() == []


@pytest.mark.parametrize(
    ("subject", "changed", "reason"),
    [
        ("yume.task.finished.stranger.kamila", {}, "stood on yume.task.finished.stranger.kamila"),
        (
            "yume.task.finished.tobatsu.kamila",
            {"finished_at": "2025-05-01T12:00:00"},
            "finished_at: Input should",
        ),
        ("yume.task.finished.tobatsu.kamila", {"task_id": ""}, "task_id: String should have at least 1"),
    ],
)
async def test_a_task_on_a_wrong_subject_or_with_a_wrong_field_is_buried(world, subject, changed, reason):
    told = TaskFinished(platform="tobatsu", series="kamila", task_id="T1", status="failed", finished_at=AT)
    sent = event("task.finished", told.model_dump(mode="json") | changed, key="k", at=AT)
    await world.js.client.jetstream().publish(subject, sent.to_bytes())
    async with world.orchestrating():
        await world.handled()
    (dead,) = await world.stored("dead")
    assert reason in dead.headers[REASON_HEADER]
    assert dead.data == sent.to_bytes()
    assert await world.dreams() == []


async def test_a_task_from_the_far_future_is_buried_and_one_of_a_clock_that_is_fast_is_not(world):
    now = world.resources.now()
    async with world.orchestrating():
        await world.finish("T1", at=now + timedelta(days=1))
        await world.finish("T2", at=now + timedelta(minutes=10))
        await world.handled()
    (dead,) = await world.stored("dead")
    assert "has not finished: check the clocks" in dead.headers[REASON_HEADER]
    (dream,) = await world.dreams()
    assert await world.tasks_of(dream["id"]) == ["T2"]


async def test_a_series_that_is_new_starts_in_report_only(world):
    async with world.orchestrating():
        await world.finish("T1", series="new.series *")
        await world.reach("collecting")
    (made,) = await world.query("SELECT external_id, mode FROM yume.series")
    assert tuple(made) == ("new.series *", "report_only")


async def test_a_batch_closes_when_it_is_full_and_not_before(world):
    await world.series(batch_max_runs=3)
    async with world.orchestrating():
        await world.finish("T1")
        await world.finish("T2")
        await world.handled()
        assert await world.statuses() == ["collecting"]
        await world.finish("T3", at=AT + timedelta(hours=1))
        await world.reach("running")
        (request,) = await world.tells("dream.requested")
    (dream,) = await world.dreams()
    assert request.subject == "yume.dream.requested.tobatsu.kamila"
    assert RunBatch.model_validate(request.data).dream_id == dream["id"]
    assert dream["announced"] == "s0_requested"
    assert dream["span"].upper > AT + timedelta(hours=1)


async def test_a_batch_closes_when_its_platform_says_so_and_a_named_one_not_by_its_size(world):
    await world.series(batch_max_runs=2)
    async with world.orchestrating():
        for task in ("T1", "T2", "T3"):
            await world.finish(task, batch_id="night 4")
        await world.handled()
        assert await world.statuses() == ["collecting"]
        await world.finish("T4", batch_id="night 4", batch_finished=True)
        await world.reach("running")
    (dream,) = await world.dreams()
    assert dream["batch_id"] == "night 4"
    assert len(await world.tasks_of(dream["id"])) == 4


async def test_a_batch_closes_when_it_has_waited_long_enough_and_not_before(world):
    await world.series(batch_max_wait=timedelta(hours=1))
    async with world.orchestrating():
        await world.finish("T1")
        await world.handled()
        assert await world.statuses() == ["collecting"]
        await world.series(batch_max_wait=timedelta(seconds=1))
        await world.reach("running")


async def test_a_second_batch_waits_for_the_end_of_the_first(world):
    await world.series(batch_max_runs=1)
    async with world.orchestrating():
        await world.finish("T1")
        await world.reach("running")
        await world.finish("T2")
        await world.handled()
        await world.reach("running", "queued")
        first, second = await world.dreams()
        await world.end(first["id"])
        await world.reach("finished", "running")
        await world.tells("dream.requested", 2)
    assert [each.data["dream_id"] for each in await world.told("dream.requested")] == [
        str(first["id"]),
        str(second["id"]),
    ]
    assert (await world.dreams())[1]["span"].lower == first["span"].upper


async def test_the_end_of_a_dream_starts_the_next_one_without_waiting_for_the_timer(world):
    await world.series(batch_max_runs=1)
    made = orchestrator_of(world)
    for task in ("T1", "T2"):
        told = TaskFinished(
            platform="tobatsu", series="kamila", task_id=task, status="failed", finished_at=AT
        )
        await made.task_finished(event("task.finished", told, key=task, at=AT).to_bytes())
    first, _ = await world.dreams()
    await world.end(first["id"])
    (ended,) = await world.told("dream.finished")
    await made.dream_ended(ended.to_bytes())
    assert await world.statuses() == ["finished", "running"]


async def test_one_series_does_not_wait_for_another(world):
    await world.series("kamila", batch_max_runs=1)
    await world.series("natasha", batch_max_runs=1)
    async with world.orchestrating():
        await world.finish("T1", series="kamila")
        await world.finish("T1", series="natasha")
        await world.reach("running", "running")


async def test_a_paused_series_collects_and_starts_nothing(world):
    await world.series(batch_max_runs=1, paused_at=AT)
    async with world.orchestrating():
        await world.finish("T1")
        await world.handled()
        await world.reach("queued")
        await world.series(paused_at=None)
        await world.reach("running")


async def test_a_dream_whose_request_was_never_stored_is_announced_by_the_sweep(world):
    dream = await world.running_dream()
    async with world.orchestrating():
        (request,) = await world.tells("dream.requested")
    assert request.id == f"{dream}/s0_requested/1"


async def test_a_dream_that_is_announced_is_not_announced_again(world):
    await world.running_dream()
    made = orchestrator_of(world)
    for _ in range(3):
        await made.sweep()
    assert len(await world.told()) == 1


async def test_a_step_whose_event_was_never_stored_gets_its_message_again_so_that_its_worker_tells(world):
    dream = await world.running_dream()
    async with world.resources.db.acquire() as db:
        for stage in STAGES[:3]:
            await dreams.mark_step(db, dream, stage.name, AT)
    async with world.orchestrating():
        (again,) = await world.tells("dream.extracted")
    assert [each.type for each in await world.told()] == ["yume.dream.extracted"]
    assert again.id == f"{dream}/s3_classify/1/again"


async def test_a_dream_that_was_put_off_is_announced_when_it_is_due_and_not_before(world):
    dream = await world.running_dream()
    made = orchestrator_of(world)
    await made.sweep()
    async with world.resources.db.acquire() as db:
        assert await dreams.put_off(db, dream, world.resources.now() + timedelta(hours=1))
    await made.sweep()
    assert len(await world.told()) == 1
    await world.query("UPDATE yume.dream_runs SET not_before = now() WHERE id = $1", dream)
    await made.sweep()
    assert [each.data["attempt"] for each in await world.told("dream.requested")] == [1, 2]
    (row,) = await world.dreams()
    assert (row["announced"], row["not_before"]) == ("s0_requested", None)


async def test_a_stalled_dream_is_announced_again_as_a_new_attempt(world):
    dream = await world.running_dream()
    made = orchestrator_of(world, stall_after=timedelta(minutes=2))
    await made.sweep()
    await made.sweep()
    assert len(await world.told()) == 1
    await world.query(
        "UPDATE yume.dream_runs SET heartbeat_at = now() - interval '3 minutes' WHERE id = $1", dream
    )
    await made.sweep()
    await made.sweep()
    assert [each.id for each in await world.told()] == [f"{dream}/s0_requested/1", f"{dream}/s0_requested/2"]


async def test_a_dream_past_its_deadline_fails_and_is_told_and_the_next_one_starts(world, monkeypatch):
    monkeypatch.setattr(orchestrator, "UNTOLD_AFTER", timedelta(0))
    await world.series(batch_max_runs=1)
    measuring = dataclasses.replace(world.resources, zone="measure")
    async with (
        world.orchestrating(),
        worker.serving(STAGES[-1:], resources=measuring, nats_url=world.nats_url, ack_wait_s=30),
    ):
        await world.finish("T1")
        await world.finish("T2")
        await world.reach("running", "queued")
        late, _ = await world.dreams()
        await world.query("UPDATE yume.dream_runs SET deadline = now() WHERE id = $1", late["id"])
        await world.reach("failed", "running")
        (told,) = await world.tells("dream.failed")

        async def noted():
            return (await world.dreams())[0]["announced"] == "s9_measure"

        await until(noted)
        await world.handled("s9_measure", "dream")
    assert told.data["reason"] == "the dream's deadline has passed"
    assert told.data["dream_id"] == str(late["id"])
    assert len(await world.told("dream.failed")) == 1


async def test_a_wiped_nats_is_filled_again_from_postgres(database, server_folder):
    server = NatsServer(server_folder / f"nats-{new_id()}").start()
    try:
        async with jetstream.connect(server.url, name="test") as js:
            async with database.acquire() as db:
                await access.add_platform(
                    db, Platform(PlatformId("tobatsu"), "http://127.0.0.1:1", None, None, {})
                )
            world = World(js, server.url, database)
            dream = await world.running_dream()
            async with world.orchestrating(stall_after_s=1):
                await world.tells("dream.requested")
                server.kill()
                shutil.rmtree(server.folder / "jetstream")
                server.start()

                async def back():
                    try:
                        return await js.check(topology()) == [] and await world.told("dream.requested")
                    except (TransientError, KeyError):
                        return False

                await until(back)
                await world.series(batch_max_runs=1)
                await world.finish("T9")
                await world.reach("running", "queued")
            assert {each.data["dream_id"] for each in await world.told("dream.requested")} == {str(dream)}
    finally:
        server.stop()


async def test_a_sweep_that_fails_is_tried_again(world, monkeypatch):
    store, faults = JetStream.store, [TransientError("NATS is away")] * 2

    async def sometimes(js, told):
        if faults:
            raise faults.pop()
        await store(js, told)

    monkeypatch.setattr(JetStream, "store", sometimes)
    await world.running_dream()
    with capture_logs() as logs:
        async with world.orchestrating():
            await world.tells("dream.requested")
    assert [line["event"] for line in logs].count("sweep_failed") == 2


async def test_a_bug_in_the_sweep_ends_the_orchestrator_and_does_not_vanish(world, monkeypatch):
    async def broken(db, now):
        raise ZeroDivisionError

    monkeypatch.setattr(batches, "overdue_batches", broken)
    async with world.orchestrating() as (_, watching):
        with pytest.raises(ZeroDivisionError):
            await watching


async def test_nothing_is_lost_when_the_orchestrator_comes_after_its_tasks(world):
    await world.series(batch_max_runs=2)
    for task in ("T1", "T2", "T3"):
        await world.finish(task)
    async with world.orchestrating():
        await world.reach("running", "collecting")
    assert [len(await world.tasks_of(row["id"])) for row in await world.dreams()] == [2, 1]
