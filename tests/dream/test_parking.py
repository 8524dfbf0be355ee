"""A dream that waits for a person, one that goes on, one that is ended; and the dreams that come after it."""

from __future__ import annotations

from typing import Any

import pytest

from yume.acts import dreams, releases
from yume.errors import ParkedError, PermanentError

WHERE = ("practice", "kamila")
WHY = {"by": "a person", "why": "a test"}
RULE = "Keep the names of the files as they are."
STEPS = ("s1_pull", "s3_classify", "s5_merge", "s7_compile", "s8_write")


class Parking:
    """A step that leaves its first dream to a person until one says otherwise."""

    def __init__(self) -> None:
        self.first: Any = None
        self.closed = True

    async def __call__(self, run, batch, resources) -> None:
        self.first = self.first or batch.dream_id
        if self.closed and batch.dream_id == self.first:
            raise ParkedError("the budget is spent")
        await run(batch, resources)


async def of_dream(world, kind: str, row) -> list[Any]:
    return [each.data for each in await world.told(kind) if each.data["dream_id"] == str(row["id"])]


async def ids_of(world, row) -> set[str]:
    rows = await world.rows("SELECT task_id FROM yume.runs WHERE dream_id = $1", row["id"])
    return {each["task_id"] for each in rows}


async def parked(world, number: int):
    return await world.until_row(number, lambda row: row["status"] == "parked")


async def cancel(world, number: int):
    await dreams.cancel(*WHERE, number, world.resources, **WHY)
    return await world.dreamt(number)


@pytest.mark.parametrize("step", STEPS)
async def test_a_parked_dream_waits_for_a_person_while_the_next_one_goes_on(auto, step):
    parking = auto.around[step] = Parking()
    await auto.run_batch(8)
    row = await parked(auto, 1)
    assert (row["reason"], row["finished_at"]) == ("the budget is spent", None)
    assert [each["reason"] for each in await of_dream(auto, "dream.parked", row)] == ["the budget is spent"]
    second = await auto.dream(6)
    assert (second["number"], second["status"], second["counters"]["tasks"]) == (2, "finished", 6)
    assert await parked(auto, 1) == row

    parking.closed = False
    await dreams.resume(*WHERE, 1, auto.resources, **WHY)
    first = await auto.dreamt(1)
    assert (first["status"], first["attempt"], first["asked_by"]) == ("finished", 2, "a person")
    assert first["started_at"] == row["started_at"]
    assert first["counters"]["tasks"] == 8
    assert len(await of_dream(auto, "dream.finished", first)) == 1
    assert not await auto.stored("dead")
    await auto.check_oracle()


async def test_a_dream_resumed_late_writes_nothing_over_what_came_into_the_slot_meanwhile(auto):
    parking = auto.around["s8_write"] = Parking()
    await auto.run_batch(10)
    await parked(auto, 1)
    await auto.add_owners_rule(RULE)
    assert (await auto.dream(10))["result"] == "published"
    newer = auto.slot()
    parking.closed = False
    await dreams.resume(*WHERE, 1, auto.resources, **WHY)
    first = await auto.dreamt(1)
    assert (first["result"], first["reason"], auto.slot()) == ("held", "overtaken", newer)
    assert RULE in newer.text
    await auto.check_oracle()


async def test_a_dream_resumed_late_brings_nothing_back_that_a_person_rolled_back(auto):
    await auto.dream(10)
    await auto.add_owners_rule(RULE)
    await auto.release()
    await auto.add_owners_rule("Write numbers with a point and not with a comma.")
    parking = auto.around["s8_write"] = Parking()
    asked = await releases.release_now(*WHERE, auto.resources, **WHY)
    await parked(auto, 3)
    await auto.rollback(1)
    old = auto.slot()
    parking.closed = False
    await dreams.resume(*WHERE, 3, auto.resources, **WHY)
    row = await auto.ended(asked)
    assert (row["result"], row["reason"], auto.slot()) == ("held", "overtaken", old)
    assert RULE not in old.text
    await auto.check_oracle()


async def test_a_dream_that_has_to_wait_for_the_dwell_says_so_after_it_was_parked_too(auto):
    await auto.dream(10)
    await auto.add_owners_rule(RULE)
    parking = auto.around["s8_write"] = Parking()
    await auto.run_batch(6)
    await parked(auto, 2)
    parking.closed = False
    await dreams.resume(*WHERE, 2, auto.resources, **WHY)
    row = await auto.dreamt(2)
    assert (row["result"], row["reason"], auto.slot().version) == ("held", "dwell", 1)


