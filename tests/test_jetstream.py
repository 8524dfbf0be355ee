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
from yume.local.nats import NatsServer
from yume.pipeline import STAGES, STREAM
from yume.settings import contracts
from yume.topology import Difference, load, stream_of

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


@pytest.fixture
def in_the_way(applied, nats_server):
    """Keep the server from making the folder of the stream `fresh` once, as a deletion not yet done does."""
    (streams,) = nats_server.folder.rglob("$G/streams")
    (streams / "fresh").symlink_to(streams / "nowhere" / "fresh")


def fresh():
    config = topology().streams["lessons"] | {"name": "fresh", "subjects": ["fresh.>"]}
    return dataclasses.replace(topology(), streams={"fresh": config}, consumers={})


async def test_a_stream_whose_old_files_are_still_being_cleared_away_is_made_after_that(js, in_the_way):
    assert await js.apply(fresh()) == ["created fresh"]


async def test_a_stream_whose_files_cannot_be_made_is_named_with_where_the_cause_stands(
    js, in_the_way, monkeypatch
):
    monkeypatch.setattr(jetstream, "_STORE_TRIES", 1)
    with pytest.raises(TransientError, match=r"files of stream fresh in 1 tries.*own log names"):
        await js.apply(fresh())


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

    gone_with_it = {name for name, row in topology().consumers.items() if row.stream == "lessons"}
    assert set(await applied.heal(topology())) == {"lessons", "s3_classify"} | gone_with_it

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


# What is stored


@pytest.fixture
async def thousand(applied):
    """A connection to a server whose `tasks` hold 1,000 messages of ten series, in order."""
    context = applied.client.jetstream()
    for number in range(1_000):
        await context.publish(f"yume.task.finished.p.s{number % 10}", b"%d" % number)
    return applied


async def bodies(js, stream="tasks", **wanted):
    return [int(each.body) async for each in js.stored(stream, **wanted)]


async def test_every_message_of_a_stream_comes_once_and_in_order(thousand):
    found = [each async for each in thousand.stored("tasks")]
    assert [int(each.body) for each in found] == list(range(1_000))
    assert [each.sequence for each in found] == list(range(1, 1_001))
    assert [each.stored_at for each in found] == sorted(each.stored_at for each in found)
    assert found[7].subject == "yume.task.finished.p.s7"


async def test_reading_leaves_no_consumer_behind_wherever_it_stops(thousand):
    before = (await ask(thousand, "STREAM.INFO.tasks"))["state"]["consumer_count"]
    async for each in thousand.stored("tasks"):
        if each.sequence == 5:
            break
    assert (await ask(thousand, "STREAM.INFO.tasks"))["state"]["consumer_count"] == before


async def test_what_was_removed_leaves_a_gap_that_is_stepped_over(thousand):
    gone = {1, 2, 3, *range(400, 500), 777, 1_000}
    for sequence in gone:
        assert await thousand.remove("tasks", sequence)
    kept = [number for number in range(1_000) if number + 1 not in gone]
    assert await bodies(thousand) == kept
    nines = [number for number in kept if number % 10 == 9]
    assert await bodies(thousand, subject="yume.task.finished.p.s9") == nines


async def test_a_filter_takes_its_subjects_only(thousand):
    assert await bodies(thousand, subject="yume.task.finished.p.s3") == list(range(3, 1_000, 10))
    assert await bodies(thousand, subject="yume.task.*.*.s3") == list(range(3, 1_000, 10))
    assert len(await bodies(thousand, subject="yume.task.>")) == 1_000
    assert await bodies(thousand, subject="yume.task.finished.another.*") == []


async def test_since_leaves_out_what_was_stored_before(thousand):
    for first in (0, 1, 499, 998, 999):
        since = (await thousand.message("tasks", first + 1)).stored_at
        found = [each async for each in thousand.stored("tasks", since=since)]
        assert found[0].stored_at >= since
        assert [int(each.body) for each in found][-1:] == [999]
        assert found[0].sequence in {first, first + 1}  # two may have been stored in one microsecond


async def test_since_finds_its_place_among_gaps_and_with_a_filter(thousand):
    since = (await thousand.message("tasks", 451)).stored_at
    for sequence in [1, *range(300, 600), 1_000]:
        await thousand.remove("tasks", sequence)
    assert await bodies(thousand, since=since) == list(range(599, 999))
    assert await bodies(thousand, since=since, subject="yume.task.*.*.s0") == list(range(600, 999, 10))


