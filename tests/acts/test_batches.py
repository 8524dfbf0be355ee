"""A person can put tasks into the open batch and close it; nobody else's tasks are taken away."""

from __future__ import annotations

import pytest

from yume.acts.batches import TASKS_AT_ONCE, collect
from yume.acts.dreams import start_now
from yume.clients.http import Limits
from yume.errors import PermanentError
from yume.ids import PlatformId
from yume.resources import Resources
from yume.store import access
from yume.store.access import Platform

WHERE = ("tobatsu", "kamila")
ACT = {"by": "person:ada", "why": "the callbacks were lost"}


@pytest.fixture
async def resources(database):
    async with database.acquire() as db:
        await access.add_platform(db, Platform(PlatformId("tobatsu"), "http://127.0.0.1:1", None, None, {}))
        await access.series_named(db, *WHERE)
    return Resources("api", database, Limits(), allow_http=True)


async def tasks_of(resources, dream):
    async with resources.db.acquire() as db:
        rows = await db.fetch("SELECT task_id FROM yume.runs WHERE dream_id = $1 ORDER BY 1", dream.id)
    return [row["task_id"] for row in rows]


async def test_tasks_wait_in_the_open_batch_until_it_is_closed(resources):
    first = await collect(*WHERE, ["T1", "T2", "T1"], resources, close=False, **ACT)
    assert (first.status, await tasks_of(resources, first)) == ("collecting", ["T1", "T2"])
    closed = await collect(*WHERE, ["T3"], resources, close=True, **ACT)
    assert (closed.id, closed.status, closed.trigger) == (first.id, "queued", "manual")
    assert await tasks_of(resources, closed) == ["T1", "T2", "T3"]


async def test_a_task_that_a_dream_has_stays_that_dreams(resources):
    first = await collect(*WHERE, ["T1"], resources, close=True, **ACT)
    second = await collect(*WHERE, ["T1", "T2"], resources, close=True, **ACT)
    assert await tasks_of(resources, first) == ["T1"]
    assert await tasks_of(resources, second) == ["T2"]


async def test_a_dream_now_closes_the_open_batch_or_opens_one_and_says_who_wanted_it(resources):
    first = await collect(*WHERE, ["T1"], resources, close=False, **ACT)
    assert (await start_now(*WHERE, resources, **ACT)).id == first.id
    another = await start_now(*WHERE, resources, **ACT)
    assert (another.number, another.status) == (2, "queued")
    async with resources.db.acquire() as db:
        rows = await db.fetch("SELECT DISTINCT asked_by, why FROM yume.dream_runs")
    assert [tuple(row) for row in rows] == [("person:ada", "the callbacks were lost")]


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ([""], "1 to 512 characters, that of 1 tasks has not"),
        (["x" * 513], "1 to 512 characters"),
        (["x"] * (TASKS_AT_ONCE + 1), "10001 tasks at once, 10000 are allowed"),
    ],
)
async def test_what_can_be_no_task_is_refused_and_opens_no_batch(resources, tasks, reason):
    with pytest.raises(PermanentError, match=reason):
        await collect(*WHERE, tasks, resources, close=True, **ACT)
    async with resources.db.acquire() as db:
        assert await db.fetchval("SELECT count(*) FROM yume.dream_runs") == 0


async def test_a_series_that_is_not_known_is_named(resources):
    with pytest.raises(PermanentError, match="'tobatsu' has no series 'kamil'"):
        await start_now("tobatsu", "kamil", resources, **ACT)
