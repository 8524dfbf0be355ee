from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from yume.domain.dreams import PATIENCE
from yume.errors import PermanentError, StepTakenError
from yume.ids import DreamId, new_id
from yume.store import dreams

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


async def _row(db, dream):
    return await db.fetchrow("SELECT * FROM yume.dream_runs WHERE id = $1", dream)


# Batches


async def test_dreams_are_numbered_from_one_in_each_series(db, rows, series):
    other = await rows.series("another")
    made = [await rows.dream(each, "finished") for each in (series, other, series, series)]
    assert [(await _row(db, dream))["number"] for dream in made] == [1, 1, 2, 3]


async def test_a_series_collects_into_one_batch_until_it_is_closed(db, series, now):
    first = await dreams.collecting(db, series.id, "callback", now)
    assert await dreams.collecting(db, series.id, "manual", now) == first
    assert await dreams.close_batch(db, first, batch_id="b-1", now=now)
    second = await dreams.collecting(db, series.id, "callback", now)
    assert second != first
    assert (await _row(db, first))["batch_id"] == "b-1"


async def test_a_batch_is_closed_once(db, series, now):
    dream = await dreams.collecting(db, series.id, "callback", now)
    assert await dreams.close_batch(db, dream, batch_id=None, now=now)
    assert not await dreams.close_batch(db, dream, batch_id="late", now=now + MINUTE)
    row = await _row(db, dream)
    assert (row["status"], row["closed_at"], row["batch_id"]) == ("queued", now, None)


async def _closed(db, series, now):
    dream = await dreams.collecting(db, series.id, "callback", now)
    assert await dreams.close_batch(db, dream, batch_id=None, now=now)
    return (await _row(db, dream))["span"]


async def test_each_span_begins_where_the_one_before_ended(db, series, now):
    spans = [await _closed(db, series, now + minutes * MINUTE) for minutes in (0, 5, 9)]
    assert spans[0].lower is None
    assert [span.upper for span in spans] == [now, now + 5 * MINUTE, now + 9 * MINUTE]
    assert [span.lower for span in spans[1:]] == [span.upper for span in spans[:-1]]
    assert all(span.lower_inc is (span.lower is not None) and not span.upper_inc for span in spans)


async def test_a_batch_without_a_span_is_no_gap(db, rows, series, now):
    first = await _closed(db, series, now)
    await rows.dream(series, "cancelled")
    assert (await _closed(db, series, now + MINUTE)).lower == first.upper


async def test_a_span_takes_in_a_task_that_finished_after_the_batch_was_closed(db, rows, series, now):
    dream = await dreams.collecting(db, series.id, "callback", now)
    await rows.run(series, dream, finished_at=now + MINUTE)
    await dreams.close_batch(db, dream, batch_id=None, now=now)
    assert (await _row(db, dream))["span"].upper == now + MINUTE + INSTANT


@pytest.mark.parametrize("backwards", [timedelta(0), MINUTE])
async def test_a_clock_that_stands_or_goes_back_makes_no_empty_span(db, series, now, backwards):
    first = await _closed(db, series, now)
    second = await _closed(db, series, now - backwards)
    third = await _closed(db, series, now + MINUTE)
    assert not second.isempty
    assert first.upper == second.lower < second.upper == third.lower < third.upper


async def test_a_batch_with_tasks_is_overdue_when_its_series_wait_is_over(db, rows, series, now):
    dream = await dreams.collecting(db, series.id, "callback", now)
    late = now + series.batch_max_wait
    assert await dreams.overdue_batches(db, late) == []  # nothing to dream about
    await rows.run(series, dream)
    assert await dreams.overdue_batches(db, late - INSTANT) == []
    assert await dreams.overdue_batches(db, late) == [(dream, series.id)]
    await dreams.close_batch(db, dream, batch_id=None, now=late)
    assert await dreams.overdue_batches(db, late) == []


# Starting


async def test_the_oldest_queued_dream_starts_when_none_runs(db, rows, series, now):
    first = await rows.dream(series, "queued")
    second = await rows.dream(series, "queued")
    assert await dreams.waiting_series(db) == [series.id]
    assert await dreams.start_next(db, series.id, now) == first
    assert await dreams.waiting_series(db) == []
    assert await dreams.start_next(db, series.id, now) is None
    await dreams.finish(db, first, now)
    assert await dreams.waiting_series(db) == [series.id]
    assert await dreams.start_next(db, series.id, now + MINUTE) == second
    row = await _row(db, second)
    assert (row["started_at"], row["deadline"]) == (now + MINUTE, now + MINUTE + PATIENCE)


async def test_a_batch_that_still_collects_does_not_start(db, rows, series, now):
    await rows.dream(series, "collecting")
    assert await dreams.waiting_series(db) == []
    assert await dreams.start_next(db, series.id, now) is None


async def test_a_paused_series_starts_nothing(db, rows, series, now):
    dream = await rows.dream(series, "queued")
    await db.execute("UPDATE yume.series SET paused_at = $1", now)
    assert await dreams.start_next(db, series.id, now) is None
    await db.execute("UPDATE yume.series SET paused_at = NULL")
    assert await dreams.start_next(db, series.id, now) == dream


async def test_a_dream_starts_on_the_newest_set_and_keeps_it(db, rows, series):
    first = await rows.dream(series, "finished")
    base = [await rows.lesson_set(series, first, version) for version in (1, 2)][-1]
    dream = await rows.dream(series, "running")
    await rows.lesson_set(series, dream, 3)
    found = await dreams.dream_of(db, dream)
    assert found.base_lesson_set_id == base
    assert (await _row(db, dream))["base_body_sha256"] == f"{2:064x}"
    assert found.taxonomy_id == series.taxonomy_id


async def test_two_orchestrators_that_start_together_start_one_dream(database, rows, series, now):
    waiting = {await rows.dream(series, "queued"), await rows.dream(series, "queued")}

    async def start():
        async with database.acquire() as db, db.transaction():
            await dreams.lock_series(db, series.id)
            return await dreams.start_next(db, series.id, now)

    started = await asyncio.gather(start(), start(), start())
    assert sorted(each is None for each in started) == [False, True, True]
    assert set(started) - {None} < waiting


async def test_the_lock_of_one_series_does_not_hold_up_another(database, rows, series):
    other = await rows.series("another")
    async with database.acquire() as one, one.transaction():
        await dreams.lock_series(one, series.id)
        async with database.acquire() as two, two.transaction(), asyncio.timeout(5):
            await dreams.lock_series(two, other.id)


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


async def test_what_the_steps_leave_on_the_row_is_read_back(db, dream, now):
    await dreams.save_pulled(db, dream, broken=[{"task_id": "t", "why": "x"}], proposals=[{"id": "p"}])
    await dreams.save_operations(db, dream, [{"kind": "add"}])
    await dreams.save_gate(db, dream, {"decisions": []})
    await dreams.save_result(db, dream, "held", "slot holds foreign text", "reports/1.md")
    found = await dreams.dream_of(db, dream)
    assert (found.broken, found.operations, found.gate) == (
        *([{"task_id": "t", "why": "x"}], [{"kind": "add"}], {"decisions": []}),
    )
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
