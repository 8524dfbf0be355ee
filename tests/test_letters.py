"""Dead letters on real servers: what is told of each, and what sending one once more or dropping it does."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from yume import jetstream, letters, settle
from yume.errors import PermanentError, TransientError
from yume.events import RunBatch, TaskFinished, event
from yume.ids import PlatformId, new_id
from yume.jetstream import JetStream
from yume.pipeline import STAGES
from yume.settings import contracts
from yume.store import access, batches, dreams
from yume.store.access import Platform
from yume.topology import load

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
WHY = "PermanentError: 8 signals were asked about, 7 answered"


def task(series="kamila"):
    told = TaskFinished(
        platform="tobatsu", series=series, task_id="T1", status="failed", finished_at=NOW, batch_id="b"
    )
    return event("task.finished", told, key="T1", at=NOW)


def pulled(dream):
    return event(
        "dream.pulled", RunBatch(platform="tobatsu", series="kamila", dream_id=dream), key="k", at=NOW
    )


@pytest.fixture
async def js(nats_url):
    """A connection to a server that holds what the folder says, and no message."""
    async with jetstream.connect(nats_url, name="test") as js:
        await js.apply(load(contracts("streams"), replicas=1, ack_wait_s=30))
        yield js
        names = json.loads((await js.client.request("$JS.API.STREAM.NAMES", b"{}")).data)
        for name in names["streams"]:
            await js.client.request(f"$JS.API.STREAM.DELETE.{name}", b"{}")


@pytest.fixture
def die(js):
    """Give up a message as settling does; return the number of its letter."""

    async def die(subject, body, *, stream="tasks", consumer="orchestrator_tasks", reason=WHY, sequence=4):
        before = await count(js, "dead")
        message = SimpleNamespace(
            subject=subject, body=body, stream=stream, consumer=consumer, sequence=sequence, tries=5
        )
        await settle.bury(js, message, reason)
        assert await count(js, "dead") == before + 1
        return [each.sequence async for each in js.stored("dead")][-1]

    return die


@pytest.fixture
def a_step_dies(die):
    """Give up a step's message about a dream."""

    async def a_step_dies(dream, **where):
        told = pulled(dream)
        return await die(
            told.subject, told.to_bytes(), **{"stream": "dream", "consumer": "s2_extract"} | where
        )

    return a_step_dies


@pytest.fixture
def dream(db):
    """Make a dream of a series, in any of the statuses that these tests need."""

    async def dream(status, series="kamila"):
        await access.add_platform(
            db, Platform(PlatformId("tobatsu"), "https://platform.example", None, None, {})
        )
        known = await access.series_named(db, "tobatsu", series)
        made = await batches.collecting(db, known.id, "callback", NOW)
        if status == "cancelled":
            assert await dreams.cancel(db, made, "not wanted", NOW)
            return made
        await batches.close_batch(db, made, batch_id=None, now=NOW)
        if status != "queued":
            assert await batches.start_next(db, known.id, NOW) == made
        if status == "finished":
            await dreams.finish(db, made, NOW)
        if status == "failed":
            assert await dreams.fail(db, made, "it broke", NOW)
        if status == "parked":
            assert await dreams.park(db, made, "a person has to look")
        return made

    return dream


async def count(js, stream):
    return len([each async for each in js.stored(stream)])


async def listed(js):
    return [each async for each in letters.every_letter(js)]


# What is told of a letter


async def test_a_letter_tells_where_the_message_stood_why_it_died_and_what_it_is_about(js, die):
    told = task()
    await die(told.subject, told.to_bytes())
    (letter,) = await listed(js)
    assert (letter.sequence, letter.stream, letter.consumer) == (1, "tasks", "orchestrator_tasks")
    assert (letter.subject, letter.original) == ("yume.task.finished.tobatsu.kamila", 4)
    assert (letter.reason, letter.tries) == (WHY, 5)
    assert (letter.bytes, letter.kept) == (len(told.to_bytes()), True)
    assert letter.about == letters.About("tobatsu", "kamila", None, "T1")
    assert (await letters.letter(js, 1)) == (letter, told.to_bytes())


async def test_a_steps_letter_names_its_dream(js, a_step_dies):
    dream = new_id()
    await a_step_dies(dream)
    (letter,) = await listed(js)
    assert letter.about == letters.About("tobatsu", "kamila", dream, None)
    assert letter.to_json()["dream_id"] == str(dream)
    json.dumps(letter.to_json())


@pytest.mark.parametrize("body", [b"", b"no JSON", b"\xff\x00", b"{}", b'{"data": [[[', b"[" * 100_000])
async def test_a_body_that_is_no_event_is_about_nothing_known(js, die, body):
    await die("yume.task.finished.tobatsu.kamila", body)
    (letter,) = await listed(js)
    assert letter.about is None
    assert letter.kept
    assert (await letters.letter(js, 1))[1] == body


