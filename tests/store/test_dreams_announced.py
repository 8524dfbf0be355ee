"""A dream's row is its own outbox: what is announced again, and when."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.domain.dreams import PATIENCE, REQUESTED
from yume.ids import DreamId, new_id
from yume.store import dreams

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


async def _due(db, now):
    return [due.id for due in await dreams.unannounced(db, now, now + INSTANT)]


async def test_a_dream_is_due_until_the_event_of_its_last_step_is_stored(db, dream, now):
    assert await _due(db, now) == [dream]
    await dreams.mark_announced(db, dream, REQUESTED, now)
    assert await _due(db, now) == []
    await dreams.mark_step(db, dream, "s1_pull", now)
    (due,) = await dreams.unannounced(db, now, now + INSTANT)
    assert (due.id, due.platform, due.series, due.step, due.attempt) == (
        *(dream, "tobatsu", "kamila", "s1_pull", 1),
    )
    await dreams.mark_announced(db, dream, "s1_pull", now)
    assert await _due(db, now) == []


async def test_a_worker_that_has_just_done_a_step_is_left_the_time_to_tell_so(db, dream, now):
    await dreams.mark_announced(db, dream, REQUESTED, now)
    await dreams.mark_step(db, dream, "s1_pull", now)
    assert await dreams.unannounced(db, now, now) == []
    assert [due.id for due in await dreams.unannounced(db, now, now + INSTANT)] == [dream]


@pytest.mark.parametrize("note", [REQUESTED, "s2_extract"])
async def test_a_note_about_another_step_changes_nothing(db, dream, now, note):
    await dreams.mark_step(db, dream, "s1_pull", now)
    await dreams.mark_announced(db, dream, note, now)
    assert await _due(db, now) == [dream]


async def test_an_older_note_takes_nothing_back(db, dream, now):
    for step in ("s1_pull", "s2_extract"):
        await dreams.mark_step(db, dream, step, now)
        await dreams.mark_announced(db, dream, step, now)
    await dreams.mark_announced(db, dream, "s1_pull", now)
    assert (await dreams.progress_of(db, dream)).announced == "s2_extract"


async def test_the_same_note_a_second_time_is_no_sign_of_life(db, dream, now):
    await dreams.mark_announced(db, dream, REQUESTED, now)
    await dreams.mark_announced(db, dream, REQUESTED, now + MINUTE)
    row = await db.fetchrow("SELECT announced_at, heartbeat_at FROM yume.dream_runs")
    assert (row["announced_at"], row["heartbeat_at"]) == (now, now)


async def test_a_dream_that_waits_is_not_announced(db, rows, series, now):
    for status in ("parked", "queued", "collecting"):
        await rows.dream(series, status)
    assert await _due(db, now) == []


async def test_a_dream_that_is_put_off_is_due_again_at_its_instant_as_a_new_attempt(db, dream, now):
    await dreams.mark_announced(db, dream, REQUESTED, now)
    assert await dreams.put_off(db, dream, now + MINUTE)
    assert await _due(db, now + MINUTE - INSTANT) == []
    (due,) = await dreams.unannounced(db, now + MINUTE, now + MINUTE)
    assert (due.id, due.attempt) == (dream, 2)
    await dreams.mark_announced(db, dream, REQUESTED, now + MINUTE)
    assert await _due(db, now + MINUTE) == []


async def test_a_dream_that_does_not_run_is_not_put_off(db, rows, series, now):
    for status in ("finished", "parked", "queued"):
        assert not await dreams.put_off(db, await rows.dream(series, status), now)
    assert not await dreams.put_off(db, DreamId(new_id()), now)


async def test_a_dream_that_fell_silent_is_due_again_as_a_new_attempt(db, dream, now):
    await dreams.mark_announced(db, dream, REQUESTED, now)
    assert await dreams.revive_stalled(db, now, now) == []  # it was heard of at that instant
    assert await dreams.revive_stalled(db, now + INSTANT, now) == [dream]
    (due,) = await dreams.unannounced(db, now, now + INSTANT)
    assert due.attempt == 2


async def test_a_sign_of_life_keeps_a_dream_from_being_stalled(db, dream, now):
    await dreams.mark_announced(db, dream, REQUESTED, now)
    holder = new_id()
    assert await dreams.take_lease(db, dream, holder, now=now, until=now + MINUTE)
    await dreams.beat(db, dream, holder, now=now + MINUTE, until=now + 2 * MINUTE)
    assert await dreams.revive_stalled(db, now + MINUTE, now) == []


async def test_a_dream_that_was_put_off_is_not_stalled_while_it_waits(db, dream, now):
    await dreams.put_off(db, dream, now + 60 * MINUTE)
    assert await dreams.revive_stalled(db, now + 30 * MINUTE, now) == []


async def test_a_dream_that_ended_is_not_stalled(db, rows, series, now):
    await rows.dream(series, "finished")
    await rows.dream(series, "failed")
    assert await dreams.revive_stalled(db, now + MINUTE, now) == []


async def test_a_dream_is_past_its_deadline_a_day_after_its_start(db, dream, now):
    assert await dreams.past_deadline(db, now + PATIENCE - INSTANT) == []
    assert await dreams.past_deadline(db, now + PATIENCE) == [dream]
    await dreams.fail(db, dream, "late", now)
    assert await dreams.past_deadline(db, now + PATIENCE) == []


async def test_a_dream_that_finished_stays_untold_until_its_last_event_is_stored(db, dream, now):
    await dreams.mark_step(db, dream, "s9_measure", now)
    await dreams.finish(db, dream, now)
    assert await dreams.untold_endings(db, now) == []  # its worker is about to tell
    assert [each.id for each in await dreams.untold_endings(db, now + INSTANT)] == [dream]
    await dreams.mark_announced(db, dream, "s9_measure", now)
    assert await dreams.untold_endings(db, now + INSTANT) == []
    assert (await dreams.progress_of(db, dream)).status == "finished"


async def test_a_dream_that_failed_stays_untold_until_its_last_event_is_stored(db, dream, now):
    await dreams.mark_step(db, dream, "s3_classify", now)
    await dreams.mark_announced(db, dream, "s3_classify", now)
    assert await dreams.fail(db, dream, "no answer", now)
    assert [each.id for each in await dreams.untold_endings(db, now + INSTANT)] == [dream]
    await dreams.mark_announced(db, dream, "s9_measure", now)
    assert await dreams.untold_endings(db, now + INSTANT) == []
