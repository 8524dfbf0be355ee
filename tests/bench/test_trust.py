"""How often the measurement is wrong on worlds whose truth is known; `yume bench trust` draws many more."""

from __future__ import annotations

import pytest
from numpy.random import default_rng

from yume.bench.trust import look_at, summed, try_world
from yume.bench.worlds import NEW, REFERENCE, WORLDS

HISTORIES = 200
NAMED = {each.name: each for each in WORLDS}


def shares(name):
    return summed(NAMED[name], try_world(name, HISTORIES, (7, 0, 0)))


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("a/a", 0.03),
        ("regression to the mean", 0.03),
        ("mix drift", 0.03),
        ("outage before", 0.03),
        ("outage after", 0.03),
        ("batch shocks", 0.06),
    ],
)
def test_where_nothing_changed_hardly_anything_is_said(name, most):
    made = shares(name)
    assert made.improved <= most
    assert made.regressed <= most


def test_one_who_reads_two_numbers_is_fooled_by_a_bad_batch():
    assert shares("regression to the mean").naive_improved > 0.2


def test_a_new_template_is_not_comparable_and_nothing_else():
    assert shares("template change").verdicts == ("not_comparable/strata_overlap",)


def test_a_reference_too_thin_for_a_verdict_still_sounds_the_alarm_and_hardly_ever_a_false_one():
    assert shares("thin regression").alarm >= 0.95
    assert shares("thin reference").alarm <= 0.05
    for name in ("thin reference", "thin regression"):
        assert shares(name).improved == shares(name).regressed == 0


def test_what_is_large_is_found():
    assert shares("improvement 30-15").improved >= 0.9
    assert shares("regression 20-40").alarm >= 0.95


def test_rules_without_a_reference_fire_whether_anything_changed_or_not():
    for name in ("a/a", "improvement 30-15", "regression 20-40"):
        assert min(shares(name).peers.values()) > 0.99


def test_the_same_seed_draws_the_same_histories():
    assert try_world("a/a", 3, (1, 2)) == try_world("a/a", 3, (1, 2))


@pytest.mark.parametrize("world", WORLDS, ids=lambda each: each.name)
def test_a_history_has_all_its_batches(world):
    history = world.draw(default_rng(1))
    assert len(history) == REFERENCE + NEW
    sizes = {sum(each.runs + each.infrastructure for each in batch) for batch in history[world.first :]}
    assert sizes == {40}
    assert look_at(history).verdicts
