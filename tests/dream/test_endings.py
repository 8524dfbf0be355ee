"""How dreams end: without a signal, without a change, held; and who else writes into the slot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.dream.tasks import ONE_TRAP
from yume.acts import releases
from yume.events import Event
from yume.local.practice import Faults, Habits, Practice
from yume.local.practice.problems import ProblemError

SERIES = "kamila"
FOREIGN = "Always ask before you delete anything.\n"
SPOTLESS = Habits(plain=1.0, slips=0.0, trouble=0.0)
RULE = "Keep the names of the files as they are."


@pytest.fixture
async def auto(world):
    """A world whose series may write from its first dream on."""
    await world.promote()
    return world


def on_write(world, hook: Callable[[Callable[[], Any]], Any]) -> list[str]:
    """Have a hook around the platform's next slot write; return the keys of all writes as they come."""
    slot, keys = world.practice.book.slot, []
    real = slot.write

    def write(series, key, body, *, now):
        keys.append(key)
        if len(keys) > 1:
            return real(series, key, body, now=now)
        return hook(lambda: real(series, key, body, now=now))

    slot.write = write
    return keys


async def told(world, kind: str) -> list[Event]:
    return [each for each in await world.events("lessons") if each.type == f"yume.{kind}"]


async def test_a_batch_without_a_failure_asks_no_model_and_ends_with_no_signal(open_world):
    async with open_world(habits=SPOTLESS) as world:
        await world.promote()
        row = await world.dream(6)
        assert (row["status"], row["result"]) == ("finished", "no_signal")
        assert world.model.asked == []
        assert sum(used["calls"] for used in row["usage"].values()) == 0
        assert row["counters"]["signals"] == row["counters"]["drafts"] == 0
        assert row["counters"]["measurements"] > 0
        assert world.slot().version == 0
        assert not await world.rows("SELECT id FROM yume.injections")


async def test_the_same_failures_again_change_nothing_and_without_obedience_no_outcome(
    open_world, keen, tmp_path
):
    one_trap = {
        "habits": replace(keen, obedience=0.0, plain=0.0),
        "pitfalls": ONE_TRAP,
    }
    async with open_world(**one_trap) as world:
        await world.promote()
        first = await world.dream(12)
        assert (first["result"], world.slot().version) == ("published", 1)
        sets = await world.value("SELECT count(*) FROM yume.lesson_sets")
        second = await world.dream(12)
        assert second["counters"]["drafts"] > 0
        assert second["result"] == "no_change"
        assert await world.value("SELECT count(*) FROM yume.lesson_sets") == sets
        assert world.slot().version == 1
        assert len(await told(world, "lesson.published")) == 1
        seen = await world.rows("SELECT task_id, status, memory_version FROM yume.runs ORDER BY task_id")
    with contextlib.closing(Practice(tmp_path / "alone", seed=1, **one_trap)) as alone:
        tasks = [task for _ in (1, 2) for task in await alone.run_batch(SERIES, 12)]
    assert [(row["task_id"], row["status"]) for row in seen] == sorted(
        (each["id"], each["status"]) for each in tasks
    )
    assert [row["memory_version"] for row in seen] == ["0"] * 12 + ["1"] * 12


async def test_copies_of_every_message_change_nothing(auto):
    await auto.dream(12)
    before = await everything(auto)
    for stream in ("tasks", "dream"):
        for number, message in enumerate(await auto.stored(stream)):
            key = f"copy {stream} {number}"
            await auto.js.store_bytes(message.subject, message.data, stream=stream, key=key)
    await auto.settled()
    assert await everything(auto) == before
    assert auto.slot().version == 1
    await auto.check_oracle()


async def everything(world) -> dict[str, Any]:
    """Return what stands in the tables, in the streams that others read, and how often a model was asked."""
    tables = ("runs", "dream_runs", "signals", "lessons", "lesson_sets", "injections", "measurements")
    return {
        table: [tuple(row) for row in await world.rows(f"SELECT * FROM yume.{table} ORDER BY id")]
        for table in tables
    } | {
        "told": [each.id for each in await world.events("lessons")],
        "dead": len(await world.stored("dead")),
        "asked": len(world.model.asked),
    }


