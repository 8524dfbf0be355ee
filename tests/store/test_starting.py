"""Which dream starts, when, and what it stands on."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from yume.domain.dreams import PATIENCE
from yume.ids import DreamId, new_id
from yume.store import batches, dreams, effects

MINUTE = timedelta(minutes=1)


async def _row(db, dream):
    return await db.fetchrow("SELECT * FROM yume.dream_runs WHERE id = $1", dream)


async def test_the_oldest_queued_dream_starts_when_none_runs(db, rows, series, now):
    first = await rows.dream(series, "queued")
    second = await rows.dream(series, "queued")
    assert await batches.waiting_series(db) == [series.id]
    assert await batches.start_next(db, series.id, now) == first
    assert await batches.waiting_series(db) == []
    assert await batches.start_next(db, series.id, now) is None
    await dreams.finish(db, first, now)
    assert await batches.waiting_series(db) == [series.id]
    assert await batches.start_next(db, series.id, now + MINUTE) == second
    row = await _row(db, second)
    assert (row["started_at"], row["deadline"]) == (now + MINUTE, now + MINUTE + PATIENCE)


async def test_a_batch_that_still_collects_does_not_start(db, rows, series, now):
    await rows.dream(series, "collecting")
    assert await batches.waiting_series(db) == []
    assert await batches.start_next(db, series.id, now) is None


async def test_a_paused_series_starts_nothing(db, rows, series, now):
    dream = await rows.dream(series, "queued")
    await db.execute("UPDATE yume.series SET paused_at = $1", now)
    assert await batches.start_next(db, series.id, now) is None
    await db.execute("UPDATE yume.series SET paused_at = NULL")
    assert await batches.start_next(db, series.id, now) == dream


async def test_a_dream_starts_on_the_newest_set_and_keeps_it(db, rows, series):
    first = await rows.dream(series, "finished")
    base = [await rows.lesson_set(series, first, version) for version in (1, 2)][-1]
    dream = await rows.dream(series, "running")
    await rows.lesson_set(series, dream, 3)
    found = await dreams.dream_of(db, dream)
    assert found.base_lesson_set_id == base
    assert (await _row(db, dream))["base_body_sha256"] == f"{2:064x}"
    assert found.taxonomy_id == series.taxonomy_id


@pytest.fixture
def write(db, rows, series, now):
    async def written(lesson_set, version: str, later: int = 0, kind="write") -> None:
        injection = await rows.injection(series, lesson_set, kind=kind)
        await effects.written(db, series.id, injection, version, now + later * MINUTE)

    return written


async def test_a_dream_stands_on_what_the_slot_holds_and_not_on_the_newest_set(db, rows, series, write):
    first = await rows.dream(series, "finished")
    old, newer, _newest = [await rows.lesson_set(series, first, version) for version in (1, 2, 3)]
    await write(old, "1")
    await write(newer, "2", 1)
    await write(old, "3", 2, "rollback")
    await rows.injection(series, newer, kind="write")  # it never came into the slot
    dream = await rows.dream(series, "running")
    assert (await dreams.dream_of(db, dream)).base_lesson_set_id == old
    assert (await _row(db, dream))["base_body_sha256"] == f"{1:064x}"


async def test_the_set_of_another_series_is_nobodys_base(db, rows, series):
    other = await rows.series("another")
    await rows.lesson_set(other, None)
    assert (await dreams.dream_of(db, await rows.dream(series))).base_lesson_set_id is None


async def _replay(db, original, now, *, applies: bool):
    replay = DreamId(new_id())
    asked = {"by": "person:ada", "why": "a test"}
    assert await batches.queue_replay(db, replay, original, behind=None, applies=applies, now=now, **asked)
    return replay


@pytest.mark.parametrize("applies", [False, True])
async def test_a_replay_that_only_shows_keeps_what_its_original_stood_on(db, rows, series, now, applies):
    old = await rows.lesson_set(series, None, 1)
    original = await rows.dream(series, "finished")
    newest = await rows.lesson_set(series, None, 2)
    taxonomy = await db.fetchval("SELECT id FROM yume.taxonomies WHERE id <> $1", series.taxonomy_id)
    await db.execute("UPDATE yume.series SET taxonomy_id = $1", taxonomy)
    replay = await _replay(db, original, now + MINUTE, applies=applies)
    assert await batches.start_next(db, series.id, now + MINUTE) == replay
    found = await dreams.dream_of(db, replay)
    stands = (newest, taxonomy) if applies else (old, series.taxonomy_id)
    assert (found.base_lesson_set_id, found.taxonomy_id) == stands
    assert found.frozen_at == (now + MINUTE if applies else now)


async def test_a_replay_of_a_dream_that_never_started_stands_on_what_there_is_now(db, rows, series, now):
    original = await rows.dream(series, "cancelled")
    base = await rows.lesson_set(series, None, 1)
    replay = await _replay(db, original, now, applies=False)
    assert await batches.start_next(db, series.id, now + MINUTE) == replay
    found = await dreams.dream_of(db, replay)
    assert (found.base_lesson_set_id, found.taxonomy_id) == (base, series.taxonomy_id)
    assert found.frozen_at == now + MINUTE


async def test_a_dream_that_was_parked_keeps_what_it_stood_on_and_gets_a_new_deadline(db, rows, series, now):
    base = await rows.lesson_set(series, None, 1)
    dream = await rows.dream(series, "parked")
    await rows.lesson_set(series, None, 2)
    assert await dreams.resume(db, dream, by="person:ada", why="the model is back")
    assert await batches.start_next(db, series.id, now + MINUTE) == dream
    row = await _row(db, dream)
    assert (row["base_lesson_set_id"], row["base_body_sha256"]) == (base, f"{1:064x}")
    assert (row["started_at"], row["deadline"]) == (now, now + MINUTE + PATIENCE)


@pytest.mark.parametrize("kind", ["rollback", "kill", "adopted", "experiment"])
async def test_nothing_starts_while_a_persons_command_waits(db, rows, series, now, kind):
    dream = await rows.dream(series, "queued")
    command = await rows.injection(series, None, kind=kind)
    other = await rows.series("another")
    await rows.dream(other, "running")  # of another series
    assert await batches.start_next(db, series.id, now) is None
    await effects.refused(db, command, "failed", "the platform does not answer")
    assert await batches.start_next(db, series.id, now) == dream


async def test_a_write_that_an_ended_dream_has_left_holds_up_no_dream(db, rows, series, now):
    ended = await rows.dream(series, "failed")
    await rows.injection(series, None, dream=ended)
    dream = await rows.dream(series, "queued")
    assert await batches.start_next(db, series.id, now) == dream


async def test_a_paused_series_does_not_count_as_waiting(db, rows, series, now):
    await rows.dream(series, "queued")
    await db.execute("UPDATE yume.series SET paused_at = $1", now)
    assert await batches.waiting_series(db) == []


async def test_two_orchestrators_that_start_together_start_one_dream(database, rows, series, now):
    waiting = {await rows.dream(series, "queued"), await rows.dream(series, "queued")}

    async def start():
        async with database.acquire() as db, db.transaction():
            await batches.lock_series(db, series.id)
            return await batches.start_next(db, series.id, now)

    started = await asyncio.gather(start(), start(), start())
    assert sorted(each is None for each in started) == [False, True, True]
    assert set(started) - {None} < waiting


async def test_the_lock_of_one_series_does_not_hold_up_another(database, rows, series):
    other = await rows.series("another")
    async with database.acquire() as one, one.transaction():
        await batches.lock_series(one, series.id)
        async with database.acquire() as two, two.transaction(), asyncio.timeout(5):
            await batches.lock_series(two, other.id)
