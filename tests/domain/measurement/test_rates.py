from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.measurement.rates import RunFact, version_rates, wilson
from yume.ids import LessonSetId

CASES = Path(__file__).parents[4] / "shared" / "cases" / "measurement.json"
TOLERANCE = 2e-6
SET = LessonSetId(UUID(int=7))


def reference_cases():
    if not CASES.exists():
        return []
    cases = json.loads(CASES.read_text())["cases"]
    return [each for each in cases if each["fn"] == "wilson" and each["input"].get("deff", 1) == 1]


@pytest.mark.skipif(not CASES.exists(), reason="the reference cases are not beside this checkout")
def test_wilson_agrees_with_the_reference_cases():
    cases = reference_cases()
    assert len(cases) >= 8
    for case in cases:
        interval = wilson(case["input"]["x"], case["input"]["n"])
        expected = [case["expected"][name] for name in ("rate", "lo", "hi")]
        assert [interval.rate, interval.low, interval.high] == pytest.approx(expected, abs=TOLERANCE)


def test_the_ends_of_an_interval_are_exact():
    assert (wilson(0, 20).low, wilson(20, 20).high) == (0.0, 1.0)
    assert (wilson(0, 0).rate, wilson(0, 0).low, wilson(0, 0).high) == (None, 0.0, 1.0)


@given(st.integers(0, 500), st.integers(0, 500))
def test_an_interval_holds_its_rate_and_mirrors_the_successes(failures, successes):
    runs = failures + successes
    interval, mirrored = wilson(failures, runs), wilson(successes, runs)
    assert 0 <= interval.low <= (interval.rate if runs else 0.5) <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirrored.high)


@pytest.mark.parametrize(("failures", "runs"), [(-1, 3), (4, 3)])
def test_counts_that_cannot_be_are_an_error(failures, runs):
    with pytest.raises(ValueError, match=f"{failures} failures of {runs} runs"):
        wilson(failures, runs)


def fact(version, outcome, *, source="reported", settled=True):
    return RunFact(version, source, outcome, SET if version not in (None, "0") else None, settled)


def test_only_settled_successes_and_failures_count_and_the_rest_is_named():
    facts = [
        *[fact("3", "failure")] * 3,
        *[fact("3", "success")] * 7,
        *[fact("3", "infrastructure")] * 2,
        fact("3", "cancelled"),
        fact("3", "unknown"),
        fact("3", "failure", settled=False),
    ]
    (rate,) = version_rates(facts)
    assert (rate.runs, rate.failures, rate.infrastructure) == (10, 3, 2)
    assert rate.excluded == {"cancelled": 1, "unknown": 1, "pending": 1}
    assert (rate.rate, rate.low) == (0.3, wilson(3, 10).low)


def test_a_run_whose_version_nobody_knows_is_in_no_rate():
    facts = [
        fact("3", "failure"),
        fact(None, "failure"),
        fact("3", "failure", source="mixed"),
        fact("3", "success", source="unknown"),
    ]
    known, unknown = version_rates(facts)
    assert (known.version, known.runs) == ("3", 1)
    assert (unknown.version, unknown.lesson_set_id, unknown.runs, unknown.rate) == (None, None, 0, None)
    assert unknown.excluded == {"unknown_version": 3}


def test_versions_come_in_the_order_of_their_numbers_and_none_is_judged_yet():
    facts = [fact("10", "success"), fact("9", "success"), fact("0", "failure"), fact(None, "success")]
    rates = version_rates(facts)
    assert [each.version for each in rates] == ["0", "9", "10", None]
    assert {(each.verdict, each.why) for each in rates} == {("no_evidence", "effect_not_computed")}


outcomes = st.sampled_from(["success", "failure", "infrastructure", "cancelled", "unknown"])
sources = st.sampled_from(["reported", "inferred", "unknown", "mixed"])
facts = st.lists(
    st.builds(RunFact, st.sampled_from([None, "0", "1", "2"]), sources, outcomes, st.none(), st.booleans())
)


@given(facts, st.randoms(use_true_random=False))
def test_every_run_is_counted_exactly_once_in_whatever_order(facts, random):
    rates = version_rates(facts)
    counted = sum(each.runs + each.infrastructure + sum(each.excluded.values()) for each in rates)
    assert counted == len(facts)
    shuffled = list(facts)
    random.shuffle(shuffled)
    assert version_rates(shuffled) == rates
