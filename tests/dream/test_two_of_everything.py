"""Two of each process come to what one of each comes to, and one that stood still saves nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest

from yume import steps
from yume.clients.slot import Slot
from yume.errors import StepTakenError

RULE = "Keep the names of the files as they are."
FROZEN = {"copies": 2, "ack_wait_s": 1, "stall_after_s": 2.5}


async def lived(world) -> dict[str, Any]:
    """Live the same life of a series in any world, and return what it came to, without ids and times."""
    await world.dream(15)
    await world.promote()
    rows = [await world.row_of(1), await world.dream(15)]
    texts = [rules(world)]
    await world.add_owners_rule(RULE)
    rows.append(await world.release())
    texts.append(rules(world))
    rows.append(await world.dream(15))
    rows.append(await world.replay(2, "s3"))
    command = await world.rollback()
    texts.append(rules(world))
    await world.settled()
    await world.check_oracle()
    return {
        "dreams": [
            {name: row[name] for name in ("number", "trigger", "status", "result", "reason", "attempt")}
            for row in rows
        ],
        "counters": [row["counters"] for row in rows],
        "usage": [row["usage"] for row in rows],
        "texts": texts,
        "slot": world.slot().version,
        "command": (command.status, command.how, command.platform_version),
        "told": await told(world),
        "asked": len(world.model.asked),
    } | {name: [tuple(row) for row in await world.rows(query)] for name, query in QUERIES.items()}


QUERIES = {
    "runs": "SELECT task_id, runs.status, outcome, memory_version, dream_runs.number FROM yume.runs"
    " JOIN yume.dream_runs ON dream_runs.id = dream_id ORDER BY task_id",
    "lessons": "SELECT rule, origin, state, dream_runs.number FROM yume.lessons"
    " LEFT JOIN yume.dream_runs ON dream_runs.id = dream_id ORDER BY 1, 4, 3",
    "sets": "SELECT version, cardinality(lesson_ids), tokens FROM yume.lesson_sets ORDER BY version",
    "injections": "SELECT kind, status, platform_version FROM yume.injections ORDER BY requested_at",
    "signals": "SELECT kind, source_class, fingerprint, count(*) FROM yume.signals GROUP BY 1, 2, 3"
    " ORDER BY 1, 2, 3",
    "measurements": "SELECT dream_runs.number, runs, failures, verdict, measurements.why"
    " FROM yume.measurements JOIN yume.dream_runs ON dream_runs.id = dream_id ORDER BY 1, 2, 3, 5",
}


def rules(world) -> list[str]:
    """Return the slot's rules; in which order equally good ones stand is up to their ids."""
    return sorted(line for line in world.slot().text.splitlines() if line.startswith("- "))


async def told(world) -> dict[str, int]:
    events = [each for stream in ("lessons", "dream", "tasks") for each in await world.events(stream)]
    assert len({(each.type, each.id) for each in events}) == len(events)
    return dict(Counter(each.type for each in events))


@pytest.mark.timeout(300)
async def test_two_of_everything_come_to_what_one_of_each_comes_to(open_apart):
    async with open_apart() as alone:
        one = await lived(alone)
    async with open_apart(copies=2) as together:
        two = await lived(together)
        assert not await together.stored("dead")
    for name in one:
        assert two[name] == one[name], name
    assert one["slot"] == 3


async def test_many_callbacks_at_once_make_one_batch_and_one_dream_with_two_orchestrators(open_world):
    async with open_world(copies=2) as world:
        tasks = await world.run_quietly(12)
        for copy in range(3):
            for number, task in enumerate(tasks, start=1):
                await world.announce(
                    {
                        "platform": "practice",
                        "series": "kamila",
                        "task_id": task["id"],
                        "status": task["status"],
                        "finished_at": task["finished_at"],
                        "batch_id": task["batch_id"],
                        "batch_finished": number == len(tasks),
                    },
                    key=f"{task['id']} {copy}",
                )
        await world.settled()
        row = await world.dreamt(1)
        assert (row["status"], row["counters"]["tasks"]) == ("finished", 12)
        assert await world.value("SELECT count(*) FROM yume.dream_runs WHERE status <> 'collecting'") == 1
        assert await world.value("SELECT count(*) FROM yume.runs") == 12
        await world.check_oracle()


class Overtaking:
    """Two runs of one step that would save it: the first is overtaken by the second, and tries before it."""

    def __init__(self, first: Any, mark: Any, step: str) -> None:
        self.first, self.mark, self.step = first, mark, step
        self.second = asyncio.Event()
        self.tried: list[tuple[int, str]] = []

    async def __call__(self, db, dream, name, now, **kept) -> None:
        if name != self.step:
            await self.mark(db, dream, name, now, **kept)
            return
        save = partial(self.mark, db, dream, name, now, **kept)
        if self.first.reached.is_set():
            self.first.go.set()
            await self.second.wait()
        try:
            await self.first(save)
        except StepTakenError:
            self.tried.append((kept["fence"], "refused"))
            raise
        else:
            self.tried.append((kept["fence"], "saved"))
        finally:
            self.second.set()


@pytest.mark.parametrize("step", ["s1_pull", "s2_extract", "s4_draft", "s6_gate", "s7_compile", "s9_measure"])
async def test_a_worker_that_stood_still_beyond_its_lease_saves_nothing(
    open_world, monkeypatch, standstill, step
):
    async with open_world(**FROZEN) as world:
        await world.promote()
        overtaking = Overtaking(standstill(), steps.dreams.mark_step, step)
        silence(monkeypatch, overtaking.first)
        monkeypatch.setattr(steps.dreams, "mark_step", overtaking)
        await world.run_batch(10)
        row = await world.dreamt(1)
        await world.settled()
        assert (row["status"], row["result"], row["attempt"]) == ("finished", "published", 2)
        (older, ended), (newer, saved) = overtaking.tried
        assert (ended, saved, older < newer) == ("refused", "saved", True)
        assert await world.row_of(1) == row
        assert world.slot().version == 1
        assert len(await world.told("dream.finished")) == 1
        await world.check_oracle()


def silence(monkeypatch, still) -> None:
    """Stop the lease of whoever stands still: its process is as good as stopped."""
    beat, holders = steps.dreams.beat, []

    async def of_those_alive(db, dream, holder, **times):
        if not still.reached.is_set():
            holders[:] = [holder]
        if not still.reached.is_set() or holder not in holders:
            await beat(db, dream, holder, **times)

    monkeypatch.setattr(steps.dreams, "beat", of_those_alive)


@pytest.mark.parametrize("after", [False, True], ids=["before_it_is_sent", "once_it_is_carried_out"])
async def test_a_slot_write_that_stood_still_is_one_version_and_one_event(
    open_world, monkeypatch, standstill, after
):
    async with open_world(**FROZEN) as world:
        await world.promote()
        still, real = standstill(after=after), Slot.write
        silence(monkeypatch, still)

        async def write(self, series, **what):
            return await still(partial(real, self), series, **what)

        monkeypatch.setattr(Slot, "write", write)
        await world.run_batch(10)
        await still.reached.wait()
        row = await world.dreamt(1)
        still.go.set()
        await world.settled()
        assert (row["result"], row["attempt"], world.slot().version) == ("published", 2, 1)
        ((version, status),) = await world.rows("SELECT platform_version, status FROM yume.injections")
        assert (version, status) == ("1", "written")
        assert len(await world.told("lesson.published")) == 1
        assert await world.row_of(1) == row
        await world.check_oracle()
