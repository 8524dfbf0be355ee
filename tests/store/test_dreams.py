from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from yume.errors import PermanentError, StepTakenError
from yume.ids import DreamId, LessonId, new_id
from yume.store import dreams

MINUTE = timedelta(minutes=1)


async def _row(db, dream):
    return await db.fetchrow("SELECT * FROM yume.dream_runs WHERE id = $1", dream)


# Steps


async def test_a_step_is_marked_with_its_counters_and_usage(db, dream, now):
    await dreams.mark_step(db, dream, "s1_pull", now, counters={"tasks": 3})
    await dreams.mark_step(db, dream, "s3_classify", now, counters={"groups": 1}, usage={"s3": {"calls": 2}})
    found = await dreams.dream_of(db, dream)
    assert (found.step, found.counters, found.usage) == (
        *("s3_classify", {"tasks": 3, "groups": 1}, {"s3": {"calls": 2}}),
    )


@pytest.mark.parametrize("step", ["s2_extract", "s1_pull"])
async def test_a_step_that_is_done_is_not_done_again(db, dream, now, step):
    await dreams.mark_step(db, dream, "s2_extract", now, counters={"runs": 1})
    with pytest.raises(StepTakenError, match=step):
        await dreams.mark_step(db, dream, step, now, counters={"runs": 9})
    assert (await dreams.dream_of(db, dream)).counters == {"runs": 1}


@pytest.mark.parametrize("status", ["queued", "parked", "finished", "failed", "cancelled"])
async def test_a_dream_that_does_not_run_takes_no_step(db, rows, series, now, status):
    dream = await rows.dream(series, status)
    with pytest.raises(StepTakenError):
        await dreams.mark_step(db, dream, "s1_pull", now)


async def _second_writer(database, dream, now, marked):
    async with database.acquire() as db, db.transaction():
        marked.append(await db.fetchval("SELECT pg_backend_pid()"))
        await dreams.mark_step(db, dream, "s1_pull", now)
        await dreams.save_pulled(db, dream, broken=[{"task_id": "second"}], proposals=[])


async def _waits_for_a_lock(db, marked):
    query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"
    return bool(marked) and await db.fetchval(query, marked[0])


async def test_of_two_transactions_that_save_one_step_the_second_takes_nothing_in(
    database, db, dream, now, eventually
):
    marked: list[int] = []
    async with database.acquire() as first, first.transaction():
        await dreams.mark_step(first, dream, "s1_pull", now)
        second = asyncio.create_task(_second_writer(database, dream, now, marked))
        await eventually(lambda: _waits_for_a_lock(db, marked))
        await dreams.save_pulled(first, dream, broken=[{"task_id": "first"}], proposals=[])
    with pytest.raises(StepTakenError):
        await second
    assert (await dreams.dream_of(db, dream)).broken == [{"task_id": "first"}]


async def test_the_second_transaction_saves_the_step_if_the_first_is_rolled_back(
    database, db, dream, now, eventually
):
    marked: list[int] = []
    async with database.acquire() as first:
        transaction = first.transaction()
        await transaction.start()
        await dreams.mark_step(first, dream, "s1_pull", now)
        second = asyncio.create_task(_second_writer(database, dream, now, marked))
        await eventually(lambda: _waits_for_a_lock(db, marked))
        await transaction.rollback()
    await second
    assert (await dreams.dream_of(db, dream)).broken == [{"task_id": "second"}]


# Endings


async def test_a_dream_ends_once(db, dream, now):
    assert await dreams.fail(db, dream, "the first reason", now)
    assert not await dreams.fail(db, dream, "another reason", now + MINUTE)
    await dreams.finish(db, dream, now + MINUTE)
    row = await _row(db, dream)
    assert (row["status"], row["error"], row["finished_at"]) == ("failed", "the first reason", now)


async def test_what_the_steps_leave_on_the_row_is_read_back(db, rows, series, dream):
    await dreams.save_pulled(db, dream, broken=[{"task_id": "t", "why": "x"}], proposals=[{"id": "p"}])
    drafts, standing = [LessonId(new_id()), LessonId(new_id())], [LessonId(new_id())]
    await dreams.save_drafts(db, dream, drafts)
    await dreams.save_operations(db, dream, [{"kind": "add"}], standing)
    await dreams.save_gate(db, dream, {"decisions": []})
    target = await rows.lesson_set(series, dream)
    await dreams.save_compiled(db, dream, {"body": "- a"}, target, "dwell")
    held = await dreams.dream_of(db, dream)
    assert (held.compiled, held.lesson_set_id, held.reason) == ({"body": "- a"}, target, "dwell")
    await dreams.save_result(db, dream, "held", "slot holds foreign text", "reports/1.md")
    found = await dreams.dream_of(db, dream)
    assert (found.broken, found.operations, found.gate) == (
        *([{"task_id": "t", "why": "x"}], [{"kind": "add"}], {"decisions": []}),
    )
    assert (found.draft_ids, found.standing_ids) == (drafts, standing)
    assert (found.result, found.reason, found.report_key) == (
        *("held", "slot holds foreign text", "reports/1.md"),
    )


async def test_a_dream_comes_with_the_policy_of_its_series(db, series, dream, now):
    found = await dreams.dream_of(db, dream)
    assert found.series == series
    assert (found.number, found.status, found.step, found.after, found.before) == (
        1,
        "running",
        None,
        None,
        now,
    )


async def test_a_dream_reads_on_from_where_the_last_one_that_pulled_has_stopped(db, rows, series, now):
    pulled = await rows.dream(series, "running")
    await dreams.mark_step(db, pulled, "s1_pull", now)
    end = (await dreams.dream_of(db, pulled)).before
    await dreams.fail(db, pulled, "after S1", now)
    assert (await dreams.dream_of(db, await rows.dream(series, "failed"))).after == end
    assert (await dreams.dream_of(db, await rows.dream(series, "running"))).after == end


async def test_a_dream_that_was_never_started_or_never_was_is_refused(db, rows, series):
    with pytest.raises(PermanentError, match="has not been started: it is queued"):
        await dreams.dream_of(db, await rows.dream(series, "queued"))
    with pytest.raises(PermanentError, match="there is no dream"):
        await dreams.dream_of(db, DreamId(new_id()))
    assert await dreams.progress_of(db, DreamId(new_id())) is None


async def test_the_dreams_of_a_series_are_listed_in_order(db, rows, series):
    made = [await rows.dream(series, status) for status in ("failed", "finished", "collecting")]
    await rows.dream(await rows.series("another"))
    listed = await dreams.dreams_of_series(db, series.id)
    assert [(row["number"], row["id"]) for row in listed] == list(enumerate(made, start=1))
