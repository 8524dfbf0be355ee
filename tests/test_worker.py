from __future__ import annotations

import asyncio
import dataclasses
import json
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from yume import jetstream, settle, steps, worker
from yume.clients.http import Limits
from yume.errors import PermanentError, StepTakenError, TransientError
from yume.events import REASON_HEADER, Event, RunBatch, event
from yume.ids import DreamId, PlatformId, new_id
from yume.jetstream import JetStream
from yume.local.postgres import Postgres
from yume.pipeline import STAGES, Stage
from yume.resources import Resources
from yume.settings import contracts
from yume.steps import StepHandler
from yume.store import access, batches, dreams, migrations
from yume.store.access import Platform
from yume.store.database import open_database
from yume.topology import load
from yume.worker import select

NOW = datetime(2025, 5, 1, 12, tzinfo=UTC)


class Steps:
    """The first two steps of the pipeline with stubs for their work, which mark the step."""

    def __init__(self):
        self.ran = []
        self.before_mark = []  # what happens in a run before the step is marked, one a run
        self.after_mark = []

    async def run(self, stage, batch, resources):
        self.ran.append((stage, str(batch.dream_id)))
        async with resources.db.acquire() as db:
            fence = (await dreams.dream_of(db, DreamId(batch.dream_id))).fence
        await self.next_of(self.before_mark)
        async with resources.db.acquire() as db, db.transaction():
            await dreams.mark_step(db, DreamId(batch.dream_id), stage, resources.now(), fence=fence)
        await self.next_of(self.after_mark)

    async def next_of(self, ends):
        end = ends.pop(0) if ends else None
        if isinstance(end, Exception):
            raise end
        if end is not None:
            await end()

    def stage(self, original: Stage) -> Stage:
        async def run(batch, resources, /):
            await self.run(original.name, batch, resources)

        return dataclasses.replace(original, run=run)

    @property
    def stages(self):
        return [self.stage(original) for original in STAGES[:2]]


class World:
    """A database, a server with its streams, and the two workers' view of both."""

    def __init__(self, js, nats_url, database):
        self.js = js
        self.nats_url = nats_url
        self.resources = Resources("ingest", database, Limits(), allow_http=True)
        self.steps = Steps()

    async def running_dream(self, series="kamila") -> RunBatch:
        """A dream that has just been started, and whose request is not stored yet."""
        async with self.resources.db.acquire() as db:
            await access.add_platform(
                db, Platform(PlatformId("tobatsu"), "http://127.0.0.1:1", None, None, {})
            )
            known = await access.series_named(db, "tobatsu", series)
            dream = await batches.collecting(db, known.id, "callback", NOW)
            await batches.announce_run(
                db, known.id, dream, task_id="T1", status="failed", finished_at=NOW, now=NOW
            )
            await batches.close_batch(db, dream, batch_id=None, now=NOW)
            assert await batches.start_next(db, known.id, self.resources.now()) == dream
        return RunBatch(platform="tobatsu", series=series, dream_id=dream)

    async def request(self, batch, key=None):
        key = key or f"{batch.dream_id}/s0_requested/{batch.attempt}"
        await self.js.store(event("dream.requested", batch, key=key, at=NOW))

    def serving(self, stages=None, *, ack_wait_s=30):
        return worker.serving(
            stages or self.steps.stages,
            resources=self.resources,
            nats_url=self.nats_url,
            ack_wait_s=ack_wait_s,
        )

    async def ask(self, what):
        return json.loads((await self.js.client.request(f"$JS.API.{what}", b"{}")).data)

    async def row(self, batch):
        async with self.resources.db.acquire() as db:
            return await db.fetchrow("SELECT * FROM yume.dream_runs WHERE id = $1", batch.dream_id)

    async def at(self, batch, announced):
        """Wait until the row says that this step's event is stored."""

        async def there():
            return (await self.row(batch))["announced"] == announced

        await until(there)

    async def idle(self, durable, count=1):
        """Wait until so many messages of a durable are settled, and none is pending."""

        async def there():
            info = await self.ask(f"CONSUMER.INFO.dream.{durable}")
            settled = (
                info["delivered"]["stream_seq"] and not info["num_ack_pending"] and not info["num_pending"]
            )
            return settled and info["delivered"]["consumer_seq"] >= count

        await until(there)

    async def stored(self, stream="dream"):
        """Return all events of a stream, oldest first, or the headers of the dead stream."""
        context = self.js.client.jetstream()
        last = (await self.ask(f"STREAM.INFO.{stream}"))["state"]["last_seq"]
        return [await context.get_msg(stream, number) for number in range(1, last + 1)]

    async def types(self):
        return [Event.model_validate_json(each.data).type for each in await self.stored()]


