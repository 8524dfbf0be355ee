"""An experiment on real servers: the slot goes by the coins, and any other write ends it."""

from __future__ import annotations

import pytest

from tests.dream.conftest import PLATFORM, SERIES
from yume.acts import experiments, measured
from yume.domain.measurement.wording import told
from yume.errors import PermanentError

WHERE = (PLATFORM, SERIES)


async def start(world, kind="switchback", **options):
    options = {"blocks": 6, "seed": "a test", "by": "a person", "why": "a test"} | options
    return await experiments.start(*WHERE, kind, world.resources, **options)


@pytest.fixture
async def tried(auto):
    """A series whose slot holds its second version."""
    await auto.dream(10)
    await auto.add_owners_rule("Name files in lower case.")
    assert (await auto.release())["result"] == "published"
    return auto


async def holds(world, lesson_set):
    await world.until_true(
        "SELECT lesson_set_id = $1 FROM yume.injections WHERE status = 'written'"
        " ORDER BY written_at DESC LIMIT 1",
        lesson_set,
    )


async def test_the_slot_holds_batch_by_batch_what_the_coins_say(tried):
    made = await start(tried)
    texts = {}
    for number in range(4):
        await holds(tried, made.set_for(number))
        texts.setdefault(made.arm(number), set()).add(tried.slot().text)
        await tried.dream(4)
    assert {arm: len(held) for arm, held in texts.items()} == {"new": 1, "reference": 1}
    assert texts["new"] != texts["reference"]
    await holds(tried, made.set_for(4))
    now = await experiments.shown(*WHERE, tried.resources)
    assert len(now.batches) == 4
    assert now.coins == made.coins
    switched = await tried.told("slot.switched")
    assert switched
    assert {each.data["kind"] for each in switched} == {"experiment"}
    newest = (await measured.looks(*WHERE, tried.resources))[0]
    assert {row["details"]["window"] for row in await measured.looks(*WHERE, tried.resources)} == {
        "cumulative",
        "experiment",
    }
    assert newest["verdict"] == "no_evidence"
    states = await tried.rows("SELECT DISTINCT state FROM yume.lessons WHERE state = 'retired'")
    assert not states
    await tried.check_oracle()


@pytest.mark.parametrize("washout_runs", [0, 1])
async def test_the_first_runs_of_every_batch_are_left_out_where_that_is_asked_for(tried, washout_runs):
    made = await start(tried, washout_runs=washout_runs)
    for number in range(2):
        await holds(tried, made.set_for(number))
        await tried.dream(6)
    looks = await measured.looks(*WHERE, tried.resources)
    newest = next(row for row in looks if row["details"]["window"] == "experiment")
    details = newest["details"]
    assert details["washed_out"] == 2 * washout_runs
    assert details["experiment"]["washout_runs"] == washout_runs
    assert details["blocks"] == 1
    counted = await tried.value(
        "SELECT count(*) FILTER (WHERE place > $1 AND outcome IN ('success', 'failure')) FROM ("
        " SELECT outcome, row_number() OVER (PARTITION BY dream_id ORDER BY started_at, id) AS place"
        " FROM yume.runs WHERE dream_id = ANY ($2::uuid[])) AS ranked",
        washout_runs,
        (await experiments.shown(*WHERE, tried.resources)).batches,
    )
    assert newest["runs"] + details["reference"]["runs"] == counted
    assert ("runs washed out" in told(newest)) is bool(washout_runs)
    await tried.check_oracle()


async def test_nothing_is_released_while_an_experiment_runs(tried):
    made = await start(tried)
    await holds(tried, made.set_for(0))
    await tried.add_owners_rule("Write dates as 2026-01-31.")
    row = await tried.dream(30)
    assert (row["result"], row["reason"]) == ("held", "dwell")
    assert (await tried.report(row))["slot"]["waits"] == "an experiment running: switchback"


async def test_a_rollback_ends_an_experiment_and_what_it_put_back_stays(tried):
    made = await start(tried)
    await holds(tried, made.set_for(0))
    await tried.rollback(1 if made.arm(0) == "new" else 2)
    text = tried.slot().text
    await tried.dream(4)
    ended = await experiments.shown(*WHERE, tried.resources)
    assert (ended.runs, ended.ended_by) == (False, "rollback")
    await tried.dream(4)
    assert tried.slot().text == text
    await tried.check_oracle()


async def test_a_hold_out_gives_one_batch_in_four_no_lessons_but_the_owners(tried):
    made = await start(tried, "holdout", blocks=6)
    number = made.coins[0]
    for before in range(number):
        await holds(tried, made.set_for(before))
        await tried.dream(4)
    await holds(tried, made.reference)
    assert tried.slot().text.count("\n- ") == 1
    assert "Name files in lower case." in tried.slot().text


async def test_an_experiment_is_refused_where_it_cannot_be_one(auto):
    with pytest.raises(PermanentError, match="holds no version of Yume's"):
        await start(auto)
    await auto.dream(10)
    with pytest.raises(PermanentError, match="there is no version before the one"):
        await start(auto)
    with pytest.raises(PermanentError, match="5 blocks: 6 to 100"):
        await start(auto, blocks=5)
    for runs in (-1, 40):
        with pytest.raises(PermanentError, match=f"{runs} washout runs: .* 0 to 39 are allowed"):
            await start(auto, "holdout", washout_runs=runs)
    made = await start(auto, "holdout")
    with pytest.raises(PermanentError, match="is running"):
        await start(auto, "holdout")
    ended = await experiments.stop(*WHERE, auto.resources, by="a person")
    assert ended.coins == made.coins
    with pytest.raises(PermanentError, match=r"no experiment .* is running"):
        await experiments.stop(*WHERE, auto.resources, by="a person")
    await auto.promote("report_only")
    with pytest.raises(PermanentError, match="only reports"):
        await start(auto, "holdout")