async def test_since_beyond_the_last_message_or_before_the_first_is_no_special_case(thousand):
    last = (await thousand.message("tasks", 1_000)).stored_at
    assert await bodies(thousand, since=last + timedelta(microseconds=1)) == []
    assert len(await bodies(thousand, since=AT - timedelta(days=3_000))) == 1_000


async def test_reading_ends_at_what_was_the_last_message_when_it_began(applied):
    for key in ("a", "b"):
        await applied.store(pulled(key))
    seen = []
    async for each in applied.stored(STREAM):
        seen.append(each.headers["Nats-Msg-Id"])
        await applied.store(pulled(f"after {each.sequence}"))
    assert seen == ["a", "b"]
    assert await messages(applied, STREAM) == 4


async def test_reading_with_a_filter_ends_there_too(applied):
    context = applied.client.jetstream()
    for series in ("s", "another"):
        await context.publish(f"yume.task.finished.p.{series}", b"1")
    seen = []
    async for each in applied.stored("tasks", subject="yume.task.*.*.s"):
        seen.append(each.sequence)
        await context.publish("yume.task.finished.p.s", b"1")
    assert seen == [1]


async def test_a_message_has_its_headers_and_the_bytes_that_were_published(applied):
    body = bytes(range(256))
    told = {"Yume-Reason": "a: b", "Yume-Tries": "5"}
    await applied.store_bytes("yume.dead.tasks.x", body, stream="dead", key="k", headers=told)
    found = await applied.message("dead", 1)
    assert found.body == body
    assert found.headers == {
        "Nats-Msg-Id": "k",
        "Nats-Expected-Stream": "dead",
        "Content-Type": "application/cloudevents+json",
        **told,
    }
    assert found.stored_at.utcoffset() == timedelta(0)


async def test_a_message_of_the_largest_size_can_be_read_and_one_without_a_body_too(applied):
    body = b"x" * 1_048_000
    await applied.client.jetstream().publish("yume.task.finished.p.s", body)
    await applied.client.jetstream().publish("yume.task.finished.p.s", b"")
    assert [each.body async for each in applied.stored("tasks")] == [body, b""]


async def test_an_empty_stream_gives_nothing_before_and_after_it_held_something(applied):
    assert await bodies(applied) == await bodies(applied, since=AT) == []
    await applied.client.jetstream().publish("yume.task.finished.p.s", b"1")
    assert await applied.remove("tasks", 1)
    assert await bodies(applied) == await bodies(applied, since=AT) == []


async def test_what_is_not_there_is_neither_found_nor_removed(applied):
    assert await applied.message("tasks", 1) is None
    assert not await applied.remove("tasks", 1)
    await applied.client.jetstream().publish("yume.task.finished.p.s", b"1")
    assert await applied.remove("tasks", 1)
    assert not await applied.remove("tasks", 1)
    assert not await applied.remove("tasks", 77)


async def test_two_that_remove_one_message_at_once_are_not_both_told_that_they_did(applied):
    await applied.client.jetstream().publish("yume.task.finished.p.s", b"1")
    removed = await asyncio.gather(*(applied.remove("tasks", 1) for _ in range(5)))
    assert sorted(removed) == [False] * 4 + [True]


async def test_a_stream_that_is_not_there_is_named_with_the_way_out(js):
    says = r"no stream tasks: `yume streams apply`"
    with pytest.raises(PermanentError, match=says):
        await bodies(js)
    with pytest.raises(PermanentError, match=says):
        await js.message("tasks", 1)
    with pytest.raises(PermanentError, match=says):
        await js.remove("tasks", 1)


async def test_the_backlog_counts_what_waits_and_what_is_under_way(applied):
    whole = topology()
    assert await applied.backlog(whole) == dict.fromkeys(whole.consumers, 0)
    for key in ("a", "b", "c"):
        await applied.store(pulled(key))
    reader = await applied.client.jetstream().pull_subscribe_bind("s2_extract", STREAM)
    done, _ = await reader.fetch(2, timeout=5)
    await done.ack_sync()
    assert (await applied.backlog(whole))["s2_extract"] == 2
    await ask(applied, f"CONSUMER.DELETE.{STREAM}.s3_classify")
    assert set(await applied.backlog(whole)) == {*whole.consumers} - {"s3_classify"}


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