async def until(state, timeout_s=30):
    async with asyncio.timeout(timeout_s):
        while not await state():  # noqa: ASYNC110  # the state is a server's, which sets no event here
            await asyncio.sleep(0.01)


def topology():
    return load(contracts("streams"), replicas=1, ack_wait_s=30)


@asynccontextmanager
async def a_world(nats_url, database):
    async with jetstream.connect(nats_url, name="test") as js:
        await js.apply(topology())
        world = World(js, nats_url, database)
        yield world
        for name in (await world.ask("STREAM.NAMES"))["streams"]:
            await world.ask(f"STREAM.DELETE.{name}")


@pytest.fixture
async def world(nats_url, database):
    async with a_world(nats_url, database) as world:
        yield world


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(settle, "BACKOFF_S", (0.05, 0.1, 0.2, 0.4))


async def test_a_step_runs_is_marked_and_announced_and_only_then_acked(world, monkeypatch):
    seen = []
    store = JetStream.store

    async def spy(js, told):
        info = await world.ask("CONSUMER.INFO.dream.s1_pull")
        row = await world.row(batch)
        seen.append((told.type, row["step"], row["announced"], info["num_ack_pending"]))
        await store(js, told)

    batch = await world.running_dream()
    await world.request(batch)
    monkeypatch.setattr(JetStream, "store", spy)
    async with world.serving(world.steps.stages[:1]):
        await world.at(batch, "s1_pull")
        await world.idle("s1_pull")
    assert world.steps.ran == [("s1_pull", str(batch.dream_id))]
    assert seen == [("yume.dream.pulled", "s1_pull", None, 1)]


async def test_each_step_hands_over_to_the_next(world):
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving():
        await world.at(batch, "s2_extract")
    assert [step for step, _ in world.steps.ran] == ["s1_pull", "s2_extract"]
    assert await world.types() == ["yume.dream.requested", "yume.dream.pulled", "yume.dream.extracted"]


async def test_a_crash_between_commit_and_publish_is_announced_without_running_again(
    world, monkeypatch, quick
):
    store, faults = JetStream.store, [ConnectionResetError("crash"), ConnectionResetError("crash")]

    async def crash(js, told):
        if told.type == "yume.dream.pulled" and faults:
            raise faults.pop()
        await store(js, told)

    monkeypatch.setattr(JetStream, "store", crash)
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving(world.steps.stages[:1]):
        await world.at(batch, "s1_pull")
        await world.idle("s1_pull", 3)
    assert faults == []
    assert len(world.steps.ran) == 1
    assert await world.types() == ["yume.dream.requested", "yume.dream.pulled"]


async def test_a_crash_between_publish_and_ack_stores_no_second_event(world, monkeypatch, quick):
    mark, faults = dreams.mark_announced, [ConnectionResetError("crash")]

    async def crash(*arguments):
        if faults:
            raise faults.pop()
        await mark(*arguments)

    monkeypatch.setattr(dreams, "mark_announced", crash)
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving(world.steps.stages[:1]):
        await world.at(batch, "s1_pull")
        await world.idle("s1_pull", 2)
    assert len(world.steps.ran) == 1
    assert await world.types() == ["yume.dream.requested", "yume.dream.pulled"]


async def test_a_crash_before_commit_runs_the_step_again(world, quick):
    world.steps.before_mark = [ConnectionResetError("crash")]
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving(world.steps.stages[:1]):
        await world.at(batch, "s1_pull")
    assert len(world.steps.ran) == 2


