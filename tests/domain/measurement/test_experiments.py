"""Coins, what they give each batch, and what the blocks come to."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from yume.domain.measurement.experiments import SIZES, Experiment, coins, result, washed_out
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.switchback import DRAWN, sign_flip
from yume.ids import LessonSetId

START = datetime(2026, 1, 1, tzinfo=UTC)
NEW, OLD = LessonSetId(UUID(int=1)), LessonSetId(UUID(int=2))


def experiment(kind="switchback", blocks=8, seed="s", batches=None):
    made = Experiment(kind, seed, coins(kind, seed, blocks), NEW, OLD, START, "a person", "a test")
    count = blocks * SIZES[kind] if batches is None else batches
    return Experiment(
        *[
            getattr(made, name)
            for name in ("kind", "seed", "coins", "new", "reference", "started_at", "by", "why")
        ],
        tuple(UUID(int=100 + n) for n in range(count)),
    )


def facts(about, *, new=0.1, old=0.3, size=50, **odd):
    """Runs as the coins gave them; `odd` are batches by number whose runs read another set or were lost."""
    made = []
    for number, batch in enumerate(about.batches):
        rate = new if about.arm(number) == "new" else old
        wanted = about.set_for(number)
        strayed = odd.get("strayed") == number
        read = (OLD if wanted == NEW else NEW) if strayed else wanted
        bad = round(size * rate)
        counts = {
            "failure": bad,
            "success": size - bad,
            "infrastructure": size if odd.get("lost") == number else 0,
        }
        made += [
            RunFact("v", "reported", outcome, read, runs=runs, batch=batch)
            for outcome, runs in counts.items()
            if runs
        ]
    return made


@given(some.sampled_from(["switchback", "holdout"]), some.text(max_size=8), some.integers(1, 20))
def test_every_block_has_one_odd_batch_out_and_the_same_seed_throws_the_same_coins(kind, seed, blocks):
    about = experiment(kind, blocks, seed)
    size = SIZES[kind]
    for block in range(blocks):
        arms = [about.arm(block * size + place) for place in range(size)]
        odd = "new" if kind == "switchback" else "reference"
        assert arms.count(odd) == 1
    assert coins(kind, seed, blocks) == about.coins
    assert Experiment.from_json(json.loads(json.dumps(about.to_json()))) == about


def test_coins_are_fair():
    for kind, size in SIZES.items():
        thrown = coins(kind, "many", 4_000)
        assert set(thrown) == set(range(size))
        assert all(abs(thrown.count(place) / 4_000 - 1 / size) < 0.03 for place in range(size))


def test_a_gain_within_blocks_is_improved_and_randomised():
    made = result(experiment(), facts(experiment()))
    assert (made.verdict, made.reason, made.blocks) == ("improved", "randomised", 8)
    assert made.p_flip <= 0.05
    assert made.cs95.high < 0


def test_a_harm_within_blocks_is_regressed_and_nothing_is_no_evidence():
    assert result(experiment(), facts(experiment(), new=0.5, old=0.2)).verdict == "regressed"
    assert result(experiment(), facts(experiment(), new=0.3, old=0.3)).verdict == "no_evidence"


def test_fewer_than_six_blocks_say_nothing():
    few = experiment(blocks=5)
    assert result(few, facts(few)).reason == "too_few"


@pytest.mark.parametrize("odd", [{"strayed": 5}, {"lost": 5}])
def test_a_block_with_a_lost_or_a_strayed_batch_is_dropped_whole(odd):
    assert result(experiment(), facts(experiment(), **odd)).blocks == 7


def test_a_block_that_is_not_whole_yet_waits():
    about = experiment(batches=15)
    assert result(about, facts(about)).blocks == 7
    assert about.runs
    assert not experiment().runs
    assert not about.ended(START, "a person").runs


def test_a_drift_of_everything_changes_no_block():
    about = experiment(blocks=10)
    known = []
    for number, batch in enumerate(about.batches):
        bad = 30 - number
        known += [
            RunFact("v", "reported", outcome, about.set_for(number), runs=runs, batch=batch)
            for outcome, runs in (("failure", bad), ("success", 50 - bad))
        ]
    assert result(about, known).verdict == "no_evidence"


def test_beyond_sixteen_blocks_flips_are_drawn_and_the_seed_decides():
    differences = [0.1 * (-1) ** place - 0.05 for place in range(20)]
    p = sign_flip(differences, seed="a")
    assert p == sign_flip(differences, seed="a")
    assert 1 / (DRAWN + 1) <= p <= 1
    assert abs(p - sign_flip(differences, seed="b")) < 0.03


def traces(about, runs, *, read=None, batches=None):
    """The first runs of each batch, which all failed, and read a certain set or what their coin said."""
    for number, batch in enumerate(about.batches if batches is None else batches):
        wanted = about.set_for(number) if read is None else read
        yield RunFact("v", "reported", "failure", wanted, runs=runs, batch=batch, washed_out=True)


def test_washed_out_runs_change_nothing_but_their_own_count():
    about = replace(experiment(), washout_runs=5)
    known = facts(about)
    assert result(about, [*known, *traces(about, 5)]) == result(about, known)
    assert washed_out(about, [*known, *traces(about, 5)]) == 16 * 5
    assert washed_out(about, known) == 0
    counted = [replace(each, washed_out=False) for each in traces(about, 5)]
    assert result(about, [*known, *counted]).new_runs == result(about, known).new_runs + 8 * 5


def test_a_batch_whose_first_runs_alone_read_the_set_before_keeps_its_block():
    about = replace(experiment(), washout_runs=5)
    late = list(traces(about, 5, read=LessonSetId(UUID(int=3))))
    assert result(about, [*facts(about), *late]).blocks == 8
    counted = [replace(each, washed_out=False) for each in late]
    assert result(about, [*facts(about), *counted]).blocks == 0


def test_a_batch_that_is_washed_out_whole_drops_its_block():
    about = replace(experiment(), washout_runs=50)
    known = [replace(each, washed_out=each.batch == about.batches[3]) for each in facts(about)]
    assert result(about, known).blocks == 7
    assert washed_out(about, known) == 50


def test_washed_out_runs_of_other_batches_are_not_counted():
    about = experiment()
    assert washed_out(about, list(traces(about, 5, batches=[UUID(int=7)]))) == 0


def test_a_washout_is_kept_on_the_row_and_a_row_older_than_it_has_none():
    about = replace(experiment(), washout_runs=5)
    row = json.loads(json.dumps(about.to_json()))
    assert Experiment.from_json(row) == about
    del row["washout_runs"]
    assert Experiment.from_json(row).washout_runs == 0
