"""What comes of the measurement: a verdict ends the dwell, an alarm goes back or proposes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.dream.conftest import KEEN, PLATFORM, SERIES
from yume.acts import measured
from yume.acts import series as known
from yume.acts.series import Change
from yume.domain.measurement.wording import told
from yume.local.practice import HARMFUL

COPIED = (
    "series_id, dream_id, scope, lesson_set_id, span, runs, failures, infrastructure, rate, low, high,"
    " verdict, why, method, details"
)
SPOILT = replace(KEEN, harm=1.0, obedience=1.0, knows=0.1, discovers=0.4, answers=0.0)


@pytest.fixture
async def learning(open_world):
    """A series with four batches of baseline and its first version in the slot."""
    async with open_world(habits=SPOILT) as world:
        for _ in range(3):
            await world.dream(30)
        await world.promote()
        assert (await world.dream(30))["result"] == "published"
        yield world


async def looks(world, version):
    found = await measured.looks(PLATFORM, SERIES, world.resources)
    return [row for row in found if row["details"]["memory_version"] == str(version)]


async def test_a_version_that_helps_is_found_improved_and_what_waited_is_released(learning):
    await learning.add_owners_rule("Name files in lower case.")
    await learning.dream(30)
    row = await learning.dream(30)
    newest = (await looks(learning, 1))[0]
    assert (newest["verdict"], newest["details"]["evidence"]) == ("improved", "observational")
    assert newest["effect_high"] < 0
    assert newest["details"]["comparator_versions"] == ["0"]
    made_from = await learning.value("SELECT id FROM yume.dream_runs WHERE number = 4")
    assert str(made_from) not in newest["details"]["reference_batches"]
    assert len(newest["details"]["reference_batches"]) == 3
    assert "not an experiment" in told(newest)
    assert row["result"] in ("published", "held")
    await learning.add_owners_rule("Write dates as 2026-01-31.")
    assert (await learning.dream(30))["result"] == "published"
    assert learning.slot().version == 2
    await learning.check_oracle()


async def test_planned_looks_give_narrower_intervals_and_no_verdict_once_they_are_over(learning):
    planned = Change(boundary="pocock")
    await known.change(PLATFORM, SERIES, planned, learning.resources, by="owner", why="a test")
    for _ in range(2):
        await learning.dream(30)
    newest = (await looks(learning, 1))[0]
    details = newest["details"]
    assert (newest["verdict"], details["boundary"], details["z"], details["look"]) == (
        *("improved", "pocock", 2.536, 2),
    )
    assert newest["effect_high"] == pytest.approx(newest["effect"] + 2.536 * details["se"])
    assert "Pocock bound for 15 looks" in told(newest)
    assert "Pocock bound for 15 looks" in newest["method"]
    await learning.rows(
        f"INSERT INTO yume.measurements (id, {COPIED}) SELECT gen_random_uuid(), {COPIED}"
        " FROM yume.measurements, generate_series(3, 15) WHERE id = $1",
        newest["id"],
    )
    await learning.dream(30)
    over = (await looks(learning, 1))[0]
    assert (over["verdict"], over["why"], over["details"]["look"]) == (
        *("no_evidence", "planned_looks_over", 16),
    )
    assert over["details"]["decided"]["verdict"] == "improved"
    back = Change(boundary="always_valid")
    await known.change(PLATFORM, SERIES, back, learning.resources, by="owner", why="a test")
    await learning.dream(30)
    ever = (await looks(learning, 1))[0]
    assert (ever["verdict"], ever["details"]["boundary"]) == ("improved", "always_valid")
    assert "always-valid" in ever["method"]
    await learning.check_oracle()


async def harm(world):
    await world.add_owners_rule(HARMFUL.rule)
    assert (await world.release())["result"] == "published"
    return world.slot().version


async def test_a_version_that_looks_worse_is_rolled_back_by_itself_where_the_owner_allows_it(learning):
    await known.change(
        PLATFORM, SERIES, Change(auto_rollback=True), learning.resources, by="owner", why="a test"
    )
    before = learning.slot().text
    version = await harm(learning)
    await learning.dream(36)
    await learning.until_true(
        "SELECT EXISTS (SELECT FROM yume.injections WHERE kind = 'rollback' AND status = 'written')"
    )
    assert learning.slot().text == before
    newest = (await looks(learning, version))[0]
    assert newest["details"]["rollback_alarm"] is True
    assert newest["details"]["rollback"] == "asked for"
    ((by, why),) = await learning.rows("SELECT \"by\", why FROM yume.injections WHERE kind = 'rollback'")
    assert (by, why.split(":")[0]) == ("yume:s9_measure", "rollback alarm")
    await learning.settled()
    assert [each.data["kind"] for each in await learning.told("review.requested")].count("rollback") == 0
    await learning.check_oracle()


async def test_a_version_that_looks_worse_is_proposed_to_be_rolled_back_where_he_does_not(learning):
    version = await harm(learning)
    await learning.dream(36)
    held = learning.slot()
    assert held.version == version
    (proposed,) = [
        each for each in await learning.told("review.requested") if each.data["kind"] == "rollback"
    ]
    assert proposed.data["version"] == 2
    assert not await learning.rows("SELECT id FROM yume.injections WHERE kind = 'rollback'")
    await learning.check_oracle()


async def test_every_lesson_that_stood_in_the_slot_is_looked_at(learning):
    await learning.dream(30)
    found = await measured.lessons(PLATFORM, SERIES, learning.resources)
    in_slot = await learning.value(
        "SELECT lesson_ids FROM yume.lesson_sets WHERE id ="
        " (SELECT lesson_set_id FROM yume.injections WHERE status = 'written')"
    )
    assert {row["lesson_id"] for row in found} == set(in_slot)
    for row in found:
        assert row["runs"] > 0
        assert row["details"]["before"]["runs"] > 0
        assert row["hits"] <= row["runs"]
        chain = [
            row["details"]["chain"][name]["runs"] for name in ("eligible", "injected", "shown", "followed")
        ]
        assert chain == sorted(chain, reverse=True)
        assert chain[0] == row["runs"]
    followed = [row["details"]["chain"]["followed"] for row in found if "`" in row["rule"]]
    assert max(each["runs"] for each in followed) > 0
    assert all(row["details"]["where_learnt"]["with"]["runs"] > 0 for row in found)
