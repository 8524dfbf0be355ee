from __future__ import annotations

import asyncio
import dataclasses
import json
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from yume import jetstream
from yume.errors import PermanentError, TransientError
from yume.events import RunBatch, event
from yume.ids import new_id
from yume.jetstream import Difference, load, stream_of
from yume.local.nats import NatsServer
from yume.pipeline import STAGES, STREAM
from yume.settings import contracts

AT = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)


def topology(*, replicas=1, ack_wait_s=30):
    return load(contracts("streams"), replicas=replicas, ack_wait_s=ack_wait_s)


def with_stream(name, **changed):
    whole = topology()
    return dataclasses.replace(whole, streams=whole.streams | {name: whole.streams[name] | changed})


def with_consumer(name, **changed):
    whole = topology()
    known = whole.consumers[name]
    row = dataclasses.replace(known, config=known.config | changed)
    return dataclasses.replace(whole, consumers=whole.consumers | {name: row})


def pulled(key):
    about = RunBatch(platform="tobatsu", series="kamila", dream_id=new_id())
    return event("dream.pulled", about, key=key, at=AT)


async def ask(js, what, body=None):
    answer = await js.client.request(f"$JS.API.{what}", json.dumps(body or {}).encode(), timeout=5)
    return json.loads(answer.data)


async def messages(js, stream):
    return (await ask(js, f"STREAM.INFO.{stream}"))["state"]["messages"]


@pytest.fixture
async def js(nats_url):
    """A connection to a server that holds nothing."""
    async with jetstream.connect(nats_url, name="test") as js:
        yield js
        for name in (await ask(js, "STREAM.NAMES"))["streams"] or []:
            await ask(js, f"STREAM.DELETE.{name}")


@pytest.fixture
async def applied(js):
    """A connection to a server that holds what the folder says."""
    await js.apply(topology())
    return js


async def test_apply_creates_what_is_missing_and_then_finds_nothing_to_do(js):
    whole = topology()
    assert await js.apply(whole) == sorted(f"created {name}" for name in [*whole.streams, *whole.consumers])
    assert await js.check(whole) == []
    assert await js.apply(whole) == []


async def test_apply_changes_a_live_setting_that_differs(applied):
    wanted = with_stream("tasks", max_age=86_400_000_000_000)
    assert await applied.apply(wanted) == ["updated tasks"]
    assert await applied.check(wanted) == []


async def test_apply_changes_a_consumer_that_differs(applied):
    wanted = with_consumer("s3_classify", max_deliver=7)
    assert await applied.apply(wanted) == ["updated s3_classify"]
    assert (await ask(applied, f"CONSUMER.INFO.{STREAM}.s3_classify"))["config"]["max_deliver"] == 7


async def test_check_names_each_difference_by_its_field(applied):
    wanted = with_consumer("s3_classify", max_deliver=7, ack_wait=5_000_000_000)
    assert await applied.check(wanted) == [
        Difference("s3_classify", "ack_wait", 5_000_000_000, 30_000_000_000),
        Difference("s3_classify", "max_deliver", 7, 20),
    ]


async def test_check_tells_what_is_missing(applied):
    await ask(applied, f"CONSUMER.DELETE.{STREAM}.s3_classify")
    assert await applied.check(topology()) == [Difference("s3_classify", "name", "s3_classify", None)]
    assert await applied.missing([(STREAM, "s2_extract"), (STREAM, "s3_classify")]) == ["s3_classify"]


async def test_a_limit_that_the_folder_does_not_want_is_a_difference_too(applied):
    await applied.apply(with_stream("lessons", max_age=86_400_000_000_000))
    assert await applied.check(topology()) == [Difference("lessons", "max_age", 0, 86_400_000_000_000)]


async def test_heal_creates_what_is_missing_and_never_changes_a_live_setting(applied):
    await applied.apply(with_stream("tasks", max_age=86_400_000_000_000))
    await ask(applied, "STREAM.DELETE.lessons")
    await ask(applied, f"CONSUMER.DELETE.{STREAM}.s3_classify")

    assert await applied.heal(topology()) == ["lessons", "s3_classify"]

    assert [each.name for each in await applied.check(topology())] == ["tasks"]
    assert await applied.heal(topology()) == []


async def test_two_that_heal_at_once_do_not_disturb_each_other(js):
    whole = topology()
    made = await asyncio.gather(js.heal(whole), js.heal(whole))
    assert set(made[0]) | set(made[1]) == {*whole.streams, *whole.consumers}
    assert await js.check(whole) == []


async def test_a_setting_that_the_server_refuses_is_a_permanent_error_with_its_reason(js):
    with pytest.raises(PermanentError, match=r"JetStream refused STREAM.CREATE.dead: replicas > 1 not supp"):
        await js.heal(topology(replicas=3))