async def test_an_old_duplicate_changes_nothing_and_publishes_nothing(world):
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving():
        await world.at(batch, "s2_extract")
        before = await world.row(batch)
        await world.request(batch, key="a copy after the dedup window")
        await world.idle("s1_pull", 2)
    assert await world.row(batch) == before
    assert len(world.steps.ran) == 2
    assert (await world.types()).count("yume.dream.pulled") == 1


async def test_a_message_that_runs_ahead_of_its_dream_changes_nothing(world):
    batch = await world.running_dream()
    await world.js.store(event("dream.pulled", batch, key="ahead", at=NOW))
    async with world.serving():
        await world.idle("s2_extract")
    assert world.steps.ran == []
    assert (await world.row(batch))["step"] is None


async def test_a_failed_dream_is_told_once_with_its_reason(world):
    world.steps.before_mark = [PermanentError("41 of 60 records break the contract")]
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving():
        await world.at(batch, "s9_measure")
        await world.request(batch, key="a copy after the dedup window")
        await world.idle("s1_pull", 2)
    row = await world.row(batch)
    assert (row["status"], row["step"]) == ("failed", None)
    assert row["error"] == "PermanentError: 41 of 60 records break the contract"
    told = [Event.model_validate_json(each.data) for each in await world.stored()]
    assert [each.data["reason"] for each in told if each.type == "yume.dream.failed"] == [row["error"]]
    (dead,) = await world.stored("dead")
    assert dead.headers[REASON_HEADER] == row["error"]


async def test_a_failure_that_could_not_be_told_is_told_on_redelivery(world, monkeypatch, quick):
    store, faults = JetStream.store, [TransientError("NATS is away")]

    async def crash(js, told):
        if told.type == "yume.dream.failed" and faults:
            raise faults.pop()
        await store(js, told)

    monkeypatch.setattr(JetStream, "store", crash)
    world.steps.before_mark = [PermanentError("broken")]
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving():
        await world.at(batch, "s9_measure")
        await world.idle("s1_pull", 2)
    assert (await world.types()).count("yume.dream.failed") == 1
    assert len(await world.stored("dead")) == 1


async def test_a_step_that_fails_five_times_fails_its_dream(world, quick):
    world.steps.before_mark = [ZeroDivisionError("bug")] * 5
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving():
        await world.at(batch, "s9_measure")
    assert (await world.row(batch))["error"].startswith(
        "failed 5 times, last: ZeroDivisionError at test_worker"
    )


async def test_a_message_about_no_dream_is_buried(world):
    await world.request(RunBatch(platform="tobatsu", series="kamila", dream_id=new_id()))
    async with world.serving():
        await world.idle("s1_pull")
    (dead,) = await world.stored("dead")
    assert "tobatsu/kamila has no dream" in dead.headers[REASON_HEADER]


async def test_a_dream_cannot_be_run_or_failed_under_another_series_name(world):
    batch = await world.running_dream()
    await world.request(batch.model_copy(update={"platform": "evil", "series": "other"}))
    async with world.serving():
        await world.idle("s1_pull")
    (dead,) = await world.stored("dead")
    assert "evil/other has no dream" in dead.headers[REASON_HEADER]
    row = await world.row(batch)
    assert (row["status"], row["step"], row["error"]) == ("running", None, None)


async def test_a_message_on_anothers_subject_cannot_fail_a_dream(world):
    batch = await world.running_dream()
    stranger = event("dream.requested", batch, key="k", at=NOW)
    await world.js.client.jetstream().publish("yume.dream.requested.stranger.s", stranger.to_bytes())
    async with world.serving():
        await world.idle("s1_pull")
    assert len(await world.stored("dead")) == 1
    assert (await world.row(batch))["status"] == "running"
    assert world.steps.ran == []


async def test_two_workers_on_one_durable_share_the_work_and_run_each_step_once(world):
    batches = [await world.running_dream(f"series-{number}") for number in range(8)]
    async with world.serving(), world.serving():
        for batch in batches:
            await world.request(batch)
        for batch in batches:
            await world.at(batch, "s2_extract")
    assert set(Counter(world.steps.ran).values()) == {1}
    assert len(world.steps.ran) == 16