async def test_a_body_too_large_to_keep_is_told_as_not_kept(js, die):
    await die("yume.task.finished.tobatsu.kamila", b"x" * (settle.KEPT_BYTES + 1))
    (letter,) = await listed(js)
    assert (letter.kept, letter.bytes) == (False, 1_000_001)


async def test_letters_are_listed_in_the_order_in_which_they_died(js, die):
    for number in range(3):
        await die("yume.task.finished.tobatsu.kamila", b"%d" % number)
    await letters.drop(js, 2, by="cli:me", why="a copy")
    assert [each.sequence for each in await listed(js)] == [1, 3]


@pytest.mark.parametrize(
    "headers", [None, {"Yume-Tries": "many", "Yume-Bytes": "-1", "Yume-Sequence": "9" * 99}]
)
async def test_a_letter_that_yume_did_not_write_is_listed_with_what_it_says(js, headers):
    await js.client.jetstream().publish("yume.dead.x", b"a body", headers=headers)
    (letter,) = await listed(js)
    assert (letter.stream, letter.consumer, letter.subject, letter.reason) == ("x", "", "", "")
    assert (letter.original, letter.tries, letter.bytes, letter.kept) == (0, 0, 0, True)


async def test_a_letter_that_is_not_there_is_refused_with_the_way_out(js, db):
    for asked in (
        letters.letter(js, 7),
        letters.requeue(js, db, 7),
        letters.drop(js, 7, by="cli:me", why="x"),
    ):
        with pytest.raises(PermanentError, match="there is no dead letter 7: `yume dead list`"):
            await asked


# Once more


async def test_the_original_bytes_go_back_on_their_subject_and_the_letter_goes(js, db, die):
    told = task()
    sequence = await die(told.subject, told.to_bytes())
    await letters.requeue(js, db, sequence)
    (back,) = [each async for each in js.stored("tasks")]
    assert (back.subject, back.body) == (told.subject, told.to_bytes())
    assert await listed(js) == []


async def test_bytes_that_are_no_event_go_back_as_they_are(js, db, die):
    await die("yume.task.finished.tobatsu.kamila", b"\xff\x00 no event")
    await letters.requeue(js, db, 1)
    assert [each.body async for each in js.stored("tasks")] == [b"\xff\x00 no event"]


async def test_what_is_sent_once_more_is_not_taken_for_a_copy_of_the_original(js, db, die):
    told = task()
    await js.store(told)
    await die(told.subject, told.to_bytes())
    await letters.requeue(js, db, 1)
    assert await count(js, "tasks") == 2


async def test_a_requeue_that_broke_off_before_the_letter_was_removed_stores_one_message(
    js, db, die, monkeypatch
):
    told = task()
    await die(told.subject, told.to_bytes())

    async def broken(*_):
        raise TransientError("the server went away")

    with monkeypatch.context() as crash:
        crash.setattr(JetStream, "remove", broken)
        with pytest.raises(TransientError):
            await letters.requeue(js, db, 1)
    assert [each.sequence for each in await listed(js)] == [1]
    await letters.requeue(js, db, 1)
    assert await count(js, "tasks") == 1
    assert await listed(js) == []


async def test_a_message_that_cannot_be_stored_keeps_its_letter(js, db, die, monkeypatch):
    told = task()
    await die(told.subject, told.to_bytes())
    await js.client.request("$JS.API.STREAM.DELETE.tasks", b"{}")
    monkeypatch.setattr(jetstream, "PUBLISH_TIMEOUT_S", 0.3)
    with pytest.raises(TransientError, match="stream tasks"):
        await letters.requeue(js, db, 1)
    assert [each.sequence for each in await listed(js)] == [1]


async def test_two_letters_of_one_message_are_two_messages(js, db, die):
    told = task()
    await die(told.subject, told.to_bytes(), sequence=4)
    await letters.requeue(js, db, 1)
    await die(told.subject, told.to_bytes(), sequence=5)
    await letters.requeue(js, db, 2)
    assert await count(js, "tasks") == 2


async def test_two_that_requeue_one_letter_at_once_store_one_message(js, database, die):
    told = task()
    await die(told.subject, told.to_bytes())

    async def requeue():
        async with database.acquire() as db:
            return await letters.requeue(js, db, 1)

    done = await asyncio.gather(requeue(), requeue(), return_exceptions=True)
    assert all(not isinstance(each, Exception) or "no dead letter 1" in str(each) for each in done)
    assert await count(js, "tasks") == 1
    assert await listed(js) == []


async def test_a_body_that_was_not_kept_is_refused_with_where_the_original_lies(js, db, die):
    told = "yume.task.finished.tobatsu.kamila"
    await die(told, b"x" * (settle.KEPT_BYTES + 1), sequence=42)
    with pytest.raises(PermanentError, match=r"1000001 bytes .* stream tasks under sequence 42"):
        await letters.requeue(js, db, 1)
    assert len(await listed(js)) == 1
    assert await count(js, "tasks") == 0


