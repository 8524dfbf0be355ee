"""What is left to a person, what a person ends, and what a dream waits for without failing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.domain.dreams import PATIENCE, REQUESTED
from yume.store import batches, dreams

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)
STATUSES = ["collecting", "queued", "running", "parked", "finished", "failed", "cancelled"]


async def _row(db, dream):
    return await db.fetchrow("SELECT * FROM yume.dream_runs WHERE id = $1", dream)


# Parking


@pytest.mark.parametrize("status", STATUSES)
async def test_only_a_running_dream_is_parked(db, rows, series, status):
    dream = await rows.dream(series, status)
    before = await _row(db, dream)
    assert await dreams.park(db, dream, "the model is gone") is (status == "running")
    after = await _row(db, dream)
    if status == "running":
        assert (after["status"], after["reason"], after["finished_at"]) == (
            "parked",
            "the model is gone",
            None,
        )
    else:
        assert after == before


@pytest.mark.parametrize("status", STATUSES)
async def test_only_a_parked_dream_is_resumed(db, rows, series, status):
    dream = await rows.dream(series, status)
    before = await _row(db, dream)
    assert await dreams.resume(db, dream, by="person:ada", why="it is back") is (status == "parked")
    after = await _row(db, dream)
    if status == "parked":
        assert (after["status"], after["asked_by"], after["why"]) == ("queued", "person:ada", "it is back")
    else:
        assert after == before


async def test_a_dream_that_is_resumed_goes_on_behind_its_last_step_as_a_new_attempt(db, series, dream, now):
    await dreams.mark_step(db, dream, "s2_extract", now, counters={"signals": 4})
    await dreams.mark_announced(db, dream, "s2_extract", now)
    await dreams.park(db, dream, "the model is gone")
    assert await dreams.running_dream(db, series.id) is None
    await dreams.resume(db, dream, by="person:ada", why="it is back")
    assert await batches.start_next(db, series.id, now + MINUTE) == dream
    (due,) = await dreams.unannounced(db, now + MINUTE, now + MINUTE)
    assert (due.id, due.step, due.attempt) == (dream, "s2_extract", 2)
    found = await dreams.dream_of(db, dream)
    assert (found.counters, found.reason) == ({"signals": 4}, None)


async def test_a_dream_that_is_resumed_waits_for_the_one_in_progress(db, rows, series, now):
    parked = await rows.dream(series, "parked")
    running = await rows.dream(series, "running")
    await dreams.resume(db, parked, by="person:ada", why="it is back")
    assert await batches.start_next(db, series.id, now) is None
    await dreams.finish(db, running, now)
    assert await batches.start_next(db, series.id, now) == parked


async def test_the_dream_in_progress_is_the_running_one_of_the_series(db, rows, series):
    assert await dreams.running_dream(db, series.id) is None
    for status in ("finished", "parked"):
        await rows.dream(series, status)
    dream = await rows.dream(series, "running")
    await rows.dream(series, "queued")
    assert await dreams.running_dream(db, series.id) == dream
    assert await dreams.running_dream(db, (await rows.series("another")).id) is None


# Cancelling


@pytest.mark.parametrize("status", STATUSES)
async def test_a_dream_that_has_not_ended_is_cancelled_once(db, rows, series, status, now):
    dream = await rows.dream(series, status)
    before = await _row(db, dream)
    ended = status in ("finished", "failed", "cancelled")
    assert await dreams.cancel(db, dream, "cancelled by person:ada", now + MINUTE) is not ended
    after = await _row(db, dream)
    if ended:
        assert after == before
    else:
        assert (after["status"], after["result"], after["reason"], after["finished_at"]) == (
            *("cancelled", "cancelled", "cancelled by person:ada", now + MINUTE),
        )
    assert not await dreams.cancel(db, dream, "again", now + 2 * MINUTE)


async def test_a_dream_that_was_cancelled_stays_untold_until_its_last_event_is_stored(db, dream, now):
    await dreams.mark_step(db, dream, "s8_write", now)
    await dreams.mark_announced(db, dream, "s8_write", now)
    assert await dreams.cancel(db, dream, "rollback by person:ada", now)
    assert (await dreams.progress_of(db, dream)).announced is None
    assert await dreams.untold_endings(db, now) == []  # whoever cancelled it is about to tell
    (untold,) = await dreams.untold_endings(db, now + INSTANT)
    assert (untold.id, untold.platform, untold.series, untold.step) == (
        *(dream, "tobatsu", "kamila", "s8_write"),
    )
    await dreams.mark_announced(db, dream, "s9_measure", now)
    assert await dreams.untold_endings(db, now + INSTANT) == []
    told = await dreams.progress_of(db, dream)
    assert (told.status, told.result, told.reason) == ("cancelled", "cancelled", "rollback by person:ada")


async def test_a_dream_that_is_cancelled_before_its_first_step_is_told_of_too(db, rows, series, now):
    dream = await rows.dream(series, "queued")
    await dreams.cancel(db, dream, "cancelled by person:ada", now)
    assert [each.id for each in await dreams.untold_endings(db, now + INSTANT)] == [dream]
    await dreams.mark_announced(db, dream, "s9_measure", now)
    assert await dreams.untold_endings(db, now + INSTANT) == []


async def test_a_dream_that_was_cancelled_makes_way(db, rows, series, dream, now):
    following = await rows.dream(series, "queued")
    await dreams.cancel(db, dream, "cancelled by person:ada", now)
    assert await batches.start_next(db, series.id, now) == following


# Waiting


async def test_what_a_dream_waits_for_moves_its_deadline_and_never_back(db, dream, now):
    end = now + PATIENCE
    await dreams.wait_until(db, dream, end - MINUTE)
    assert await dreams.past_deadline(db, end) == [dream]
    await dreams.wait_until(db, dream, end + MINUTE)
    assert await dreams.past_deadline(db, end) == []
    assert await dreams.past_deadline(db, end + MINUTE) == [dream]


async def test_a_dream_that_does_not_run_gets_no_later_deadline(db, rows, series, now):
    dream = await rows.dream(series, "parked")
    await dreams.wait_until(db, dream, now + 9 * PATIENCE)
    assert (await _row(db, dream))["deadline"] == now + PATIENCE


async def _waits(db, dream, step, now):
    await dreams.mark_step(db, dream, step, now)
    await dreams.mark_announced(db, dream, step, now)
    await dreams.put_off(db, dream, now + 60 * MINUTE)


async def test_a_dream_that_waits_to_write_is_woken(db, rows, series, dream, now):
    await _waits(db, dream, "s7_compile", now)
    await dreams.wake(db, (await rows.series("another")).id, now + MINUTE)
    assert await dreams.unannounced(db, now + MINUTE, now + MINUTE) == []
    await dreams.wake(db, series.id, now + MINUTE)
    assert await dreams.unannounced(db, now + MINUTE - INSTANT, now + MINUTE) == []
    assert [due.id for due in await dreams.unannounced(db, now + MINUTE, now + MINUTE)] == [dream]


async def test_a_dream_that_waits_for_something_else_is_not_woken(db, series, dream, now):
    await _waits(db, dream, "s3_classify", now)
    await dreams.wake(db, series.id, now + MINUTE)
    assert await dreams.unannounced(db, now + MINUTE, now + MINUTE) == []


async def test_waking_never_puts_a_dream_off(db, series, dream, now):
    await _waits(db, dream, "s7_compile", now)
    await dreams.wake(db, series.id, now + 90 * MINUTE)
    assert [due.id for due in await dreams.unannounced(db, now + 60 * MINUTE, now)] == [dream]


async def test_a_dream_that_waits_for_nothing_is_left_alone(db, series, dream, now):
    await dreams.mark_announced(db, dream, REQUESTED, now)
    before = await _row(db, dream)
    await dreams.wake(db, series.id, now + MINUTE)
    assert await _row(db, dream) == before