async def test_what_the_gate_holds_is_asked_about_once_and_stays_out_of_the_slot(world):
    await world.promote("gated")
    row = await world.dream(12)
    drafts = await world.rows("SELECT id FROM yume.lessons WHERE state = 'draft'")
    (asked,) = await told(world, "review.requested")
    assert asked.data["lesson_ids"]
    assert len(set(asked.data["lesson_ids"])) == row["counters"]["held"]
    assert set(asked.data["lesson_ids"]) <= {str(each["id"]) for each in drafts}
    assert all(asked.data["reasons"][name] for name in asked.data["lesson_ids"])
    assert world.slot().version == 0
    report = await world.report(row)
    assert {each["decision"] for each in report["lessons"]} <= {"hold", None}
    assert not await world.rows("SELECT id FROM yume.lessons WHERE state = 'approved'")


async def test_a_text_that_yume_did_not_write_is_never_overwritten(auto):
    auto.write_slot(FOREIGN)
    for number in (1, 2):
        await auto.promote()  # back to report_only after the first one: a person insists
        row = await auto.dream(12)
        ((mode, why),) = await auto.rows("SELECT mode, mode_reason FROM yume.series")
        assert (mode, why) == ("report_only", "slot holds foreign text")
        assert (row["status"], row["result"], row["reason"]) == (
            "finished",
            "held",
            "slot holds foreign text",
        )
        assert (auto.slot().version, auto.slot().text) == (1, FOREIGN)
        conflicts = await told(auto, "slot.conflict")
        assert [each.data["dream_id"] for each in conflicts][number - 1 :] == [str(row["id"])]
        assert (await auto.report(row))["reason"] == row["reason"]
    reviews = [
        each.data["dream_id"] for each in await told(auto, "review.requested") if each.data["kind"] == "slot"
    ]
    assert reviews == [each.data["dream_id"] for each in await told(auto, "slot.conflict")]
    assert not await told(auto, "lesson.published")
    assert {row["status"] for row in await auto.rows("SELECT status FROM yume.injections")} == {"conflict"}


async def test_a_foreign_text_that_comes_between_reading_and_writing_stands(auto):
    def overtaken(real):
        auto.practice.book.slot.write(SERIES, None, {"text": FOREIGN}, now="2026-01-01T00:00:00Z")
        return real()

    keys = on_write(auto, overtaken)
    row = await auto.dream(12)
    assert (row["result"], row["reason"]) == ("held", "slot holds foreign text")
    assert (auto.slot().version, auto.slot().text) == (1, FOREIGN)
    assert len([key for key in keys if key]) == 1
    assert len(await told(auto, "slot.conflict")) == 1


async def test_yumes_own_text_that_comes_between_is_replaced_under_a_new_key(auto):
    await auto.dream(12)
    before = auto.slot()
    await auto.add_owners_rule(RULE)

    def overtaken(real):
        auto.practice.book.slot.write(SERIES, None, {"text": before.text}, now="2026-01-01T00:00:00Z")
        return real()

    keys = on_write(auto, overtaken)
    await releases.release_now("practice", SERIES, auto.resources, by="test", why="a person wants it now")
    row = await auto.dreamt(2)
    assert row["result"] == "published"
    assert auto.slot().version == 3
    assert RULE in auto.slot().text
    mine = [key for key in keys if key]
    assert len(set(mine)) == len(mine) == 2
    ((version, expected),) = await auto.rows(
        "SELECT platform_version, expected_version FROM yume.injections WHERE dream_id = $1", row["id"]
    )
    assert (version, expected) == ("3", "2")
    await auto.check_oracle()


async def test_a_write_that_was_carried_out_and_answered_503_is_one_version(auto):
    def unanswered(real):
        real()
        raise ProblemError(503, "carried out, but nobody is told")

    on_write(auto, unanswered)
    row = await auto.dream(12)
    assert (row["result"], auto.slot().version) == ("published", 1)
    assert len(await auto.rows("SELECT id FROM yume.injections")) == 1
    (published,) = await told(auto, "lesson.published")
    assert published.data["platform_version"] == "1"
    await auto.check_oracle()


async def test_a_slot_that_answers_later_than_the_server_waits_gets_one_version(open_world):
    async with open_world(ack_wait_s=1) as world:
        await world.promote()
        world.practice.faults = Faults(path="/memory", slow_s=1.2)
        row = await world.dream(12)
        assert (row["result"], world.slot().version, row["attempt"]) == ("published", 1, 1)
        info = await world.js.client.jetstream().consumer_info("dream", "s8_write")
        assert info.delivered.consumer_seq == 1
        await world.check_oracle()