async def test_the_largest_body_that_is_kept_goes_back_whole(js, db, die):
    body = b"x" * settle.KEPT_BYTES
    await die("yume.task.finished.tobatsu.kamila", body)
    await letters.requeue(js, db, 1)
    assert [each.body async for each in js.stored("tasks")] == [body]


@pytest.mark.parametrize("status", ["finished", "failed", "cancelled"])
async def test_a_step_of_a_dream_that_has_ended_is_refused_with_what_runs_it_again(
    js, db, a_step_dies, dream, status
):
    made = await dream(status)
    await a_step_dies(made)
    says = rf"dream 1 \({made}\), which is {status}.*`yume replay tobatsu kamila 1 --apply --why …`"
    with pytest.raises(PermanentError, match=says):
        await letters.requeue(js, db, 1)
    assert len(await listed(js)) == 1
    assert await count(js, "dream") == 0


async def test_the_way_out_can_be_pasted_whatever_a_series_is_called(js, db, a_step_dies, dream):
    await a_step_dies(await dream("failed", series="a b; rm -rf 'c'"))
    with pytest.raises(
        PermanentError, match=r"""replay tobatsu 'a b; rm -rf '"'"'c'"'"'' 1 --apply --why …"""
    ):
        await letters.requeue(js, db, 1)


@pytest.mark.parametrize("status", ["queued", "parked"])
async def test_a_step_of_a_dream_that_waits_is_refused(js, db, a_step_dies, dream, status):
    await a_step_dies(await dream(status))
    with pytest.raises(PermanentError, match=rf"which is {status}: .* before the dream runs"):
        await letters.requeue(js, db, 1)
    assert len(await listed(js)) == 1


async def test_a_step_of_a_dream_that_is_not_there_is_refused(js, db, a_step_dies):
    await a_step_dies(new_id())
    with pytest.raises(PermanentError, match="there is no such dream"):
        await letters.requeue(js, db, 1)


async def test_a_step_of_a_running_dream_goes_back(js, db, a_step_dies, dream):
    await a_step_dies(await dream("running"))
    await letters.requeue(js, db, 1)
    assert await count(js, "dream") == 1


@pytest.mark.parametrize("consumer", [stage.name for stage in STAGES])
async def test_every_steps_messages_are_looked_at(js, db, a_step_dies, dream, consumer):
    await a_step_dies(await dream("failed"), consumer=consumer)
    with pytest.raises(PermanentError, match="which is failed"):
        await letters.requeue(js, db, 1)


async def test_what_the_orchestrator_gave_up_goes_back_though_the_dream_has_ended(js, db, a_step_dies, dream):
    await a_step_dies(await dream("failed"), consumer="orchestrator_dreams")
    await letters.requeue(js, db, 1)
    assert await count(js, "dream") == 1


@pytest.mark.parametrize(
    ("stream", "subject"),
    [
        ("tasks", "$JS.API.STREAM.DELETE.dream"),
        ("tasks", "yume.dream.requested.p.s"),
        ("tasks", "yume.task.finished.*.s"),
        ("tasks", "yume.task.>"),
        ("tasks", "yume.task..s"),
        ("tasks", "yume.task.a b"),
        ("tasks", ""),
        ("nowhere", "yume.task.finished.p.s"),
    ],
)
async def test_a_letter_that_names_a_subject_of_no_stream_of_its_own_is_refused(js, db, stream, subject):
    heard = await js.client.subscribe("yume.task.>")
    await js.client.jetstream().publish(f"yume.dead.{stream}.x", b"{}", headers={"Yume-Subject": subject})
    with pytest.raises(PermanentError, match="Yume did not write it"):
        await letters.requeue(js, db, 1)
    assert heard.pending_msgs == 0
    assert await count(js, "dream") == 0


# Dropped


async def test_a_letter_that_is_dropped_is_gone_and_the_log_says_who_and_why(js, die):
    await die("yume.task.finished.tobatsu.kamila", b"a")
    with capture_logs() as logs:
        await letters.drop(js, 1, by="cli:me", why="a test of somebody's")
    assert await listed(js) == []
    (line,) = [each for each in logs if each["event"] == "letter_dropped"]
    assert (line["sequence"], line["by"], line["why"]) == (1, "cli:me", "a test of somebody's")


@pytest.mark.parametrize("why", ["", "  \n"])
async def test_a_letter_is_not_dropped_without_a_reason(js, die, why):
    await die("yume.task.finished.tobatsu.kamila", b"a")
    with pytest.raises(PermanentError, match="say why"):
        await letters.drop(js, 1, by="cli:me", why=why)
    assert len(await listed(js)) == 1


async def test_the_time_of_death_is_when_the_letter_was_stored(js, die):
    await die("yume.task.finished.tobatsu.kamila", b"a")
    (letter,) = await listed(js)
    assert letter.died_at == (await js.message("dead", 1)).stored_at
    assert letter.died_at.utcoffset() == timedelta(0)
