"""Single lessons: their own failure before and with them, claims at checkpoints, what is taken out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy.stats import fisher_exact

from yume.domain.measurement.claims import Recurrence, adjusted, exact_less, shrunk_ratios
from yume.domain.measurement.effects import Table
from yume.domain.measurement.overturning import overturned
from yume.domain.measurement.rates import RunFact
from yume.domain.measurement.recurrence import Hits, Watched, expected_hits, look_at_lessons
from yume.ids import LessonId

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NOW = START + 300 * DAY
LESSON = LessonId(UUID(int=900))
OTHER = LessonId(UUID(int=901))


def facts(before=10, after=10, size=40, *, first=100):
    """Batches of days before and after day 100; from then on the version is 7."""
    days = [*range(first - before, first), *range(first + 1, first + 1 + after)]
    return [
        RunFact(
            "7" if day > first else "0",
            "reported",
            outcome,
            None,
            runs=runs,
            batch=UUID(int=day),
            first_at=START + day * DAY,
            last_at=START + day * DAY,
        )
        for day in days
        for outcome, runs in (("success", size - 10), ("failure", 10))
    ]


def hits(by_day, lesson=LESSON):
    stratum = facts(1, 1)[0].stratum
    return [
        Hits(UUID(int=day), "7" if day > 100 else "0", stratum, runs, lesson, failed=runs)
        for day, runs in by_day.items()
    ]


def told(known, seen, *, drafted_from=99, reached=None, now=NOW, lessons=(LESSON,)):
    watched = [Watched(each, START + 100 * DAY, frozenset({"7"}), UUID(int=drafted_from)) for each in lessons]
    return look_at_lessons(watched, known, seen, past={}, reached=reached or {}, now=now)


def test_hits_are_counted_before_and_with_the_lesson_without_the_batch_it_was_drafted_from():
    (made,) = told(facts(), hits({95: 3, 99: 9, 104: 1}))
    assert made.seen == Recurrence(after_hits=1, after_runs=400, before_hits=3, before_runs=360)


def test_the_effect_where_it_was_learnt_stands_apart_from_that_elsewhere():
    both = [replace(each, task_kind=kind) for each in facts() for kind in ("sorting", "counting")]
    strata = {each.task_kind: each.stratum for each in both}
    seen = [
        replace(hit, stratum=strata[kind])
        for kind, by_day in (("sorting", {95: 6, 96: 6}), ("counting", {94: 5, 95: 5, 104: 6, 105: 6}))
        for hit in hits(by_day)
    ]
    watched = Watched(LESSON, START + 100 * DAY, frozenset({"7"}), UUID(int=99), frozenset({"sorting"}))
    (made,) = look_at_lessons([watched], both, seen, past={}, reached={}, now=NOW)
    assert made.beside.learnt == Recurrence(after_hits=0, after_runs=400, before_hits=12, before_runs=200)
    assert made.beside.elsewhere == Recurrence(after_hits=12, after_runs=400, before_hits=10, before_runs=200)
    details = made.to_json()
    assert details["where_learnt"]["ratio"][2] < 0.5 < details["elsewhere"]["ratio"][0]


def test_other_failures_of_the_same_runs_are_its_negative_control():
    (made,) = told(facts(), hits({93: 6, 95: 6, 104: 2}))
    assert made.beside.others == Recurrence(after_hits=98, after_runs=400, before_hits=78, before_runs=360)
    rr, low, high = made.to_json()["ratio_to_other_failures"]
    assert low < rr < high < 1


def test_a_hit_of_a_run_that_came_through_is_no_failure_less():
    rescued = [replace(each, failed=0) for each in hits({93: 6})]
    (made,) = told(facts(), rescued)
    assert made.beside.others.before_hits == 90


def test_a_failure_that_got_rare_is_claimed_at_a_checkpoint_and_only_once():
    seen = hits(dict.fromkeys(range(91, 99), 4) | {101: 1})
    (made,) = told(facts(), seen)
    assert (made.state, made.checkpoint) == ("helps", 20)
    (again,) = told(facts(), seen, reached={LESSON: 20})
    assert again.checkpoint is None
    assert again.state != "helps"


def test_a_failure_that_got_frequent_is_claimed_as_harm():
    (made,) = told(facts(), hits(dict.fromkeys(range(91, 99), 1) | dict.fromkeys(range(101, 111), 6)))
    assert made.state == "harms"


def test_a_lesson_that_changes_nothing_is_found_ineffective_after_ten_expected_hits_if_it_rather_harms():
    (made,) = told(
        facts(),
        hits(dict.fromkeys(range(91, 99), 2) | dict.fromkeys(range(101, 111), 3)),
        reached={LESSON: 10},
    )
    assert expected_hits(made.seen) >= 10
    assert made.state == "ineffective"


def test_silence_is_quiet_where_hits_were_to_be_expected():
    (made,) = told(facts(), hits({93: 2, 95: 2}))
    assert made.state == "quiet"


def test_a_situation_that_no_longer_occurs_is_no_exposure():
    known = facts(before=10, after=10)
    (made,) = told(known, [])
    assert made.state == "no_exposure"
    (young,) = told(facts(before=10, after=2), [], now=START + 104 * DAY)
    assert young.state == "watched"


def test_lessons_are_judged_together_and_a_lone_chance_finding_is_none():
    few = hits({95: 4, 96: 4, 101: 2})
    (alone,) = told(facts(), few)
    many = [LessonId(UUID(int=900 + number)) for number in range(12)]
    crowd = [hit for each in many[1:] for hit in hits({95: 4, 96: 4, 104: 4, 105: 4}, each)]
    together = {each.lesson: each for each in told(facts(), [*few, *crowd], lessons=many)}
    assert together[LESSON].p_helps > alone.p_helps


@pytest.mark.parametrize(
    ("unexposed", "after", "comes_back"),
    [
        (True, {}, False),
        (True, {115: 1}, True),
        (False, {115: 1}, False),
        (False, dict.fromkeys(range(112, 121), 6), True),
        (False, dict.fromkeys(range(112, 121), 1), False),
    ],
)
def test_a_lesson_that_was_taken_out_comes_back_where_the_measurement_is_overturned(
    unexposed, after, comes_back
):
    known = facts(10, 10)
    stratum = known[0]
    later = [
        RunFact(
            "8",
            "reported",
            "success",
            None,
            runs=40,
            batch=UUID(int=day),
            first_at=START + day * DAY,
            last_at=START + day * DAY,
        )
        for day in range(111, 121)
    ]
    seen = [*hits(dict.fromkeys(range(101, 111), 1))]
    seen += [
        Hits(UUID(int=day), "8", stratum.stratum, runs, LESSON, failed=runs) for day, runs in after.items()
    ]
    watched = Watched(LESSON, START + 100 * DAY, frozenset({"7"}), UUID(int=99))
    reason = overturned(
        watched, [*known, *later], seen, retired_at=START + 110.5 * DAY, unexposed=unexposed, now=NOW
    )
    assert (reason is not None) == comes_back


def test_without_lessons_there_is_nothing_to_tell():
    assert told(facts(), [], lessons=()) == []


@given(some.lists(some.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_values_keep_their_order_and_are_never_smaller(p_values):
    made = adjusted(p_values)
    assert all(after >= before - 1e-12 for before, after in zip(p_values, made, strict=True))
    in_order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    assert [made[place] for place in in_order] == sorted(made)


@given(some.integers(1, 40), some.integers(1, 40), some.data())
def test_the_exact_test_of_one_table_is_fishers(new, old, data):
    a, b = data.draw(some.integers(0, new)), data.draw(some.integers(0, old))
    expected = fisher_exact([[a, new - a], [b, old - b]], alternative="less").pvalue
    assert exact_less([Table(a, new, b, old)]) == pytest.approx(expected, abs=1e-9)
    assert exact_less([Table(a, new, b, old), Table(0, 5, 0, 0)]) == pytest.approx(expected, abs=1e-9)


def test_a_ratio_of_few_hits_is_drawn_towards_the_others():
    alone = shrunk_ratios([Recurrence(0, 100, 3, 100)]).ratios[0]
    among = shrunk_ratios([Recurrence(0, 100, 3, 100), *[Recurrence(9, 100, 10, 100)] * 6]).ratios[0]
    assert alone.rr < among.rr < 1
    assert among.low < among.rr < among.high
