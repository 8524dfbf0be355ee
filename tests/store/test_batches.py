"""Batches: what they collect, when they close, and what a platform says of those that it names."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.domain.rounds import NamedBatch
from yume.store import batches, evidence

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


async def _row(db, dream):
    return await db.fetchrow("SELECT * FROM yume.dream_runs WHERE id = $1", dream)


async def test_dreams_are_numbered_from_one_in_each_series(db, rows, series):
    other = await rows.series("another")
    made = [await rows.dream(each, "finished") for each in (series, other, series, series)]
    assert [(await _row(db, dream))["number"] for dream in made] == [1, 1, 2, 3]


async def test_a_series_collects_into_one_batch_until_it_is_closed(db, series, now):
    first = await batches.collecting(db, series.id, "callback", now)
    assert await batches.collecting(db, series.id, "manual", now) == first
    assert await batches.close_batch(db, first, batch_id="b-1", now=now)
    second = await batches.collecting(db, series.id, "callback", now)
    assert second != first
    assert (await _row(db, first))["batch_id"] == "b-1"


async def test_a_batch_is_closed_once(db, series, now):
    dream = await batches.collecting(db, series.id, "callback", now)
    assert await batches.close_batch(db, dream, batch_id=None, now=now)
    assert not await batches.close_batch(db, dream, batch_id="late", now=now + MINUTE)
    row = await _row(db, dream)
    assert (row["status"], row["closed_at"], row["batch_id"]) == ("queued", now, None)


async def _closed(db, series, now):
    dream = await batches.collecting(db, series.id, "callback", now)
    assert await batches.close_batch(db, dream, batch_id=None, now=now)
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
    dream = await batches.collecting(db, series.id, "callback", now)
    await rows.run(series, dream, finished_at=now + MINUTE)
    await batches.close_batch(db, dream, batch_id=None, now=now)
    assert (await _row(db, dream))["span"].upper == now + MINUTE + INSTANT


@pytest.mark.parametrize("backwards", [timedelta(0), MINUTE])
async def test_a_clock_that_stands_or_goes_back_makes_no_empty_span(db, series, now, backwards):
    first = await _closed(db, series, now)
    second = await _closed(db, series, now - backwards)
    third = await _closed(db, series, now + MINUTE)
    assert not second.isempty
    assert first.upper == second.lower < second.upper == third.lower < third.upper


async def test_a_batch_with_tasks_is_overdue_when_its_series_wait_is_over(db, rows, series, now):
    dream = await batches.collecting(db, series.id, "callback", now)
    late = now + series.batch_max_wait
    assert await batches.overdue_batches(db, late) == []  # nothing to dream about
    await rows.run(series, dream)
    assert await batches.overdue_batches(db, late - INSTANT) == []
    assert await batches.overdue_batches(db, late) == [(dream, series.id)]
    await batches.close_batch(db, dream, batch_id=None, now=late)
    assert await batches.overdue_batches(db, late) == []


# Announcing


async def test_a_task_that_is_announced_twice_is_one_row(db, rows, series, announce):
    dream = await rows.dream(series, "collecting")
    assert await announce(dream, "task-1")
    assert not await announce(dream, "task-1", "completed")
    assert await batches.batch_size(db, dream) == 1
    assert await db.fetchval("SELECT status FROM yume.runs") == "failed"


async def test_a_task_is_known_by_its_series_and_its_batch(db, rows, series, announce):
    dream = await rows.dream(series, "collecting")
    await announce(dream, "task-2")
    await announce(dream, "task-1")
    assert await batches.batch_of_task(db, series.id, "task-1") == (dream, "collecting")
    assert await batches.batch_of_task(db, series.id, "task-3") is None
    assert await batches.batch_of_task(db, (await rows.series("another")).id, "task-1") is None
    assert await evidence.announced_tasks(db, dream) == ["task-1", "task-2"]


async def test_what_closes_a_batch_is_kept_with_who_and_why(db, series, now):
    dream = await batches.collecting(db, series.id, "callback", now)
    closing = {"trigger": "manual", "by": "person:ada", "why": "look now"}
    assert await batches.close_batch(db, dream, batch_id=None, now=now, **closing)
    assert not await batches.close_batch(db, dream, batch_id=None, now=now, trigger="schedule")
    row = await _row(db, dream)
    assert (row["trigger"], row["asked_by"], row["why"]) == ("manual", "person:ada", "look now")


async def test_a_batch_that_is_closed_without_a_word_keeps_what_it_was_opened_by(db, series, now):
    dream = await batches.collecting(db, series.id, "callback", now)
    assert await batches.close_batch(db, dream, batch_id=None, now=now)
    row = await _row(db, dream)
    assert (row["trigger"], row["asked_by"], row["why"]) == ("callback", None, None)


# Named batches


@pytest.fixture
def note(db, series, now):
    async def noted(task: str, batch: str | None, *, ends: bool = False, at=now) -> None:
        await batches.note_batch(db, series.id, task, batch_id=batch, ends_batch=ends, now=at)

    return noted


@pytest.fixture
async def collecting(rows, series):
    return await rows.dream(series, "collecting")


async def test_a_batch_without_a_name_is_not_open(db, series, collecting, announce):
    await announce(collecting, "task-1")
    assert await batches.open_batches(db, series.id) == []


async def test_a_named_batch_is_open_from_its_first_task_until_one_ends_it(
    rows, series, collecting, announce
):
    await announce(collecting, "task-2", batch_id="b1", now=rows.now + MINUTE)
    await announce(collecting, "task-1", batch_id="b1")
    assert await batches.open_batches(rows.db, series.id) == [NamedBatch("b1", rows.now, finished=False)]
    assert await batches.open_batches(rows.db, (await rows.series("another")).id) == []
    await announce(collecting, "task-3", batch_id="b1", ends_batch=True)
    assert await batches.open_batches(rows.db, series.id) == []


async def test_a_task_that_comes_after_the_end_of_its_batch_does_not_open_it_again(
    db, series, collecting, announce, now
):
    await announce(collecting, "task-3", batch_id="b1", ends_batch=True)
    await announce(collecting, "task-1", batch_id="b1", now=now + MINUTE)
    assert await batches.open_batches(db, series.id) == []


async def test_open_batches_come_by_age(db, series, collecting, announce, now):
    for task, batch, later in (("task-1", "b2", 1), ("task-2", "b1", 1), ("task-3", "b3", 0)):
        await announce(collecting, task, batch_id=batch, now=now + later * MINUTE)
    await announce(collecting, "task-4", batch_id="b4", ends_batch=True)
    assert [each.id for each in await batches.open_batches(db, series.id)] == ["b3", "b1", "b2"]


async def test_a_copy_that_says_more_than_the_first_is_noted_and_less_takes_nothing_back(
    db, series, collecting, announce, note
):
    await announce(collecting, "task-1")
    await note("task-1", "b1")
    assert [each.id for each in await batches.open_batches(db, series.id)] == ["b1"]
    await note("task-1", "b2")
    await note("task-1", None)
    assert [each.id for each in await batches.open_batches(db, series.id)] == ["b1"]
    await note("task-1", "b1", ends=True)
    await note("task-1", "b1")
    assert await batches.open_batches(db, series.id) == []


async def test_an_end_counts_for_the_batch_that_its_task_is_in_whichever_comes_first(
    db, series, collecting, announce, note
):
    await announce(collecting, "task-1", ends_batch=True)
    await note("task-1", "b1")  # the name comes after the end
    assert await batches.open_batches(db, series.id) == []
    await announce(collecting, "task-2", batch_id="b2")
    await note("task-2", "b3", ends=True)  # another name does not move the task
    assert await batches.open_batches(db, series.id) == []
    assert await db.fetchval("SELECT batch_id FROM yume.runs WHERE task_id = 'task-2'") == "b2"


async def test_a_task_that_was_pulled_before_its_callback_came_counts_from_the_callback(
    db, rows, series, note, now
):
    await rows.run(series, await rows.dream(series), "task-1")
    await note("task-1", "b1", at=now + MINUTE)
    await note("task-1", "b1", at=now + 2 * MINUTE)
    assert await batches.open_batches(db, series.id) == [NamedBatch("b1", now + MINUTE, finished=False)]


async def test_a_note_about_an_unknown_task_or_another_series_changes_nothing(
    rows, series, collecting, announce, note
):
    await announce(collecting, "task-1")
    await note("task-2", "b1")
    other = await rows.series("another")
    await batches.note_batch(rows.db, other.id, "task-1", batch_id="b1", ends_batch=False, now=rows.now)
    assert await batches.open_batches(rows.db, series.id) == []
    assert await batches.batch_size(rows.db, collecting) == 1
