"""What is said of a measurement: no rate without its interval, no cause where no coin was thrown."""

from __future__ import annotations

import re

import pytest

from yume.domain.measurement.wording import told, told_of_lesson

ROW = {
    "version": 3,
    "dream": 9,
    "runs": 200,
    "rate": 0.1,
    "low": 0.07,
    "high": 0.15,
    "effect": -0.2,
    "effect_low": -0.31,
    "effect_high": -0.09,
    "verdict": "improved",
    "why": "observational",
    "details": {"comparator_versions": ["4", "0"], "evidence": "observational"},
}


def test_a_gain_is_told_with_its_intervals_and_as_no_experiment():
    assert told(ROW) == (
        "v3 after dream 9: 10% (7% to 15%) of 200 runs failed; -20 points (95 % always-valid -31 to -9), "
        "before and after, not an experiment, vs platform version 4, no lesson; improved (observational)"
    )


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"rollback_alarm": True, "rollback": "asked for"},
        {"decided": {"verdict": "regressed", "look": 2}},
        {"confounders": [{"what": "template_version"}]},
        {"placebo": {"rd": -0.1, "cs90": None}},
    ],
)
def test_no_point_stands_without_an_interval_and_nothing_is_called_a_cause(details):
    said = told(ROW | {"details": ROW["details"] | details})
    assert not re.search(r"\bcaus|because of|thanks to|due to", said)
    assert len(re.findall(r"\d+%|points", said)) == len(re.findall(r"\d+% \(\d+% to \d+%\)", said)) * 3 + 1


def test_what_was_decided_and_no_longer_holds_is_said_so():
    weaker = {"decided": {"verdict": "improved", "look": 4}}
    said = told(ROW | {"verdict": "no_evidence", "why": "interval_covers_zero", "details": weaker})
    assert "was improved at look 4, now weaker" in said


def test_a_lesson_is_told_with_where_it_helps_and_what_other_failures_did():
    none = {"before": {"runs": 0, "hits": 0}, "with": {"runs": 0, "hits": 0}, "ratio": None}
    learnt = {
        "before": {"runs": 90, "hits": 12},
        "with": {"runs": 60, "hits": 1},
        "ratio": [0.18, 0.03, 0.9],
    }
    details = {
        "before": {"runs": 90, "hits": 12},
        "ratio": [0.3, 0.1, 0.8],
        "where_learnt": learnt,
        "elsewhere": none,
        "other_failures": learnt,
        "ratio_to_other_failures": [0.9, 0.2, 3.1],
    }
    row = {"why": "watched", "hits": 1, "runs": 60, "rule": "Use sort -n", "details": details}
    seen = "12 of 90 runs before, 1 of 60 with it"
    assert told_of_lesson(row) == [
        "watched: Use sort -n",
        f"  its failure, before and after, not an experiment: {seen} (ratio 0.30, 0.10 to 0.80)",
        f"  in the kinds of task that it was learnt from: {seen} (ratio 0.18, 0.03 to 0.90)",
        "  in all others: no such run",
        f"  other failures: {seen} (ratio 0.18, 0.03 to 0.90)",
        "  its failure against all others: ratio 0.90, 0.20 to 3.10",
    ]


def test_what_changed_for_those_who_read_no_lesson_is_said_with_its_interval():
    placebo = {"rd": -0.1, "cs90": [-0.18, -0.02]}
    said = told(ROW | {"details": ROW["details"] | {"placebo": placebo}})
    assert said.endswith("; templates that read no lesson: -10 points (90 % always-valid -18 to -2)")


LINK = {"runs": 40, "failures": 9}


@pytest.mark.parametrize(
    ("links", "end"),
    [
        (
            {"shown": {"runs": 30, "failures": 8}, "followed": {"runs": 12, "failures": 1}},
            "read it, 12 of the 30 whose commands are known followed it: 1 of them failed, of the other 18 7",
        ),
        (
            {"shown": {"runs": 0, "failures": 0}, "followed": {"runs": 0, "failures": 0}},
            "read it; no record shows a command",
        ),
        ({"shown": LINK, "followed": None}, "read it; it names no command"),
    ],
)
def test_how_far_a_lesson_got_is_said_as_far_as_it_is_known(links, end):
    chain = {"eligible": {"runs": 50, "failures": 9}, "injected": LINK, **links}
    details = {"before": LINK | {"hits": 1}, "ratio": [1, 0.5, 2], "chain": chain}
    row = {"why": "watched", "hits": 1, "runs": 60, "rule": "Use sort -n", "details": details}
    said = told_of_lesson(row)[-1]
    assert said.startswith(f"  50 runs stood ready for it, 40 {end}")


PLANNED = {
    "boundary": "pocock",
    "z": 2.536,
    "planned_looks": 15,
    "look": 16,
    "runs_needed_for_10_points": 320,
}


def test_an_interval_of_planned_looks_is_told_as_such_and_any_other_as_always_valid():
    said = told(ROW | {"details": ROW["details"] | PLANNED})
    assert "-20 points (Pocock bound for 15 looks, -31 to -9), before and after" in said
    assert "always-valid" not in said
    ever = told(ROW | {"details": ROW["details"] | {"boundary": "always_valid"}})
    assert ever == told(ROW)
    assert "Pocock" not in ever


def test_after_the_planned_looks_the_first_verdict_is_told_and_nothing_is_called_weaker():
    over = {"verdict": "no_evidence", "why": "planned_looks_over"}
    said = told(ROW | over | {"details": PLANNED | {"decided": {"verdict": "improved", "look": 4}}})
    assert said.endswith("; no_evidence (planned_looks_over); improved at look 4")
    assert told(ROW | over | {"details": PLANNED}).endswith("; no_evidence (planned_looks_over)")


def test_runs_that_were_washed_out_are_told_and_none_are_not():
    assert "30 runs washed out" in told(ROW | {"details": ROW["details"] | {"washed_out": 30}})
    assert "washed" not in told(ROW | {"details": ROW["details"] | {"washed_out": 0}})