def handler_of(world, *, lease_s):
    return StepHandler(world.steps.stages[0], world.resources, world.js, timedelta(seconds=lease_s))


async def test_while_one_has_a_step_another_is_told_to_come_back(world):
    batch = await world.running_dream()
    body = event("dream.requested", batch, key="k", at=NOW).to_bytes()
    handler = handler_of(world, lease_s=20)

    async def second_comes():
        with pytest.raises(TransientError, match="another worker has step s1_pull") as refused:
            await handler(body)
        assert timedelta(seconds=15) < refused.value.retry_in <= timedelta(seconds=20)

    world.steps.before_mark = [second_comes]
    await handler(body)
    assert len(world.steps.ran) == 1
    assert await world.types() == ["yume.dream.pulled"]
    row = await world.row(batch)
    assert (row["announced"], row["lease_holder"]) == ("s1_pull", None)


async def test_one_that_stood_still_longer_than_its_lease_saves_nothing(world, monkeypatch):
    async def no_sign(*arguments, **times):
        """Stand still altogether, as a process does that was stopped."""

    monkeypatch.setattr(dreams, "beat", no_sign)
    batch = await world.running_dream()
    body = event("dream.requested", batch, key="k", at=NOW).to_bytes()
    fences = []

    async def overtaken():
        await asyncio.sleep(0.2)  # the lease of a tenth of a second is over
        await handler_of(world, lease_s=20)(body)
        fences.append((await world.row(batch))["fence"])

    world.steps.before_mark = [overtaken]
    with capture_logs() as logs:
        await handler_of(world, lease_s=0.1)(body)
    fences.append((await world.row(batch))["fence"])
    assert fences == [2, 2]
    assert [each["event"] for each in logs].count("step_taken") == 1
    assert await world.types() == ["yume.dream.pulled"]


async def test_a_step_that_fails_gives_its_lease_back(world):
    batch = await world.running_dream()
    body = event("dream.requested", batch, key="k", at=NOW).to_bytes()
    world.steps.before_mark = [TransientError("busy")]
    handler = handler_of(world, lease_s=20)
    with pytest.raises(TransientError, match="busy"):
        await handler(body)
    assert (await world.row(batch))["lease_holder"] is None
    await handler(body)
    assert len(world.steps.ran) == 2


async def test_a_step_whose_dream_ended_meanwhile_saves_and_announces_nothing(world):
    batch = await world.running_dream()

    async def end():
        async with world.resources.db.acquire() as db:
            await dreams.fail(db, DreamId(batch.dream_id), "the dream's deadline has passed", NOW)

    world.steps.before_mark = [end]
    await world.request(batch)
    async with world.serving(world.steps.stages[:1]):
        await world.idle("s1_pull")
    row = await world.row(batch)
    assert (row["status"], row["step"], row["announced"]) == ("failed", None, None)
    assert await world.types() == ["yume.dream.requested"]
    assert await world.stored("dead") == []


async def test_a_step_that_somebody_else_took_is_announced_and_acked(world):
    world.steps.after_mark = [StepTakenError("taken")]
    batch = await world.running_dream()
    await world.request(batch)
    async with world.serving(world.steps.stages[:1]):
        await world.at(batch, "s1_pull")
        await world.idle("s1_pull")
    assert await world.types() == ["yume.dream.requested", "yume.dream.pulled"]


async def test_a_long_wait_is_noted_on_the_row_and_the_message_is_acked(world):
    world.steps.before_mark = [TransientError("quota", retry_in=timedelta(hours=1))]
    batch = await world.running_dream()
    await world.request(batch)
    before = world.resources.now()
    async with world.serving(world.steps.stages[:1]):
        await world.idle("s1_pull")
    row = await world.row(batch)
    assert before + timedelta(hours=1) <= row["not_before"] <= world.resources.now() + timedelta(hours=1)
    assert (row["status"], row["attempt"], row["announced"]) == ("running", 2, None)
    assert await world.stored("dead") == []