async def test_a_dream_that_is_parked_again_tells_so_again(auto):
    parking = auto.around["s4_draft"] = Parking()
    await auto.run_batch(8)
    row = await parked(auto, 1)
    await dreams.resume(*WHERE, 1, auto.resources, **WHY)
    await auto.until_row(1, lambda again: again["status"] == "parked" and again["attempt"] == 2)
    assert len(await of_dream(auto, "dream.parked", row)) == 2
    parking.closed = False
    await dreams.resume(*WHERE, 1, auto.resources, **WHY)
    assert (await auto.dreamt(1))["status"] == "finished"


async def test_only_a_parked_dream_is_resumed_and_only_one_that_has_not_ended_is_cancelled(auto):
    await auto.dream(6)
    with pytest.raises(PermanentError, match="dream 1 is finished, not parked: only a parked dream"):
        await dreams.resume(*WHERE, 1, auto.resources, **WHY)
    with pytest.raises(PermanentError, match="dream 1 is finished: there is nothing left to cancel"):
        await dreams.cancel(*WHERE, 1, auto.resources, **WHY)
    with pytest.raises(PermanentError, match="has no dream 7"):
        await dreams.cancel(*WHERE, 7, auto.resources, **WHY)


async def test_the_tasks_of_a_batch_that_is_cancelled_while_it_collects_are_the_next_ones(auto, told_soon):
    tasks = await auto.run_quietly(6)
    for task in tasks[:2]:
        await auto.tell(
            {
                "platform": "practice",
                "series": "kamila",
                "task_id": task["id"],
                "status": task["status"],
                "finished_at": task["finished_at"],
            }
        )
    await auto.until_row(1, lambda row: row["status"] == "collecting")
    await auto.settled()
    first = await cancel(auto, 1)
    assert (first["status"], first["result"], first["step"]) == ("cancelled", "cancelled", None)
    second = await auto.dream(4)
    assert (second["status"], second["counters"]["tasks"]) == ("finished", 10)
    assert await ids_of(auto, second) >= {task["id"] for task in tasks}
    assert not await ids_of(auto, first)
    await told_once(auto, first)


async def test_the_tasks_of_a_dream_that_is_cancelled_while_it_waits_are_the_next_ones(auto, told_soon):
    await auto.value("UPDATE yume.series SET paused_at = now() RETURNING id")
    tasks = await auto.run_batch(6)
    await auto.until_row(1, lambda row: row["status"] == "queued")
    first = await cancel(auto, 1)
    assert (first["status"], first["started_at"]) == ("cancelled", None)
    await auto.value("UPDATE yume.series SET paused_at = NULL RETURNING id")
    second = await auto.dream(4)
    assert second["counters"]["tasks"] == 10
    assert await ids_of(auto, second) >= {task["id"] for task in tasks}
    await told_once(auto, first)


@pytest.mark.parametrize("step", STEPS[::2])
async def test_a_running_dream_that_is_cancelled_saves_nothing_more_and_the_next_one_goes_on(
    auto, standstill, told_soon, step
):
    still = auto.around[step] = standstill()
    tasks = await auto.run_batch(6)
    await still.reached.wait()
    before = await auto.row_of(1)
    await dreams.cancel(*WHERE, 1, auto.resources, **WHY)
    still.go.set()
    first = await auto.dreamt(1)
    assert (first["status"], first["result"], first["reason"]) == (
        "cancelled",
        "cancelled",
        "cancelled by a person: a test",
    )
    assert (first["step"], first["counters"]) == (before["step"], before["counters"])
    assert auto.slot().version == 0
    assert not await auto.rows("SELECT id FROM yume.injections WHERE status = 'written'")
    second = await auto.dream(4)
    assert second["status"] == "finished"
    pulled = step != "s1_pull"
    assert (second["counters"]["tasks"], await ids_of(auto, first)) == (
        (4, {task["id"] for task in tasks}) if pulled else (10, set())
    )
    await told_once(auto, first)
    await auto.check_oracle()


async def test_a_parked_dream_that_is_cancelled_stays_ended(auto, told_soon):
    auto.around["s4_draft"] = Parking()
    await auto.run_batch(6)
    await parked(auto, 1)
    first = await cancel(auto, 1)
    assert (first["status"], first["step"]) == ("cancelled", "s3_classify")
    with pytest.raises(PermanentError, match="dream 1 is cancelled, not parked"):
        await dreams.resume(*WHERE, 1, auto.resources, **WHY)
    assert (await auto.dream(4))["counters"]["tasks"] == 4
    await told_once(auto, first)
    await auto.check_oracle()


async def told_once(world, row) -> None:
    await world.settled()
    ended = await of_dream(world, "dream.finished", row)
    assert [(each["result"], each["reason"]) for each in ended] == [("cancelled", row["reason"])]
    assert not await of_dream(world, "dream.failed", row)
    assert not await world.stored("dead")
