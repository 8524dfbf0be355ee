"""A version against its reference: laws that hold whatever the counts, and the reasons in their order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from yume.domain.measurement.cells import DEFAULTS, Cell
from yume.domain.measurement.comparison import Flags, compare
from yume.domain.measurement.effects import Table, TaskCell, mantel_haenszel
from yume.domain.measurement.sequential import half_width, log_e, log_e_above, runs_needed


def cells_of(draw, arm, batches, start):
    return [
        Cell(arm, start + place, stratum, runs, draw(some.integers(0, runs)), draw(some.integers(0, 3)))
        for place in range(batches)
        for stratum in ("a", "b")
        if (runs := draw(some.integers(0, 40)))
    ]


@some.composite
def worlds(draw):
    old = cells_of(draw, "reference", draw(some.integers(2, 8)), 0)
    return old + cells_of(draw, "new", draw(some.integers(1, 6)), 100)


def history(*rates, arm="reference", start=0, size=40):
    return [Cell(arm, start + place, "s", size, round(size * rate)) for place, rate in enumerate(rates)]


STEADY = history(*[0.3] * 9)
BETTER = history(*[0.1] * 4, arm="new", start=100)


@given(worlds())
def test_other_names_for_the_strata_change_nothing(world):
    names = {"a": "z", "b": "y"}
    assert compare(world) == compare([replace(each, stratum=names[each.stratum]) for each in world])


@given(worlds())
def test_other_numbers_for_the_batches_in_the_same_order_change_nothing(world):
    made, again = compare(world), compare([replace(each, batch=each.batch * 7 + 3) for each in world])
    assert (made.verdict, made.reason) == (again.verdict, again.reason)
    if made.effect is not None:
        assert again.effect.se == pytest.approx(made.effect.se)


@given(worlds())
def test_arms_that_are_swapped_flip_the_sign_and_nothing_else(world):
    other = {"new": "reference", "reference": "new"}
    made = compare(world)
    swapped = compare([replace(each, arm=other[each.arm]) for each in world])
    assume(made.effect is not None and swapped.effect is not None)
    assert swapped.effect.rd == pytest.approx(-made.effect.rd, abs=1e-12)
    assert swapped.effect.se == pytest.approx(made.effect.se)


@given(worlds(), some.integers(2, 5))
def test_more_of_the_same_never_widens_an_interval(world, factor):
    made = compare(world)
    many = compare(
        [
            replace(
                each,
                runs=each.runs * factor,
                fails=each.fails * factor,
                infrastructure=each.infrastructure * factor,
            )
            for each in world
        ]
    )
    assume(made.effect is not None and many.effect is not None)
    assert many.effect.rd == pytest.approx(made.effect.rd)
    narrow = replace(DEFAULTS, prior_sd=1e-9)
    ours, theirs = (
        compare(
            [
                replace(
                    each, runs=each.runs * n, fails=each.fails * n, infrastructure=each.infrastructure * n
                )
                for each in world
            ],
            parameters=narrow,
        )
        for n in (1, factor)
    )
    chance = max(theirs.effect.se_sato, theirs.effect.se_null)
    assert chance <= max(ours.effect.se_sato, ours.effect.se_null) + 1e-9


@given(worlds(), some.integers(0, 7), some.integers(1, 2))
def test_below_the_quarantine_share_lost_runs_change_no_quality_rate(world, place, lost):
    more = [
        replace(each, infrastructure=each.infrastructure + lost) if number == place else each
        for number, each in enumerate(world)
    ]
    made, again = compare(world), compare(more)
    assume(made.quarantined == again.quarantined)
    assert made == again


def test_a_batch_of_which_too_much_was_lost_leaves_its_arm():
    lost = Cell("new", 104, "s", 20, 18, 20)
    assert compare([*STEADY, *BETTER, lost]).quarantined == (("new", 104),)
    assert compare([*STEADY, *BETTER, lost]).new_runs == compare([*STEADY, *BETTER]).new_runs


def test_a_gain_that_is_plain_is_improved_with_an_interval_below_zero():
    made = compare([*STEADY, *BETTER])
    assert (made.verdict, made.reason, made.guard) == ("improved", "observational", "passed")
    assert made.effect.cs95.high < 0 < -made.effect.rd


def test_one_new_batch_is_never_improved_and_may_well_be_regressed():
    assert compare([*STEADY, *history(0.0, arm="new", start=100)]).verdict == "no_evidence"
    assert compare([*STEADY, *history(0.9, arm="new", start=100)]).verdict == "regressed"


def test_one_failure_in_a_thousand_after_most_failed_before_is_no_regression():
    before = history(*[0.7] * 9)
    after = [Cell("new", 100 + place, "s", 100, int(place == 0)) for place in range(10)]
    assert compare([*before, *after]).verdict == "improved"


@pytest.mark.parametrize(
    ("world", "options", "expected"),
    [
        ([*STEADY, *BETTER], {"unknown_new": 100}, ("not_comparable", "unknown_version")),
        ([*STEADY, *history(0.1, arm="new", start=100, size=20)], {}, ("no_evidence", "too_few")),
        ([*history(*[0.0] * 9), *history(*[0.0] * 4, arm="new", start=100)], {}, ("no_evidence", "too_few")),
        (
            [*STEADY, *[replace(each, stratum="t2") for each in BETTER]],
            {},
            ("not_comparable", "strata_overlap"),
        ),
        ([*STEADY, *BETTER], {"flags": Flags(infrastructure=True)}, ("not_comparable", "infrastructure")),
        ([*STEADY, *BETTER], {"flags": Flags(placebo=True)}, ("not_comparable", "drift")),
        (
            [
                *history(*(0.5 - 0.03 * n for n in range(10))),
                *history(*(0.2 - 0.03 * n for n in range(6)), arm="new", start=100),
            ],
            {},
            ("not_comparable", "drift"),
        ),
        ([*STEADY, *history(0.3, 0.3, arm="new", start=100)], {}, ("no_evidence", "interval_covers_zero")),
    ],
)
def test_the_first_reason_that_fits_decides(world, options, expected):
    made = compare(world, **options)
    assert (made.verdict, made.reason) == expected


def test_a_worsening_needs_no_guard_against_drift():
    rising = [*history(*(0.1 + 0.02 * n for n in range(9))), *history(*[0.6] * 3, arm="new", start=100)]
    made = compare(rising)
    assert (made.verdict, made.rollback_alarm) == ("regressed", True)


def kinds(rate, batches, *, known, arm="new", start=100):
    """Batches of forty runs, of which `known` are of a kind that the reference has and the rest of others."""
    yield from (
        Cell(arm, start + place, stratum, runs, round(runs * rate))
        for place in range(batches)
        for stratum, runs in (("s", known), (f"other-{arm}", 40 - known))
        if runs
    )


def test_a_harm_seen_in_the_part_that_can_be_compared_sounds_the_alarm_but_earns_no_verdict():
    made = compare([*STEADY, *kinds(0.9, 3, known=15)])
    assert (made.verdict, made.reason, made.overlap) == ("not_comparable", "strata_overlap", 0.375)
    assert made.rollback_alarm
    better = compare([*STEADY, *kinds(0.0, 3, known=15)])
    assert (better.verdict, better.rollback_alarm) == ("not_comparable", False)


@pytest.mark.parametrize("known", [0, 9])
def test_a_part_that_is_too_small_sounds_no_alarm(known):
    made = compare([*STEADY, *kinds(0.9, 3, known=known)])
    assert (made.reason, made.effect, made.rollback_alarm) == ("strata_overlap", None, False)


def test_too_few_tasks_that_repeat_say_nothing():
    tasks = [
        TaskCell("s", arm, f"{arm}-{place}", 40, round(40 * rate))
        for arm, rate in (("reference", 0.3), ("new", 0.1))
        for place in range(4)
    ]
    assert compare([*STEADY, *BETTER], tasks=tasks).reason == "few_tasks"


def test_repeats_of_a_task_count_for_less_than_as_many_tasks():
    many = [
        TaskCell("s", arm, f"{arm}-{place}", runs, fails)
        for arm, fails_of in (
            ("reference", (36, 0, 0, 36, 0, 0, 36, 0, 0)),
            ("new", (16, 0, 0, 0, 0, 0, 0, 0, 0)),
        )
        for place, fails in enumerate(fails_of)
        for runs in [40 if arm == "reference" else 18]
    ]
    made, alone = compare([*STEADY, *BETTER], tasks=many), compare([*STEADY, *BETTER])
    assert made.effect.se_task > alone.effect.se_null
    assert made.effect.se > alone.effect.se


@given(
    some.lists(some.tuples(some.integers(1, 30), some.integers(1, 30)), min_size=1, max_size=5), some.data()
)
def test_one_stratum_alone_gives_the_plain_difference(arms, data):
    tables = [
        Table(data.draw(some.integers(0, new)), new, data.draw(some.integers(0, old)), old)
        for new, old in arms
    ]
    (first, *_) = tables
    found = mantel_haenszel([first])
    assert found.rd == pytest.approx(
        first.new_fails / first.new_runs - first.reference_fails / first.reference_runs
    )
    assert mantel_haenszel([*tables, Table(3, 5, 0, 0)]).rd == mantel_haenszel(tables).rd


@given(some.floats(-0.5, 0.5), some.floats(1e-5, 0.05), some.sampled_from([0.05, 0.1, 0.2]))
def test_the_interval_excludes_zero_exactly_where_the_evidence_reaches_its_level(d, variance, alpha):
    excludes = abs(d) > half_width(variance, alpha=alpha)
    assert excludes == (log_e(d, variance) > math.log(1 / alpha)) or math.isclose(
        log_e(d, variance), math.log(1 / alpha), rel_tol=1e-9
    )
    assert log_e_above(d, variance) >= log_e_above(-d, variance) or d < 0


def test_more_is_needed_to_see_less():
    counts = [runs_needed(0.3, 0.3 - d, reference_runs=1_000, batch=40, alpha=0.05) for d in (0.2, 0.1)]
    assert counts[0] < counts[1]
    assert runs_needed(0.3, 0.299, reference_runs=400, batch=40, alpha=0.05) is None
