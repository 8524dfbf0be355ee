"""The whole at a glance is what the rows say, and whoever is late is named; whoever is not, is not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from yume import jetstream
from yume.acts.overview import (
    COUNTED,
    Ended,
    OpenCommand,
    OpenDream,
    SeriesNow,
    overview_of,
    silence,
    traffic_of,
)
from yume.settings import contracts
from yume.store import dreams, effects, lessons
from yume.topology import load

LATE = timedelta(minutes=3)
IN_TIME = timedelta(minutes=1)


async def seen(resources):
    """Return the one series' line."""
    (found,) = (await overview_of(resources)).series
    return found


async def test_a_series_of_which_nothing_is_known_is_there_all_the_same(series, resources):
    found = await seen(resources)
    assert (found.platform, found.series, found.mode) == ("tobatsu", "kamila", "report_only")
    assert (found.slot, found.batch, found.running, found.last, found.drafts) == (None, None, None, None, 0)
    assert [*found.dreams, *found.commands] == []


async def test_each_series_has_its_own_facts(series, rows, resources, announce_run):
    other = await rows.series("mirai")
    await announce_run(series, await rows.dream(series, "collecting"), "T1", "T2")
    await rows.dream(other, "queued")
    mine, others = (await overview_of(resources)).series
    assert (mine.batch.tasks, mine.batch.number, list(mine.dreams)) == (2, 1, [])
    assert (others.batch, others.numbers("queued")) == (None, [1])


async def test_the_slot_is_what_was_written_last_and_a_command_waits_until_it_is_done(
    db, series, rows, resources, now
):
    for version in (1, 2):
        write = await rows.injection(series, await rows.lesson_set(series, None, version))
        assert [each.kind for each in (await seen(resources)).commands] == ["rollback"]
        at = now + timedelta(hours=version)
        await effects.written(db, series.id, write, str(version + 6), at, how="restored")
    found = await seen(resources)
    assert (found.slot.version, found.slot.platform_version, found.slot.how) == (2, "8", "restored")
    assert found.slot.since == now + timedelta(hours=2)
    assert list(found.commands) == []


async def test_a_dreams_own_write_is_no_command(series, rows, resources):
    await rows.injection(series, await rows.lesson_set(series, None), dream=await rows.dream(series))
    assert list((await seen(resources)).commands) == []


async def test_a_running_dream_is_at_the_step_after_the_last_one_that_is_done(
    db, series, rows, resources, now
):
    dream = await rows.dream(series)
    assert (await seen(resources)).running.step == "s1_pull"
    await dreams.mark_step(db, dream, "s1_pull", now)
    await dreams.mark_announced(db, dream, "s1_pull", now + timedelta(seconds=9))
    running = (await seen(resources)).running
    assert (running.step, running.step_since) == ("s2_extract", now + timedelta(seconds=9))


async def test_the_last_result_is_that_of_the_dream_that_ended_last(db, series, rows, resources, now):
    await rows.dream(series, "failed")
    await rows.dream(series, "cancelled")
    await rows.dream(series, "parked")
    found = await seen(resources)
    assert (found.last.number, found.last.status) == (2, "cancelled")
    assert found.numbers("parked") == [3]


async def test_a_draft_waits_for_a_person_once_the_gate_has_held_it(series, rows, resources, signal, dream):
    db, now = rows.db, rows.now
    lesson = await rows.lesson(series, [signal], dream=dream)
    assert (await seen(resources)).drafts == 0
    for step in ("s1_pull", "s5_merge"):
        await dreams.mark_step(db, dream, step, now)
        assert (await seen(resources)).drafts == 0
    await dreams.mark_step(db, dream, "s6_gate", now)
    assert (await seen(resources)).drafts == 1
    await lessons.move(db, lesson, "draft", "archived", by="ada", why="a test", now=now)
    assert (await seen(resources)).drafts == 0


NOTHING = SeriesNow(
    platform="tobatsu",
    series="kamila",
    mode="auto",
    mode_reason=None,
    paused_at=None,
    switched_off=False,
    slot=None,
    batch=None,
    dreams=(),
    commands=(),
    drafts=0,
    last=None,
)