async def test_the_row_shows_that_a_step_is_being_worked_on_even_after_a_missed_beat(world, monkeypatch):
    monkeypatch.setattr(steps, "BEAT_S", 0.02)
    beat, faults = dreams.beat, [PermanentError("Postgres refused"), TransientError("Postgres is away")]

    async def sometimes(*arguments, **times):
        if faults:
            raise faults.pop()
        await beat(*arguments, **times)

    monkeypatch.setattr(dreams, "beat", sometimes)
    batch = await world.running_dream()

    async def work():
        started = (await world.row(batch))["heartbeat_at"]  # when the lease was taken

        async def moved():
            return (await world.row(batch))["heartbeat_at"] > started

        await until(moved)

    world.steps.before_mark = [work]
    await world.request(batch)
    async with world.serving(world.steps.stages[:1]):
        await world.at(batch, "s1_pull")
    assert faults == []


async def test_a_worker_waits_for_its_durable_and_makes_none(nats_url, database):
    async with jetstream.connect(nats_url, name="test") as js:
        world = World(js, nats_url, database)
        batch = await world.running_dream()

        async def serve():
            async with world.serving():
                await world.at(batch, "s2_extract")

        asked = await js.client.subscribe("$JS.API.CONSUMER.INFO.dream.s1_pull")
        serving = asyncio.create_task(serve())
        for _ in range(2):  # it asks again and again
            await asked.next_msg(timeout=20)
        assert (await world.ask("STREAM.NAMES"))["total"] == 0
        await js.apply(topology())
        await world.request(batch)
        async with asyncio.timeout(30):
            await serving
        for name in topology().streams:
            await world.ask(f"STREAM.DELETE.{name}")


@pytest.mark.parametrize("wiped", ["CONSUMER.DELETE.dream.s1_pull", "STREAM.DELETE.dream"])
async def test_a_running_worker_goes_on_when_what_was_deleted_is_healed(world, wiped):
    async with world.serving(world.steps.stages[:1]):
        first = await world.running_dream("first")
        await world.request(first)
        await world.at(first, "s1_pull")
        await world.ask(wiped)
        assert await world.js.heal(topology())
        second = await world.running_dream("second")
        await world.request(second)
        await world.at(second, "s1_pull")
    assert [dream for _, dream in world.steps.ran] == [str(first.dream_id), str(second.dream_id)]


async def test_a_postgres_that_goes_away_in_mid_step_costs_a_retry_and_no_dream(
    nats_url, server_folder, quick
):
    postgres = Postgres(server_folder / "postgres-of-worker").start()
    async with AsyncExitStack() as stack:
        stack.callback(postgres.stop)
        await migrations.migrate(postgres.url, Path("schemas/postgres"))
        database = await stack.enter_async_context(open_database(postgres.url, size=4))
        world = await stack.enter_async_context(a_world(nats_url, database))
        batch = await world.running_dream()

        async def outage():
            postgres.kill()

        world.steps.before_mark = [outage]
        await world.request(batch)
        # The lease could not be given back: the next try waits until it is over.
        async with world.serving(world.steps.stages[:1], ack_wait_s=3):

            async def failed_once():
                return (await world.ask("CONSUMER.INFO.dream.s1_pull"))["num_redelivered"]

            await until(failed_once)
            assert await world.stored("dead") == []
            postgres.start()
            await world.at(batch, "s1_pull")
    assert 1 < len(world.steps.ran) < 10


def test_a_short_name_is_enough_and_the_order_is_the_pipelines():
    assert [stage.name for stage in select(["s4", "s3_classify"])] == ["s3_classify", "s4_draft"]


def test_steps_of_two_zones_are_refused_with_their_names():
    with pytest.raises(PermanentError, match=r"in 2: \['gate', 'slot'\]"):
        select(["s7", "s8"])


def test_an_unknown_step_is_refused_with_the_names_there_are():
    with pytest.raises(PermanentError, match="no step is named 's0'; there are s1_pull, s2_extract"):
        select(["s1", "s0"])


def test_no_step_at_all_is_refused():
    with pytest.raises(PermanentError, match="name at least one step"):
        select([])
