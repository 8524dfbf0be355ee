"""When the slot is written: between two batches, after the dwell, by a release, a few lessons at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.dream.tasks import ONE_TRAP
from yume.acts import releases
from yume.domain import rounds
from yume.errors import PermanentError
from yume.ids import new_id

WHERE = ("practice", "kamila")
RULE = "Keep the names of the files as they are."


@pytest.fixture
def one_trap(keen) -> dict[str, Any]:
    """A platform with one trap, into which nobody falls who has read of it: later batches bring nothing."""
    habits = replace(keen, plain=0.0, obedience=1.0)
    return {"habits": habits, "pitfalls": ONE_TRAP}


def callback(task: dict[str, Any], *, ends_batch: bool) -> dict[str, Any]:
    return {
        "platform": "practice",
        "series": "kamila",
        "task_id": task["id"],
        "status": task["status"],
        "finished_at": task["finished_at"],
        "batch_id": task["batch_id"],
        "batch_finished": ends_batch,
    }


async def open_a_batch(world) -> list[dict[str, Any]]:
    """Run a batch of which only the first task is told: to Yume it is open."""
    tasks = await world.run_quietly(4)
    await world.tell(callback(tasks[0], ends_batch=False))
    return tasks


async def written(world) -> list[str]:
    rows = await world.rows(
        "SELECT platform_version FROM yume.injections WHERE status = 'written' ORDER BY written_at"
    )
    return [row["platform_version"] for row in rows]


async def test_no_slot_is_written_while_a_named_batch_is_open_and_its_end_wakes_the_dream(auto):
    tasks = await open_a_batch(auto)
    await auto.run_batch(8)
    row = await auto.until_row(1, lambda row: row["not_before"] is not None)
    assert (row["status"], row["step"]) == ("running", "s7_compile")
    assert row["deadline"] - row["started_at"] > timedelta(hours=47)  # its waiting takes none of its time
    assert row["not_before"] - await auto.value("SELECT now()") > timedelta(seconds=100)
    assert auto.slot().version == 0
    assert not await auto.rows("SELECT id FROM yume.injections")

    await auto.announce(callback(tasks[-1], ends_batch=True), key="the batch's last")
    row = await auto.dreamt(1)
    assert (row["result"], auto.slot().version) == ("published", 1)
    await auto.check_oracle()


async def test_a_batch_that_never_ends_blocks_for_as_long_as_a_batch_may_wait_and_no_longer(auto):
    await open_a_batch(auto)
    await auto.until_row(1, lambda row: row["status"] == "collecting")
    await auto.rows(
        "UPDATE yume.runs SET announced_at = now() - batch_max_wait + interval '6 seconds'"
        " FROM yume.series WHERE series.id = runs.series_id"
    )
    until = await auto.value("SELECT announced_at + interval '24 hours' FROM yume.runs")
    await auto.run_batch(8)
    row = await auto.dreamt(1)
    assert (row["result"], auto.slot().version) == ("published", 1)
    at = await auto.value("SELECT written_at FROM yume.injections WHERE dream_id = $1", row["id"])
    assert until <= at < until + timedelta(seconds=5)


@pytest.fixture
def short_cap(monkeypatch):
    """A cap that two batches of thirty reach."""
    monkeypatch.setattr(rounds, "CAP_RUNS", 60)


async def test_a_version_stays_until_the_cap_where_it_gets_no_verdict_and_then_what_waited_is_written(
    auto, short_cap
):
    assert (await auto.dream(10))["result"] == "published"
    before = auto.slot()
    await auto.add_owners_rule(RULE)
    second = await auto.dream(30)
    assert (second["result"], second["reason"]) == ("held", "dwell")
    report = await auto.report(second)
    assert report["slot"]["waits"] == "1 of 2 batches and 30 of 60 runs"
    assert RULE in report["slot"]["text"]
    assert auto.slot() == before
    assert await auto.value("SELECT state FROM yume.lessons WHERE rule = $1", RULE) == "approved"
    assert await auto.value("SELECT count(*) FROM yume.lesson_sets") == 1  # a set is made where it is written

    third = await auto.dream(30)
    assert (third["result"], third["reason"]) == ("published", None)
    assert auto.slot().version == 2
    assert RULE in auto.slot().text
    assert await written(auto) == ["1", "2"]
    await auto.check_oracle()


async def test_what_a_person_approved_is_released_by_the_timer_when_the_dwell_is_over(
    open_world, one_trap, short_cap
):
    async with open_world(**one_trap, release_after_s=0) as world:
        await world.promote()
        assert (await world.dream(10))["result"] == "published"
        assert [(await world.dream(30))["result"] for _ in (2, 3)] == ["no_signal", "no_signal"]
        await world.add_owners_rule(RULE)
        row = await world.dreamt(4)
        assert (row["trigger"], row["result"]) == ("release", "published")
        assert (row["asked_by"], row["forced"]) == ("yume:orchestrator", False)
        assert sum(used["calls"] for used in row["usage"].values()) == 0
        assert RULE in world.slot().text
        assert not await world.rows("SELECT id FROM yume.measurements WHERE dream_id = $1", row["id"])
        await world.settled()
        assert await world.row_of(5) is None
        await world.check_oracle()


async def test_the_timer_opens_no_release_as_long_as_the_version_has_to_stay(open_world, one_trap):
    async with open_world(**one_trap, release_after_s=0) as world:
        await world.promote()
        await world.dream(10)
        await world.add_owners_rule(RULE)
        row = await world.dream(30)
        assert (row["number"], row["result"], row["reason"]) == (2, "held", "dwell")
        await world.dream(29)
        assert await world.value("SELECT count(*) FROM yume.dream_runs") == 3
        assert await written(world) == ["1"]
        assert (await releases.preview(*WHERE, world.resources)).price == "v1 has 59 of 60 runs"


async def test_a_person_releases_at_once_and_the_old_version_is_closed_without_a_verdict(auto):
    await auto.dream(10)
    await auto.dream(12)
    old = await auto.value("SELECT lesson_set_id FROM yume.injections WHERE status = 'written'")
    await auto.add_owners_rule(RULE)
    assert (await releases.preview(*WHERE, auto.resources)).price == "v1 has 1 of 2 batches and 12 of 60 runs"
    row = await auto.release()
    assert (row["trigger"], row["result"], row["forced"]) == ("release", "published", True)
    assert (row["asked_by"], row["why"]) == ("a person", "a test")
    assert auto.slot().version == 2
    assert RULE in auto.slot().text
    ((closed, runs, verdict, why),) = await auto.rows(
        "SELECT lesson_set_id, runs, verdict, why FROM yume.measurements WHERE dream_id = $1", row["id"]
    )
    assert (closed, runs, verdict, why) == (old, 12, "no_evidence", "superseded")
    ((by, because),) = await auto.rows(
        "SELECT \"by\", why FROM yume.injections WHERE dream_id = $1 AND status = 'written'", row["id"]
    )
    assert (by, because) == ("a person", "a test")
    assert [each.data["why"] for each in await auto.told("measurement.recorded")].count("superseded") == 1
    await auto.check_oracle()


async def test_a_release_is_refused_where_nothing_is_written_or_nothing_waits(auto):
    await auto.dream(10)
    with pytest.raises(PermanentError, match="holds all that is approved"):
        await auto.release()
    await auto.add_owners_rule(RULE)
    await auto.promote("report_only")
    with pytest.raises(PermanentError, match="only reports: nothing is written"):
        await auto.release()
    assert await auto.value("SELECT count(*) FROM yume.dream_runs") == 1
    await auto.promote("gated")
    assert (await auto.release())["result"] == "published"


async def test_of_eight_new_lessons_five_are_released_and_three_wait_for_the_next_release(auto):
    await auto.dream(10)
    held = await in_slot(auto)
    await approve_as_many(auto, 8)
    row = await auto.release()
    first = await in_slot(auto)
    assert (row["result"], len(first), held <= first) == ("published", len(held) + 5, True)
    assert row["counters"]["left_out"] == 3
    assert [each["why"] for each in row["compiled"]["left_out"]] == ["quota"] * 3
    assert (
        "Approved, but not in the text: 3 (quota)."
        in (await auto.resources.archive.get(row["report_key"])).decode()
    )
    row = await auto.release()
    assert (row["result"], row["counters"]["left_out"]) == ("published", 0)
    assert len(await in_slot(auto)) == len(held) + 8
    with pytest.raises(PermanentError, match="holds all that is approved"):
        await auto.release()
    await auto.check_oracle()


async def test_the_first_version_knows_no_quota(auto):
    await auto.promote("gated")
    await auto.dream(10)
    await approve_as_many(auto, 8)
    row = await auto.release()
    assert (row["result"], row["counters"]["left_out"], len(await in_slot(auto))) == ("published", 0, 8)


async def in_slot(world) -> set[Any]:
    rows = await world.rows(
        "SELECT unnest(lesson_ids) AS id FROM yume.lesson_sets JOIN yume.injections"
        " ON lesson_set_id = lesson_sets.id WHERE status = 'written' AND replaced_at IS NULL"
    )
    return {row["id"] for row in rows}


async def approve_as_many(world, count: int) -> None:
    """Have a person approve lessons that stand on the evidence of one that a dream drafted."""
    for number in range(count):
        made = new_id()
        await world.rows(
            "INSERT INTO yume.lessons (id, series_id, lineage_id, revision, symptom, root_cause, rule,"
            " category, scope, confidence, evidence, quotes, origin, trust, state, written_by)"
            " SELECT $1, series_id, $1, 1, symptom, root_cause, $2, category, scope, confidence, evidence,"
            " quotes, origin, trust, 'draft', written_by"
            " FROM yume.lessons WHERE origin = 'dream' ORDER BY id LIMIT 1",
            made,
            f"Look at sheet {number} before the others.",
        )
        await world.move(made, "draft", "approved")


async def test_a_report_a_preview_and_the_slot_name_one_version(world):
    await world.dream(20)  # only reports: its text is compiled, and kept under a version
    await world.promote()
    row = await world.dream(4)
    report = await world.report(row)
    slot = world.slot()
    assert (row["result"], report["slot"]["version"]) == ("published", slot.lesson_set_version)
    assert report["slot"]["text"] == slot.text
    shown = await releases.preview("practice", "kamila", world.resources)
    assert not shown.release.changed
    assert (shown.release.compiled.version, shown.release.compiled.text) == (
        slot.lesson_set_version,
        slot.text,
    )
