"""What the clock may do with a series: look at its export without a callback, or release what is approved."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.domain.schedule import Schedule
from yume.ids import LessonId
from yume.store import access, batches, effects, lessons
from yume.store.batches import Idle, Look

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)
NIGHTLY = Schedule("0 3 * * *", "Asia/Shanghai")


# Looking at the export


@pytest.fixture
async def watched(db, series, now):
    """The series, made at the tests' instant."""
    await db.execute("UPDATE yume.series SET created_at = $1", now)
    return series


async def test_a_series_without_a_schedule_is_looked_at_when_no_batch_came_for_as_long_as_one_may_wait(
    db, watched, now
):
    due = now + watched.batch_max_wait
    assert await batches.to_look_at(db, due - INSTANT) == []
    assert await batches.to_look_at(db, due) == [Look(watched.id, None, watched.batch_max_wait, now, None)]


async def test_a_batch_that_collects_is_looked_at_by_its_own_waiting_time_alone(
    db, rows, watched, announce, now
):
    due = now + 2 * watched.batch_max_wait
    collecting = await rows.dream(watched, "collecting")
    assert await batches.to_look_at(db, due) != []  # it holds nothing that it could wait for
    await announce(collecting, "T1")
    assert await batches.to_look_at(db, due) == []


async def test_a_series_with_a_schedule_always_comes_with_what_its_schedule_is_judged_by(
    db, rows, watched, announce, now
):
    await db.execute("UPDATE yume.series SET schedule = $1", NIGHTLY.to_json())
    wait = watched.batch_max_wait
    assert await batches.to_look_at(db, now) == [Look(watched.id, NIGHTLY.to_json(), wait, now, None)]
    collecting = await rows.dream(watched, "collecting")
    await announce(collecting, "T1")
    assert await batches.to_look_at(db, now) == [Look(watched.id, NIGHTLY.to_json(), wait, now, collecting)]


@pytest.mark.parametrize("trigger", ["callback", "schedule", "manual"])
async def test_a_batch_that_was_closed_counts_as_a_look(db, watched, now, trigger):
    dream = await batches.collecting(db, watched.id, trigger, now)
    await batches.close_batch(db, dream, batch_id=None, now=now + MINUTE)
    assert await batches.start_next(db, watched.id, now + MINUTE) == dream
    due = now + MINUTE + watched.batch_max_wait
    assert await batches.to_look_at(db, due - INSTANT) == []
    assert [each.looked_at for each in await batches.to_look_at(db, due)] == [now + MINUTE]


async def test_a_release_is_no_look(db, watched, now):
    later = now + MINUTE
    await batches.queue_release(db, watched.id, by="a", why="b", forced=False, gate={}, now=later)
    await batches.start_next(db, watched.id, later)
    assert [each.looked_at for each in await batches.to_look_at(db, now + watched.batch_max_wait)] == [now]


async def test_a_series_with_a_dream_that_waits_its_turn_is_not_looked_at(db, rows, watched, now):
    await db.execute("UPDATE yume.series SET schedule = $1", NIGHTLY.to_json())
    await rows.dream(watched, "queued")
    assert await batches.to_look_at(db, now + 2 * watched.batch_max_wait) == []
    await batches.start_next(db, watched.id, now)
    assert [each.series for each in await batches.to_look_at(db, now)] == [watched.id]


@pytest.mark.parametrize(("table", "column"), [("series", "paused_at"), ("platforms", "disabled_at")])
async def test_what_is_paused_or_switched_off_is_not_looked_at(db, watched, now, table, column):
    await db.execute("UPDATE yume.series SET schedule = $1", NIGHTLY.to_json())
    await db.execute(f"UPDATE yume.{table} SET {column} = $1", now)
    assert await batches.to_look_at(db, now + 2 * watched.batch_max_wait) == []
    await db.execute(f"UPDATE yume.{table} SET {column} = NULL")
    assert [each.series for each in await batches.to_look_at(db, now)] == [watched.id]


# Releasing


@pytest.fixture
async def waiting(db, rows, series, now):
    """A series that writes, is idle, and has an approved lesson that is in no slot."""
    await access.promote(db, series, "auto", by="person:ada", why="a test", now=now)
    return await rows.lesson(series, origin="owner", state="approved")


