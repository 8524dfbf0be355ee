"""One worker has a dream's step at a time, and one that lost it saves nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from yume.errors import StepTakenError
from yume.ids import DreamId, new_id
from yume.store import dreams

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


@pytest.fixture
def take(db, now):
    async def taken(dream, holder, at=now) -> bool:
        return await dreams.take_lease(db, dream, holder, now=at, until=at + MINUTE)

    return taken


async def _fence(db, dream) -> int:
    return (await dreams.progress_of(db, dream)).fence


async def test_a_step_that_one_worker_has_is_refused_to_another_until_the_lease_runs_out(
    db, dream, take, now
):
    first, second = new_id(), new_id()
    assert await take(dream, first)
    assert (await dreams.progress_of(db, dream)).lease_until == now + MINUTE
    assert not await take(dream, second, now + MINUTE - INSTANT)
    assert await _fence(db, dream) == 1
    assert await take(dream, second, now + MINUTE)
    assert not await take(dream, first, now + MINUTE)
    assert await _fence(db, dream) == 2


async def test_a_worker_that_takes_its_own_lease_again_gets_a_new_fence(db, dream, take):
    holder = new_id()
    assert [await take(dream, holder), await take(dream, holder)] == [True, True]
    assert await _fence(db, dream) == 2


async def test_of_workers_that_reach_for_a_step_together_one_gets_it(database, db, dream, now):
    async def reach() -> bool:
        async with database.acquire() as own:
            return await dreams.take_lease(own, dream, new_id(), now=now, until=now + MINUTE)

    assert sorted(await asyncio.gather(reach(), reach(), reach())) == [False, False, True]
    assert await _fence(db, dream) == 1


@pytest.mark.parametrize("status", ["queued", "parked", "finished", "failed", "cancelled"])
async def test_a_dream_that_does_not_run_gives_no_lease(db, rows, series, take, status):
    dream = await rows.dream(series, status)
    assert not await take(dream, new_id())
    assert await _fence(db, dream) == 0


async def test_no_dream_gives_no_lease(take):
    assert not await take(DreamId(new_id()), new_id())


async def test_a_sign_of_life_of_the_holder_prolongs_its_lease_and_no_others_does(db, dream, take, now):
    holder, other = new_id(), new_id()
    await take(dream, holder)
    await dreams.beat(db, dream, other, now=now + MINUTE, until=now + 9 * MINUTE)
    assert (await dreams.progress_of(db, dream)).lease_until == now + MINUTE
    await dreams.beat(db, dream, holder, now=now + MINUTE / 2, until=now + 2 * MINUTE)
    assert (await dreams.progress_of(db, dream)).lease_until == now + 2 * MINUTE
    assert not await take(dream, other, now + MINUTE)
    assert await _fence(db, dream) == 1  # the holder's work stays good


async def test_a_lease_that_is_given_back_may_be_taken_at_once_and_only_its_holder_gives_it_back(
    db, dream, take
):
    holder, other = new_id(), new_id()
    await take(dream, holder)
    await dreams.give_lease_back(db, dream, other)
    assert not await take(dream, other)
    await dreams.give_lease_back(db, dream, holder)
    assert (await dreams.progress_of(db, dream)).lease_until is None
    assert await take(dream, other)


async def test_a_worker_whose_lease_another_took_saves_nothing(database, db, dream, take, now):
    await take(dream, new_id())
    old = (await dreams.dream_of(db, dream)).fence
    await take(dream, new_id(), now + MINUTE)

    async def save_late() -> None:
        async with database.acquire() as own, own.transaction():
            await dreams.save_pulled(own, dream, broken=[{"task_id": "late"}], proposals=[])
            await dreams.mark_step(own, dream, "s1_pull", now, fence=old, counters={"tasks": 9})

    with pytest.raises(StepTakenError, match="s1_pull"):
        await save_late()
    found = await dreams.dream_of(db, dream)
    assert (found.step, found.counters, found.broken) == (None, {}, [])
    await dreams.mark_step(db, dream, "s1_pull", now, fence=found.fence, counters={"tasks": 3})
    assert (await dreams.dream_of(db, dream)).counters == {"tasks": 3}


async def test_a_step_that_is_saved_frees_the_dream_for_the_next_one(db, dream, take, now):
    await take(dream, new_id())
    await dreams.mark_step(db, dream, "s1_pull", now, fence=1)
    assert (await dreams.progress_of(db, dream)).lease_until is None
    assert await take(dream, new_id())
    with pytest.raises(StepTakenError):  # the fence of the step before is an old one
        await dreams.mark_step(db, dream, "s2_extract", now, fence=1)
    await dreams.mark_step(db, dream, "s2_extract", now, fence=2)
