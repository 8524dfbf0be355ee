from __future__ import annotations

import asyncio
import itertools
import json
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from yume import jetstream, settle
from yume.errors import ParkedError, PermanentError, TransientError
from yume.events import REASON_HEADER, TaskFinished, event
from yume.settings import contracts
from yume.topology import load

AT = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
STREAM, DURABLE = "tasks", "orchestrator_tasks"
RAW_TEXT = "the-raw-text-of-a-run"


def finished(task_id="T1", **changed):
    told = {"platform": "p", "series": "s", "task_id": task_id, "status": "failed", "finished_at": AT}
    return event("task.finished", TaskFinished(**(told | changed)), key=task_id, at=AT)


class Recorder:
    """An undertaker that remembers; `fault` is what it meets, `has_row` whether there is a row to note on."""

    def __init__(self, js):
        self.js = js
        self.fault = None
        self.has_row = False
        self.buried = []
        self.noted = []
        self.parked = []
        self.replayed = []

    async def bury(self, message, reason):
        if self.fault:
            raise self.fault
        if self.js:
            await settle.bury(self.js, message, reason)
        self.buried.append(reason)

    async def park(self, message, reason):
        self.parked.append(reason)

    async def replay(self, message, key):
        if self.fault:
            raise self.fault
        self.replayed.append((message.subject, key))

    async def put_off(self, message, delay):
        if self.fault:
            raise self.fault
        self.noted.append(delay)
        return self.has_row


class Handler:
    """Ends each delivery as told, the last way again and again; notes when each one came."""

    def __init__(self, *ends):
        self.ends = list(ends) or [None]
        self.came = []

    async def __call__(self, body):
        self.came.append(time.monotonic())
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, Exception):
            raise end
        if end is not None:
            await end()

    @property
    def gaps(self):
        return [after - before for before, after in itertools.pairwise(self.came)]


class Desk:
    """What a test looks at: the streams as the server tells them."""

    def __init__(self, js, url):
        self.js = js
        self.url = url
        self.undertaker = Recorder(js)

    async def ask(self, what, body=None):
        return json.loads(
            (await self.js.client.request(f"$JS.API.{what}", json.dumps(body or {}).encode())).data
        )

    async def consumer(self):
        return await self.ask(f"CONSUMER.INFO.{STREAM}.{DURABLE}")

    async def settled(self, count=1):
        """Wait until `count` messages are acked or terminated and none is pending; return the deliveries."""

        async def done():
            info = await self.consumer()
            if info["ack_floor"]["stream_seq"] >= count and not info["num_ack_pending"]:
                return info["delivered"]["consumer_seq"]
            return None

        return await until(done)

    async def dead(self):
        """Wait for a message in the dead stream; return its headers and its bytes."""

        async def found():
            state = (await self.ask("STREAM.INFO.dead"))["state"]
            return state["messages"] or None

        assert await until(found) == 1
        message = await self.js.client.jetstream().get_last_msg("dead", "yume.dead.>")
        return message.headers, message.data or b""

    @asynccontextmanager
    async def consuming(self, handler, *, heartbeat_s=10):
        broker = settle.open_broker(
            self.url,
            partial(settle.Settle, undertaker=self.undertaker, heartbeat_s=heartbeat_s),
            name="test",
        )
        settle.subscribe(
            broker, handler, filter_subject="yume.task.finished.*.*", stream=STREAM, durable=DURABLE
        )
        await broker.start()
        try:
            yield broker
        finally:
            await settle.stop(broker)


