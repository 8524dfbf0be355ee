"""What the clock makes due: one series that cannot be looked at holds up no other."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from yume import timer
from yume.clients.http import Limits
from yume.ids import PlatformId, new_id
from yume.resources import Resources
from yume.store import access, lessons
from yume.store.access import Platform


@pytest.fixture
async def resources(database):
    async with database.acquire() as db:
        await access.add_platform(db, Platform(PlatformId("tobatsu"), "http://127.0.0.1:1", None, None, {}))
    return Resources("orchestrator", database, Limits(), allow_http=True)


@pytest.fixture
def series(resources):
    async def made(name, **policy):
        async with resources.db.acquire() as db:
            known = await access.series_named(db, "tobatsu", name)
            for column, value in policy.items():
                await db.execute(f"UPDATE yume.series SET {column} = $2 WHERE id = $1", known.id, value)
        return known.id

    return made


async def test_a_schedule_that_cannot_be_read_holds_up_no_other_series(resources, series):
    long_ago = resources.now() - timedelta(days=3)
    broken = await series("broken", created_at=long_ago, schedule={"cron": "0 3 31 2 *", "zone": "UTC"})
    other = await series("other", created_at=long_ago, schedule={"cron": "0 3 * * *", "zone": "UTC"})
    with capture_logs() as logs:
        assert await timer.look_at_exports(resources) == [other]
        assert await timer.look_at_exports(resources) == []
    left_out = [each for each in logs if each["event"] == "series_left_out"]
    assert {each["series_id"] for each in left_out} == {str(broken)}
    assert "31" in left_out[0]["error"]


async def test_a_series_whose_text_cannot_be_compiled_holds_up_no_others_release(resources, series):
    wordy = await series("a-wordy-one", mode_reason="", projection_budget_tokens=50)
    other = await series("other")
    async with resources.db.acquire() as db:
        for each, rule in ((wordy, "Look " * 60), (other, "Look first.")):
            told = {"by": "person:ada", "why": "mine", "now": resources.now() - timedelta(hours=1)}
            await lessons.add_owners_rule(db, new_id(), each, rule.strip(), **told)
        for name in ("a-wordy-one", "other"):
            known = await access.series_named(db, "tobatsu", name)
            await access.promote(db, known, "auto", by="person:ada", why="a test", now=resources.now())
    with capture_logs() as logs:
        assert await timer.open_releases(resources, timedelta(minutes=5)) == [other]
    (left_out,) = [each for each in logs if each["event"] == "series_left_out"]
    assert left_out["series_id"] == str(wordy)
    assert "the owner's rules take" in left_out["error"]


async def test_a_release_is_opened_once_however_many_look(resources, series):
    other = await series("other")
    async with resources.db.acquire() as db:
        told = {"by": "person:ada", "why": "mine", "now": resources.now() - timedelta(hours=1)}
        await lessons.add_owners_rule(db, new_id(), other, "Look first.", **told)
        known = await access.series_named(db, "tobatsu", "other")
        await access.promote(db, known, "auto", by="person:ada", why="a test", now=resources.now())
    assert await timer.open_releases(resources, timedelta(minutes=5)) == [other]
    assert await timer.open_releases(resources, timedelta(minutes=5)) == []
    async with resources.db.acquire() as db:
        rows = await db.fetch("SELECT trigger, status, step, asked_by, forced FROM yume.dream_runs")
    assert [tuple(row) for row in rows] == [("release", "queued", "s6_gate", "yume:orchestrator", False)]


async def test_a_series_is_looked_at_once_after_its_longest_wait_and_not_before(resources, series):
    wait = timedelta(hours=6)
    lately = await series("lately", created_at=resources.now() - wait + timedelta(minutes=1))
    due = await series("due", created_at=resources.now() - wait - timedelta(minutes=1))
    async with resources.db.acquire() as db:
        await db.execute("UPDATE yume.series SET batch_max_wait = $1", wait)
    assert await timer.look_at_exports(resources) == [due]
    assert await timer.look_at_exports(resources) == []
    async with resources.db.acquire() as db:
        rows = await db.fetch("SELECT series_id, trigger, status FROM yume.dream_runs")
    assert [tuple(row) for row in rows] == [(due, "schedule", "queued")]
    assert lately != due