def a_dream(status, since, **facts):
    known = {"heartbeat_at": None, "not_before": None, "step_since": since, "reason": None}
    return OpenDream(
        number=4,
        trigger="callback",
        status=status,
        step="s3_classify",
        attempt=1,
        since=since,
        **(known | facts),
    )


def queued(now, ago):
    return replace(NOTHING, dreams=[a_dream("queued", now - ago)])


def running(now, ago, **facts):
    return replace(
        NOTHING, dreams=[a_dream("running", now - timedelta(hours=1), heartbeat_at=now - ago, **facts)]
    )


def asked(now, ago):
    return replace(NOTHING, commands=[OpenCommand("kill", now - ago)])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (queued, "tobatsu/kamila: dream 4 could start, for 3 min: orchestrator?"),
        (
            running,
            "dream 4 shows no sign of life, for 3 min: orchestrator, worker of s3_classify (zone dream)?",
        ),
        (asked, "kill is not carried out, for 3 min: orchestrator, worker of zone slot, platform?"),
    ],
)
def test_who_is_late_is_named_and_who_is_in_time_is_not(now, made, says):
    (line,) = silence(made(now, LATE), now)
    assert says in line
    assert silence(made(now, IN_TIME), now) == []
    assert silence(replace(made(now, LATE), switched_off=True), now) == []


def test_nobody_is_late_where_something_else_is_waited_for(now):
    late = queued(now, LATE)
    assert silence(late, now)
    assert silence(replace(late, paused_at=now), now) == []
    assert silence(replace(late, commands=[OpenCommand("kill", now)]), now) == []
    assert silence(replace(late, dreams=[*late.dreams, *running(now, IN_TIME).dreams]), now) == []
    just = Ended(3, "callback", "finished", "published", None, None, now - IN_TIME)
    assert silence(replace(late, last=just), now) == []
    assert silence(running(now, LATE, not_before=now + LATE), now) == []
    assert silence(NOTHING, now) == []


async def test_silence_is_told_of_the_rows_there_are(series, rows, resources, at, now):
    await rows.dream(series, "queued")
    assert list((await overview_of(at(now + IN_TIME))).silent) == []
    (line,) = (await overview_of(at(now + LATE))).silent
    assert "orchestrator?" in line


@pytest.fixture
async def js(nats_url):
    """A server with the streams and consumers that there should be."""
    async with jetstream.connect(nats_url, name="test") as connected:
        topology = load(contracts("streams"), replicas=1, ack_wait_s=30)
        await connected.apply(topology)
        yield connected, topology
        for stream in topology.streams:
            await connected.client.request(f"$JS.API.STREAM.DELETE.{stream}", b"{}")


async def test_what_lies_in_nats_is_counted(js):
    connected, topology = js
    empty = await traffic_of(connected, topology)
    assert (empty.dead, set(empty.backlog.values()), list(empty.missing)) == (0, {0}, [])
    for number in range(3):
        await connected.store_bytes("yume.dead.tasks.x", b"-", stream="dead", key=f"d{number}")
    await connected.store_bytes("yume.dream.classified.p.s", b"-", stream="dream", key="k")
    found = await traffic_of(connected, topology)
    assert found.dead == 3
    assert {name: count for name, count in found.backlog.items() if count} == {"s4_draft": 1}


async def test_dead_letters_are_counted_up_to_a_limit(js):
    connected, topology = js
    for number in range(COUNTED + 1):
        await connected.store_bytes("yume.dead.tasks.x", b"-", stream="dead", key=f"l{number}")
    assert (await traffic_of(connected, topology)).dead == COUNTED


async def test_what_the_server_lacks_is_named(js):
    connected, topology = js
    await connected.client.request("$JS.API.CONSUMER.DELETE.dream.s4_draft", b"{}")
    await connected.client.request("$JS.API.STREAM.DELETE.dead", b"{}")
    found = await traffic_of(connected, topology)
    assert (found.dead, list(found.missing)) == (None, ["s4_draft"])
    await connected.apply(topology)