def test_the_two_figures_of_a_deployment_come_from_its_settings():
    whole = topology(replicas=3, ack_wait_s=1.5)
    assert {config["num_replicas"] for config in whole.streams.values()} == {3}
    assert {row.config["num_replicas"] for row in whole.consumers.values()} == {3}
    assert {row.config["ack_wait"] for row in whole.consumers.values()} == {1_500_000_000}


def test_every_step_has_a_consumer_of_its_subject():
    filters = {
        name: row.config["filter_subject"]
        for name, row in topology().consumers.items()
        if row.stream == STREAM and name[0] == "s"
    }
    assert filters == {stage.name: f"yume.{stage.consumes}.*.*" for stage in STAGES}


def test_a_folder_without_streams_is_refused_by_its_name(tmp_path):
    with pytest.raises(PermanentError, match=f"no streams in {tmp_path}"):
        load(tmp_path, replicas=1, ack_wait_s=30)


def test_a_file_that_is_no_json_is_refused_by_its_name(tmp_path):
    (tmp_path / "tasks.json").write_text("{")
    with pytest.raises(PermanentError, match=r"tasks\.json: no JSON object"):
        load(tmp_path, replicas=1, ack_wait_s=30)


async def test_an_event_stored_twice_under_one_id_is_one_message(applied):
    told = pulled("one")
    await applied.store(told)
    await applied.store(told)
    assert await messages(applied, STREAM) == 1
    await applied.store(pulled("another"))
    assert await messages(applied, STREAM) == 2


@pytest.mark.parametrize(
    ("kind", "stream"),
    [
        ("task.finished", "tasks"),
        ("dream.requested", "dream"),
        ("lesson.published", "lessons"),
        ("measurement.recorded", "lessons"),
        ("slot.requested", "lessons"),
    ],
)
async def test_each_event_goes_into_the_stream_that_holds_its_subject(applied, kind, stream):
    told = event(kind, {"platform": "a.b", "series": "*"}, key="k", at=AT)
    await applied.store(told)
    assert stream_of(told) == stream
    assert await messages(applied, stream) == 1


async def test_a_subject_of_another_stream_is_a_transient_error_with_the_way_out(applied):
    with pytest.raises(
        TransientError, match=r"yume\.dream\.x in stream tasks.*`yume streams check`"
    ) as refused:
        await applied.store_bytes("yume.dream.x", b"{}", stream="tasks", key="k")
    assert refused.value.retry_in == timedelta(seconds=2)
    assert await messages(applied, "tasks") == await messages(applied, STREAM) == 0


async def test_a_missing_stream_is_a_transient_error_with_the_way_out(js):
    with pytest.raises(TransientError, match=r"in stream dream.*`yume streams check`"):
        await js.store(pulled("k"))


async def test_a_server_that_went_away_is_a_transient_error_and_a_later_try_succeeds(
    server_folder, monkeypatch
):
    monkeypatch.setattr(jetstream, "PUBLISH_TIMEOUT_S", 0.3)
    monkeypatch.setattr(jetstream, "API_TIMEOUT_S", 0.3)
    server = NatsServer(server_folder / f"nats-{new_id()}").start()
    async with AsyncExitStack() as stack:
        stack.callback(server.stop)
        js = await stack.enter_async_context(jetstream.connect(server.url, name="test"))
        await js.apply(topology())
        server.kill()
        with pytest.raises(TransientError, match="is the server up"):
            await js.store(pulled("k"))
        with pytest.raises(TransientError, match=r"JetStream did not answer STREAM\.INFO.*is the server up"):
            await js.check(topology())
        server.start()
        monkeypatch.undo()
        async with asyncio.timeout(20):
            while not await stored(js, "k"):
                pass
        assert await messages(js, STREAM) == 1


async def stored(js, key):
    try:
        await js.store(pulled(key))
    except TransientError:
        return False
    return True


async def test_a_client_that_comes_before_its_server_waits_for_it(server_folder):
    folder: Path = server_folder / f"nats-{new_id()}"
    server = NatsServer(folder).start()
    url = server.url
    server.stop()

    async def connected():
        async with jetstream.connect(url, name="test") as js:
            return await js.apply(topology())

    waiting = asyncio.create_task(connected())
    try:
        async with asyncio.timeout(20):
            with capture_logs() as logs:
                while "nats_error" not in {line["event"] for line in logs}:  # noqa: ASYNC110  # a log sets no event
                    await asyncio.sleep(0.01)
            server.start()
            assert "created dream" in await waiting
    finally:
        waiting.cancel()
        server.stop()
