"""A planned boundary: narrower at the looks that were planned, silent after them, and the alarm as ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from tests.domain.measurement.test_comparison import STEADY, history, worlds
from tests.domain.measurement.test_window import fact, facts, measured
from yume.bench.trust import summed, try_world, unguarded
from yume.bench.worlds import WORLDS
from yume.domain.measurement.cells import DEFAULTS
from yume.domain.measurement.comparison import compare

POCOCK = replace(DEFAULTS, boundary="pocock")
SMALL_GAIN = [*STEADY, *history(*[0.2] * 6, arm="new", start=100)]
SMALL_HARM = [*STEADY, *history(*[0.4] * 8, arm="new", start=100)]


def planned(cells, look):
    return compare(cells, look=look, parameters=POCOCK)


@given(worlds(), some.none() | some.integers(1, 40))
def test_where_nothing_is_planned_the_number_of_the_look_changes_nothing(world, look):
    assert compare(world, look=look) == compare(world)


@given(worlds(), some.integers(1, 40))
def test_a_plan_changes_the_two_intervals_of_verdicts_and_no_other_figure(world, look):
    made, ever = planned(world, look).effect, compare(world).effect
    assume(ever is not None)
    assert made == replace(ever, cs95=made.cs95, cs90=made.cs95)
    assert made.cs95.low == pytest.approx(ever.rd - 2.536 * ever.se)
    assert made.cs95.high == pytest.approx(ever.rd + 2.536 * ever.se)


@pytest.mark.parametrize(("world", "verdict"), [(SMALL_GAIN, "improved"), (SMALL_HARM, "regressed")])
def test_what_always_valid_intervals_cannot_tell_yet_a_plan_can_to_its_last_look(world, verdict):
    assert compare(world).verdict == "no_evidence"
    assert [planned(world, look).verdict for look in (1, 15)] == [verdict, verdict]


@pytest.mark.parametrize("world", [SMALL_GAIN, [*STEADY, *history(*[0.3] * 5, arm="new", start=100)]])
def test_after_the_planned_looks_there_is_no_verdict_and_the_effect_is_still_told(world):
    made = planned(world, 16)
    assert (made.verdict, made.reason) == ("no_evidence", "planned_looks_over")
    assert made.effect == planned(world, 15).effect


def test_the_alarm_sounds_after_the_planned_looks_and_is_no_other_before():
    harm = [*STEADY, *history(*[0.8] * 3, arm="new", start=100)]
    assert [planned(harm, look).rollback_alarm for look in (1, 16)] == [True, True]
    assert [planned(SMALL_GAIN, look).rollback_alarm for look in (1, 16)] == [False, False]


def test_what_cannot_be_compared_is_called_so_at_any_look():
    others = [replace(each, stratum="t2") for each in SMALL_GAIN if each.arm == "new"]
    for look in (1, 16):
        assert planned([*STEADY, *others], look).reason == "strata_overlap"


def test_a_plan_without_the_number_of_the_look_is_refused():
    with pytest.raises(ValueError, match="no number, and 15 are planned"):
        compare(SMALL_GAIN, parameters=POCOCK)


def test_a_look_keeps_what_its_intervals_are_computed_from():
    told = measured(facts(new_rate=0.2), number=3, parameters=POCOCK).to_json()
    assert (told["boundary"], told["z"], told["planned_looks"]) == ("pocock", 2.536, 15)
    ends = [told["rd"] - told["z"] * told["se"], told["rd"] + told["z"] * told["se"]]
    assert told["cs95"] == told["cs90"] == pytest.approx(ends)
    ever = measured(facts(new_rate=0.2)).to_json()
    assert ever["boundary"] == "always_valid"
    assert not {"z", "planned_looks"} & set(ever)
    assert ever["cs80"] == told["cs80"]
    assert ever["cs95"][0] < told["cs95"][0]


@pytest.mark.parametrize("number", [1, 16])
def test_lost_runs_are_flagged_alike_whatever_is_planned(number):
    for runs in range(1, 16):
        lost = [fact(day, "infrastructure", runs, version="7") for day in range(101, 106)]
        known = [*facts(), *lost]
        made = measured(known, number=number, parameters=POCOCK)
        flags = [each.to_json()["infrastructure_flag"] for each in (made, measured(known))]
        assert flags[0] == flags[1]


def test_a_plan_needs_fewer_runs_to_show_ten_points():
    same = facts(new_rate=0.3)
    assert measured(same, number=1, parameters=POCOCK).runs_needed < measured(same).runs_needed


def test_a_plan_finds_more_than_intervals_that_hold_for_ever_and_is_seldom_wrong():
    def shares(name, parameters):
        world = next(each for each in WORLDS if each.name == name)
        return summed(world, try_world(name, 200, (7, 0, 0), parameters))

    gain = "improvement 30-20"
    assert shares(gain, POCOCK).improved > shares(gain, DEFAULTS).improved + 0.08
    assert shares(gain, unguarded(POCOCK)).improved >= shares(gain, POCOCK).improved
    nothing = shares("a/a", POCOCK)
    assert max(nothing.improved, nothing.regressed) <= 0.05
