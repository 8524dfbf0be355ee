"""Runs counted by outcome, version and kind of failure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from yume.domain.tally import Tally

START = datetime(2026, 1, 1, tzinfo=UTC)


def counted(*runs):
    tally = Tally()
    for hour, (outcome, version, *marks) in enumerate(runs):
        tally.add(outcome, version, marks, at=START + timedelta(hours=hour))
    return tally


def test_every_outcome_is_listed_also_those_that_no_run_had():
    tally = counted(("success", None), ("unknown", None))
    assert tally.outcome_counts() == {
        "success": 1,
        "failure": 0,
        "infrastructure": 0,
        "cancelled": 0,
        "unknown": 1,
    }
    assert tally.runs == 2


def test_a_rate_counts_only_runs_that_succeeded_or_failed():
    (version,) = counted(
        ("success", "v1"), ("failure", "v1"), ("infrastructure", "v1"), ("unknown", "v1"), ("cancelled", "v1")
    ).versions()
    assert (version["runs"], version["failures"], version["rate"]) == (2, 1, 0.5)
    assert (version["infrastructure"], version["cancelled"], version["unknown"]) == (1, 1, 1)
    assert 0 < version["low"] < 0.5 < version["high"] < 1


def test_a_version_without_such_runs_has_no_rate():
    (version,) = counted(("unknown", "v1")).versions()
    assert (version["runs"], version["rate"]) == (0, None)


def test_versions_come_by_age_whatever_the_order_of_the_runs():
    tally = Tally()
    for version, hour in (("b", 5), ("a", 3), ("b", 1), (None, 2)):
        tally.add("success", version, (), at=START + timedelta(hours=hour))
    assert [each["version"] for each in tally.versions()] == ["b", "unknown", "a"]


def test_classes_count_runs_that_went_wrong_once_each():
    tally = counted(
        ("failure", None, "f1", "f2"),
        ("failure", None, "f1"),
        ("infrastructure", None, "f3"),
        ("success", None, "f1"),
        ("unknown", None, "f1"),
        ("failure", None),
    )
    codes = {"f1": "wrong_result", "f2": "wrong_result", "f3": "environment_fault"}
    assert tally.classes(codes) == {"wrong_result": 2, "environment_fault": 1, "unclassified": 1}


def test_runs_that_show_a_failure_are_all_counted_also_those_that_came_through():
    tally = counted(
        ("failure", None, "f1", "f2"), ("success", None, "f1"), ("failure", None, "f3"), ("success", None)
    )
    assert [tally.showing(each) for each in ({"f1"}, {"f1", "f2"}, {"f1", "f3"}, {"f4"}, ())] == [
        2,
        2,
        3,
        0,
        0,
    ]