async def until(state, timeout_s=20):
    """Wait until a state holds; return what it gave."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = state()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)


@asynccontextmanager
async def desk_of(nats_url, ack_wait_s):
    async with jetstream.connect(nats_url, name="test") as js:
        await js.apply(load(contracts("streams"), replicas=1, ack_wait_s=ack_wait_s))
        desk = Desk(js, nats_url)
        yield desk
        for name in (await desk.ask("STREAM.NAMES"))["streams"]:
            await desk.ask(f"STREAM.DELETE.{name}")


@pytest.fixture
async def desk(nats_url):
    async with desk_of(nats_url, ack_wait_s=30) as desk:
        yield desk


@pytest.fixture
async def hasty_desk(nats_url):
    """A message comes again after one second of silence."""
    async with desk_of(nats_url, ack_wait_s=1) as desk:
        yield desk


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(settle, "BACKOFF_S", (0.05, 0.1, 0.2, 0.4))


async def test_a_message_whose_handler_returned_is_acked_once(desk):
    handler = Handler()
    await desk.js.store(finished())
    async with desk.consuming(handler):
        assert await desk.settled() == 1
    assert len(handler.came) == 1
    assert desk.undertaker.buried == []


async def test_a_permanent_error_ends_in_the_dead_stream_with_the_bytes_and_the_reason(desk):
    handler = Handler(PermanentError("task 7 has no series:\nadd it"))
    await desk.js.store(finished())
    async with desk.consuming(handler):
        headers, body = await desk.dead()
        assert await desk.settled() == 1
    assert body == finished().to_bytes()
    assert headers[REASON_HEADER] == "PermanentError: task 7 has no series: add it"
    assert headers["Yume-Subject"] == "yume.task.finished.p.s"
    assert (headers["Yume-Sequence"], headers["Yume-Tries"]) == ("1", "1")


async def test_what_only_a_person_can_decide_is_parked_and_acked_and_not_dead(desk):
    await desk.js.store(finished())
    async with desk.consuming(Handler(ParkedError("the budget of 40 calls is spent"))):
        assert await desk.settled() == 1
    assert desk.undertaker.parked == ["the budget of 40 calls is spent"]
    assert desk.undertaker.buried == []


async def stored_again(desk, **headers):
    told = finished()
    await desk.js.store_bytes(told.subject, told.to_bytes(), stream=STREAM, key="again", headers=headers)


async def test_a_message_that_asks_for_a_replay_is_not_handled_but_replayed(desk):
    handler = Handler()
    await stored_again(desk, **{"Yume-Replay": "monday"})
    async with desk.consuming(handler):
        assert await desk.settled() == 1
    assert desk.undertaker.replayed == [(finished().subject, "monday")]
    assert handler.came == []


@pytest.mark.parametrize("headers", [{}, {"Yume-Replay": ""}, {"Yume-Replays": "monday"}])
async def test_without_that_header_it_is_handled_as_ever(desk, headers):
    handler = Handler()
    await stored_again(desk, **headers)
    async with desk.consuming(handler):
        assert await desk.settled() == 1
    assert len(handler.came) == 1
    assert desk.undertaker.replayed == []


async def test_a_replay_that_cannot_be_asked_for_now_is_asked_for_again(desk):
    desk.undertaker.fault = TransientError("NATS is away", retry_in=timedelta(milliseconds=50))
    await stored_again(desk, **{"Yume-Replay": "monday"})
    async with desk.consuming(Handler()):
        await asyncio.sleep(0.02)
        desk.undertaker.fault = None
        assert await desk.settled() >= 1
    assert desk.undertaker.replayed == [(finished().subject, "monday")]


async def test_a_reason_in_chinese_stays_a_legal_header(desk):
    await desk.js.store(finished())
    async with desk.consuming(Handler(PermanentError("系列 " + "x" * 2000))):
        headers, _ = await desk.dead()
    assert headers[REASON_HEADER].startswith(r"PermanentError: \u7cfb\u5217 xxx")
    assert len(headers[REASON_HEADER]) < 1_100


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(RAW_TEXT.encode(), id="no JSON"),
        pytest.param(b"\xff\xfe\x00", id="no text"),
        pytest.param(json.dumps([RAW_TEXT]).encode(), id="no object"),
        pytest.param(json.dumps({"id": RAW_TEXT, "data": RAW_TEXT}).encode(), id="no envelope"),
        pytest.param(
            finished().model_copy(update={"data": {"task_id": RAW_TEXT}}).model_dump_json().encode(),
            id="about no series",
        ),
    ],
)
async def test_a_body_that_is_no_event_is_buried_unread_and_not_repeated_in_any_log(desk, body):
    handler = Handler()
    await desk.js.client.jetstream().publish("yume.task.finished.p.s", body)
    with capture_logs() as logs:
        async with desk.consuming(handler):
            headers, kept = await desk.dead()
            assert await desk.settled() == 1
    assert kept == body
    assert headers[REASON_HEADER].startswith("no event that is understood: ")
    assert RAW_TEXT not in headers[REASON_HEADER] + repr(logs)
    assert handler.came == []


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(finished(platform="other"), id="another platform"),
        pytest.param(finished(series="t"), id="another series"),
        pytest.param(
            event("dream.requested", {"platform": "p", "series": "s"}, key="k", at=AT), id="another type"
        ),
    ],
)
async def test_an_event_that_speaks_for_another_than_its_subject_is_buried(desk, told):
    handler = Handler()
    await desk.js.client.jetstream().publish("yume.task.finished.p.s", told.to_bytes())
    async with desk.consuming(handler):
        headers, _ = await desk.dead()
    assert "about another type, platform or series stood on yume.task.finished.p.s" in headers[REASON_HEADER]
    assert handler.came == []


async def test_a_body_too_large_for_the_dead_stream_leaves_its_place_there(desk):
    body = b" " * (1024 * 1024 - 200)
    await desk.js.client.jetstream().publish("yume.task.finished.p.s", body)
    async with desk.consuming(Handler()):
        headers, kept = await desk.dead()
        assert await desk.settled() == 1
    assert kept == b""
    assert (headers["Yume-Sequence"], headers["Yume-Bytes"]) == ("1", str(len(body)))


async def test_a_transient_error_is_delivered_again_after_its_delay_and_not_before(desk):
    handler = Handler(TransientError("busy", retry_in=timedelta(seconds=0.5)), None)
    await desk.js.store(finished())
    async with desk.consuming(handler):
        assert await desk.settled() == 2
    assert 0.5 <= handler.gaps[0] < 5
    assert desk.undertaker.buried == desk.undertaker.noted == []


async def test_while_one_message_waits_the_others_go_on(desk):
    handler = Handler(TransientError("busy", retry_in=timedelta(seconds=30)), None)
    for number in range(4):
        await desk.js.store(finished(f"T{number}"))
    async with desk.consuming(handler):
        await until(lambda: len(handler.came) == 4)
    assert (await desk.consumer())["num_ack_pending"] == 1


async def test_a_long_delay_waits_on_the_row_and_not_in_nats(desk):
    desk.undertaker.has_row = True
    await desk.js.store(finished())
    async with desk.consuming(Handler(TransientError("quota", retry_in=timedelta(hours=1)))):
        assert await desk.settled() == 1
    assert desk.undertaker.noted == [timedelta(hours=1)]
    assert desk.undertaker.buried == []


async def test_a_long_delay_without_a_row_waits_in_nats(desk, monkeypatch):
    monkeypatch.setattr(settle, "LONGEST_NAK", timedelta(seconds=0.1))
    handler = Handler(TransientError("quota", retry_in=timedelta(hours=1)), None)
    await desk.js.store(finished())
    async with desk.consuming(handler):
        assert await desk.settled() == 2
    assert desk.undertaker.buried == []


async def test_an_unexpected_error_is_tried_five_times_with_growing_delays_and_then_buried(desk, quick):
    handler = Handler(ValueError(RAW_TEXT))
    await desk.js.store(finished())
    with capture_logs() as logs:
        async with desk.consuming(handler):
            headers, body = await desk.dead()
            assert await desk.settled() == 5
    assert body == finished().to_bytes()
    assert headers[REASON_HEADER].startswith("failed 5 times, last: ValueError at test_settle.py:")
    assert [wait <= gap for wait, gap in zip((0.05, 0.1, 0.2, 0.4), handler.gaps, strict=True)] == [True] * 4
    assert RAW_TEXT not in headers[REASON_HEADER] + repr(logs)


async def test_an_unexpected_error_that_passes_leaves_no_trace(desk, quick):
    await desk.js.store(finished())
    async with desk.consuming(Handler(ValueError("once"), None)):
        assert await desk.settled() == 2
    assert desk.undertaker.buried == []


@pytest.mark.parametrize(
    "fault", [TransientError("no database"), PermanentError("refused"), RuntimeError("bug")], ids=repr
)
async def test_what_cannot_be_buried_is_not_given_up(desk, quick, fault):
    handler = Handler(PermanentError("never"))
    desk.undertaker.fault = fault
    await desk.js.store(finished())
    async with desk.consuming(handler):
        await until(lambda: len(handler.came) == 3)
        assert (await desk.consumer())["num_ack_pending"] == 1
        desk.undertaker.fault = None
        headers, _ = await desk.dead()
        await desk.settled()
    assert headers[REASON_HEADER] == "PermanentError: never"


async def test_while_the_dead_stream_is_away_nothing_is_given_up(desk, quick, monkeypatch):
    monkeypatch.setattr(jetstream, "PUBLISH_TIMEOUT_S", 0.2)
    await desk.ask("STREAM.DELETE.dead")
    handler = Handler(PermanentError("never"))
    await desk.js.store(finished())
    async with desk.consuming(handler):
        await until(lambda: len(handler.came) == 2)
        assert (await desk.consumer())["num_ack_pending"] == 1
        await desk.js.heal(load(contracts("streams"), replicas=1, ack_wait_s=30))
        await desk.dead()
        await desk.settled()


async def test_a_handler_longer_than_ack_wait_keeps_its_message_by_heartbeats(hasty_desk):
    handler = Handler(partial(asyncio.sleep, 2.5), None)
    await hasty_desk.js.store(finished())
    async with hasty_desk.consuming(handler, heartbeat_s=1 / 3), hasty_desk.consuming(handler):
        assert await hasty_desk.settled() == 1


async def test_without_heartbeats_it_would_lose_its_message(hasty_desk):
    handler = Handler(partial(asyncio.sleep, 2.5), None)
    await hasty_desk.js.store(finished())
    async with hasty_desk.consuming(handler, heartbeat_s=60), hasty_desk.consuming(handler):
        await until(lambda: len(handler.came) == 2)


async def test_a_heartbeat_that_fails_is_not_the_last(hasty_desk, monkeypatch):
    from faststream.nats.message import NatsMessage  # noqa: PLC0415  # the seam at which a beat is lost

    beats = []
    beat = NatsMessage.in_progress

    async def sometimes(self):
        beats.append(time.monotonic())
        if len(beats) == 1:
            raise ConnectionResetError(RAW_TEXT)
        await beat(self)

    monkeypatch.setattr(NatsMessage, "in_progress", sometimes)
    await hasty_desk.js.store(finished())
    with capture_logs() as logs:
        async with hasty_desk.consuming(Handler(partial(asyncio.sleep, 2)), heartbeat_s=0.2):
            assert await hasty_desk.settled() == 1
    assert len(beats) > 3
    assert [line["event"] for line in logs] == ["heartbeat_missed"]


async def test_no_heartbeat_outlives_its_message(desk):
    before = asyncio.all_tasks()
    await desk.js.store(finished())
    async with desk.consuming(Handler(PermanentError("never"))):
        await desk.dead()
        await desk.settled()
    assert {task.get_coro().__qualname__ for task in asyncio.all_tasks() - before} == set()


async def test_stopping_finishes_what_is_under_way(desk):
    going_on, may_end = asyncio.Event(), asyncio.Event()

    async def work():
        going_on.set()
        await may_end.wait()

    await desk.js.store(finished())
    async with desk.consuming(Handler(work)) as broker:
        await going_on.wait()
        stopping = asyncio.create_task(settle.stop(broker))
        done, _ = await asyncio.wait({stopping}, timeout=0.2)
        assert not done
        may_end.set()
        await stopping
    assert await desk.settled() == 1


async def test_what_is_cancelled_comes_back_at_once_and_not_after_ack_wait(desk, monkeypatch):
    monkeypatch.setattr(settle, "GRACE_S", 0.1)
    handler = Handler(partial(asyncio.sleep, 3600), None)
    await desk.js.store(finished())
    async with desk.consuming(handler):
        await until(lambda: handler.came)
    async with desk.consuming(handler):
        assert await desk.settled() == 2
    assert handler.gaps[0] < 10  # ack_wait is 30 s here


async def test_stopping_while_the_server_is_away_ends_without_an_error(server_folder):
    from yume.local.nats import NatsServer  # noqa: PLC0415  # a server of this test alone

    server = NatsServer(server_folder / "nats-away").start()
    try:
        async with desk_at(server.url) as (desk, broker):
            server.kill()
            await until(lambda: not desk.js.client.is_connected)
            async with asyncio.timeout(20):
                await settle.stop(broker)
    finally:
        server.kill()


@asynccontextmanager
async def desk_at(url):
    async with jetstream.connect(url, name="test") as js:
        await js.apply(load(contracts("streams"), replicas=1, ack_wait_s=30))
        desk = Desk(js, url)
        async with desk.consuming(Handler()) as broker:
            yield desk, broker


async def test_a_header_of_a_message_makes_nobody_publish(desk):
    heard = await desk.js.client.subscribe("private.>")
    await desk.js.client.jetstream().publish(
        "yume.task.finished.p.s", finished().to_bytes(), headers={"reply_to": "private.subject"}
    )
    async with desk.consuming(Handler()):
        await desk.settled()
    await desk.js.client.flush()
    assert heard.pending_msgs == 0


def delivery(tries, naks):
    """A message as NATS gives it, that only notes its end."""

    async def nack(delay):
        naks.append(delay)

    async def end():
        naks.append(None)

    raw = SimpleNamespace(
        subject=finished().subject,
        data=finished().to_bytes(),
        metadata=SimpleNamespace(
            stream=STREAM, consumer=DURABLE, num_delivered=tries, sequence=SimpleNamespace(stream=1)
        ),
    )
    return SimpleNamespace(raw_message=raw, nack=nack, ack=end, reject=end)


@pytest.mark.parametrize("fault", [None, TransientError("no database")], ids=["settled", "unsettled"])
@pytest.mark.parametrize(
    "error",
    [
        PermanentError("never"),
        TransientError("busy", retry_in=timedelta(milliseconds=1)),
        TransientError("busy", retry_in=timedelta(0)),
        TransientError("quota", retry_in=timedelta(hours=1)),
        ValueError("bug"),
    ],
    ids=repr,
)
async def test_no_message_is_delivered_more_than_ten_times_a_minute(error, fault):
    undertaker = Recorder(None)
    undertaker.fault = fault
    naks = []

    async def fail(message):
        raise error

    for tries in range(1, 21):
        scope = settle.Settle(None, context=None, undertaker=undertaker, heartbeat_s=10)
        await scope.consume_scope(fail, delivery(tries, naks))
        if naks[-1] is None:
            break
    times = list(itertools.accumulate([delay for delay in naks if delay is not None], initial=0.0))
    busiest = max(sum(start <= each < start + 60 for each in times) for start in times)
    assert busiest <= 10