@pytest.fixture
def put(db, rows, series, now):
    """Have the slot hold lessons, at some minute."""

    async def holds(*held: LessonId, version: int = 1, kind="write") -> None:
        lesson_set = await rows.lesson_set(series, None, version, holds=held)
        injection = await rows.injection(series, lesson_set, kind=kind)
        await effects.written(db, series.id, injection, str(version), now + version * MINUTE)

    return holds


async def _released(db, since, now=None) -> bool:
    return bool(await batches.may_release(db, since, now or since))


async def test_a_release_may_be_due_where_approved_lessons_are_not_in_the_slot(
    db, rows, series, waiting, now
):
    await rows.series("another")
    assert await batches.may_release(db, now, now) == [Idle(series.id, "tobatsu", "kamila")]


async def test_no_release_is_due_where_the_slot_holds_just_what_is_approved(rows, series, waiting, put):
    more = await rows.lesson(series, origin="owner", state="approved")
    await put(more, waiting)  # in whatever order
    assert not await _released(rows.db, rows.now)


async def test_no_release_is_due_where_nothing_is_approved_and_nothing_was_written(db, series, now):
    await access.promote(db, series, "gated", by="person:ada", why="a test", now=now)
    assert not await _released(db, now)


async def test_a_release_is_due_where_the_slot_holds_more_than_is_approved(rows, series, waiting, put, move):
    gone = await rows.lesson(series, origin="owner", state="approved")
    await put(waiting, gone)
    await move(gone, "approved", "retired")
    assert await _released(rows.db, rows.now)


async def test_what_the_slot_held_last_counts(db, waiting, put, now):
    await put(waiting, version=1)
    await put(version=2, kind="rollback")
    assert await _released(db, now)


async def test_a_set_that_was_not_written_is_not_in_the_slot(db, rows, series, waiting, now):
    lesson_set = await rows.lesson_set(series, None, holds=(waiting,))
    await effects.refused(db, await rows.injection(series, lesson_set), "conflict", "foreign text")
    assert await _released(db, now)


async def test_a_series_that_only_reports_releases_nothing(db, series, waiting, now):
    assert await access.demote(db, series.id, by="person:ada", why="stop", now=now)
    assert not await _released(db, now)


@pytest.mark.parametrize(("table", "column"), [("series", "paused_at"), ("platforms", "disabled_at")])
async def test_what_is_paused_or_switched_off_releases_nothing(db, waiting, now, table, column):
    await db.execute(f"UPDATE yume.{table} SET {column} = $1", now)
    assert not await _released(db, now)
    await db.execute(f"UPDATE yume.{table} SET {column} = NULL")
    assert await _released(db, now)


@pytest.mark.parametrize(
    ("status", "free"),
    [
        *(("collecting", True), ("queued", False), ("running", False), ("parked", True)),
        *(("finished", True), ("failed", True), ("cancelled", True)),
    ],
)
async def test_no_release_is_due_while_a_dream_runs_or_waits_its_turn(rows, series, waiting, status, free):
    await rows.dream(series, status)
    assert await _released(rows.db, rows.now) is free


async def test_no_release_is_due_while_anything_waits_to_be_done_in_the_slot(db, rows, series, waiting, now):
    command = await rows.injection(series, None)
    assert not await _released(db, now)
    await effects.refused(db, command, "failed", "no answer")
    ended = await rows.dream(series, "cancelled")
    left_over = await rows.injection(series, None, dream=ended)
    assert not await _released(db, now)
    await effects.refused(db, left_over, "failed", "its dream ended")
    assert await _released(db, now)


async def test_several_approvals_make_one_release_when_the_lessons_were_left_alone(db, series, waiting, now):
    last = now + 5 * MINUTE
    rule, told = LessonId(series.id), {"by": "person:ada", "why": "mine", "now": last}
    await lessons.add_owners_rule(db, rule, series.id, "Look first.", **told)
    assert not await _released(db, last - INSTANT)
    assert await _released(db, last)


@pytest.mark.parametrize("ended", ["failed", "cancelled"])
async def test_a_release_that_came_to_nothing_is_opened_again_only_after_a_while(
    db, series, waiting, now, ended
):
    last = await batches.queue_release(db, series.id, by="t", why="w", forced=False, gate={}, now=now)
    for status in ("running", ended):
        over = now if status == ended else None
        await db.execute(
            "UPDATE yume.dream_runs SET status = $2, finished_at = $3 WHERE id = $1", last, status, over
        )
    wait = series.batch_max_wait
    assert not await _released(db, now, now + wait - INSTANT)
    assert await _released(db, now, now + wait)
