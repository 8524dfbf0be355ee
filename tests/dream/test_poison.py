"""One odd record, one clock ahead or one worker that stood still must not cost anybody else anything."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.acts import releases
from yume.errors import StepTakenError
from yume.ids import DreamId, LessonSetId
from yume.resources import open_resources
from yume.stages import s8_write
from yume.store import access, dreams, lessons

ODD = {
    "a key with NUL": lambda runs: runs[0].update(
        verdict="fail", verdict_details={"a\x00b": {"error": "it broke"}}
    ),
    "an exit code without end": lambda runs: runs[0].update(verdict="fail", exit_code="9" * 4_200),
    "a time that no table holds": lambda runs: runs[0].update(started_at="0001-01-01T00:00:00+14:00"),
    "a run without a name": lambda runs: runs[0].update(id=None),
    "the same attempt twice": lambda runs: runs.append(dict(runs[0])),
}


@pytest.mark.parametrize("poison", ODD.values(), ids=ODD)
async def test_an_odd_record_costs_no_other_task_and_no_later_dream(world, poison):
    tasks = await world.run_quietly(12)
    world.rewrite("run", tasks[3]["id"], poison)
    await world.tell_all(tasks)
    first = await world.dreamt(1)
    assert (first["status"], first["error"]) == ("finished", None)
    judged = await world.rows("SELECT task_id FROM yume.runs WHERE outcome IS NOT NULL")
    left_out = {each["task_id"] for each in first["broken"]}
    assert {row["task_id"] for row in judged} | left_out == {task["id"] for task in tasks}
    assert left_out <= {tasks[3]["id"]}
    second = await world.dream(4)
    assert second["status"] == "finished"
    assert second["counters"]["tasks"] == 4 + len(left_out)  # what could not be read is asked for again


async def test_an_attempt_that_a_moving_page_shows_twice_is_one_attempt(world):
    tasks = await world.run_quietly(4)
    world.rewrite("run", tasks[0]["id"], lambda runs: runs.extend([dict(runs[0]), dict(runs[0])]))
    await world.tell_all(tasks)
    await world.dreamt(1)
    attempts = await world.value("SELECT attempts FROM yume.runs WHERE task_id = $1", tasks[0]["id"])
    assert [each["attempt"] for each in attempts] == sorted({each["attempt"] for each in attempts})


async def test_a_callback_whose_clock_is_ahead_takes_nothing_from_the_batches_after_it(world):
    first = await world.run_quietly(2)
    ahead = world.resources.now() + timedelta(minutes=50)
    await world.tell_all([task | {"finished_at": ahead.isoformat()} for task in first])
    assert (await world.dreamt(1))["counters"]["tasks"] == 2
    for number in (2, 3):
        row = await world.dream(3)
        assert (row["number"], row["status"], row["counters"]["tasks"]) == (number, "finished", 3)
    assert not await world.rows("SELECT id FROM yume.runs WHERE pulled_at IS NULL")


async def test_a_worker_that_stood_still_gives_way_to_what_was_written_meanwhile(world):
    await world.promote()
    old = await world.dream(20)
    await world.add_owners_rule("Keep to the house style.")
    await releases.release_now("practice", "kamila", world.resources, by="test", why="a person wants it now")
    await world.dreamt(2)
    before = world.slot()
    assert before.version == 2
    async with open_resources(world.settings, "slot") as resources:
        async with resources.db.acquire() as db:
            dream = await dreams.dream_of(db, DreamId(old["id"]))
            name = await db.fetchval("SELECT id FROM yume.lesson_sets ORDER BY version LIMIT 1")
            target = await lessons.set_by_id(db, LessonSetId(name))
            platform = await access.platform_of(db, dream.series.platform)
        slept = s8_write.Plan(dream, platform, target, None, None)
        async with resources.slot(platform) as slot:
            with pytest.raises(StepTakenError, match="stood still"):
                await s8_write._write(slept, target, slot, resources)  # noqa: SLF001  # the step after its sleep
    assert world.slot() == before
