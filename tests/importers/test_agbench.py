"""Auto-GPT benchmark reports: what never ran is no failure, and rates match the facts of real reports."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest

from yume.domain.runs import Capabilities, judge
from yume.importers.formats import checked, named
from yume.importers.records import Unread

NOW = datetime(2027, 1, 1, tzinfo=UTC)
COMMIT = "https://github.com/Significant-Gravitas/Auto-GPT/tree/3a2d08fb415071cc94dd6fcee24cfbdd1fb487dd"


def made(**metrics):
    return {
        "data_path": "agbenchmark/challenges/write",
        "is_regression": False,
        "task": "Write the word",
        "metrics": {"difficulty": "basic", "success": False, **metrics},
        "reached_cutoff": False,
    }


@pytest.fixture
def report(tmp_path):
    def read(tests, **head):
        folder = tmp_path / "Auto-GPT" / "run-1"
        folder.mkdir(parents=True)
        whole = {"command": "agbenchmark start", **head, "tests": tests, "config": {"workspace": "w"}}
        (folder / "report.json").write_text(json.dumps(whole))
        return list(checked(named("agbench"), tmp_path, series="s"))

    return read


def outcome(record):
    return judge(record, Capabilities(), now=NOW).outcome


@pytest.mark.parametrize(
    ("group", "key"),
    [
        ("by_agent", lambda source, task: source["_agent"]),
        ("by_test", lambda source, task: task),
        ("by_difficulty", lambda source, task: source["metrics"]["difficulty"]),
    ],
)
def test_the_run_only_rates_of_real_reports_are_those_of_their_facts(shared_data, group, key):
    facts = json.loads((shared_data / "agbench" / "facts.json").read_text())[group]
    counted = defaultdict(Counter)
    for imported, record in checked(named("agbench"), shared_data / "agbench", series="s"):
        counted[key(imported.record["source"], record.task.id)][outcome(record)] += 1
    assert set(counted) == set(facts)
    for name, known in facts.items():
        outcomes = counted[name]
        ran = outcomes["success"] + outcomes["failure"]
        assert outcomes["success"] == known["success"]
        assert sum(outcomes.values()) == known["results"]
        if ran:
            assert outcomes["failure"] / ran == pytest.approx(known["failure_rate_run_only"], abs=1e-6)


def test_what_waits_for_another_test_is_blocked_and_no_failure(shared_data):
    blocked = [
        record
        for imported, record in checked(named("agbench"), shared_data / "agbench", series="s")
        if "depends on" in (imported.record["source"]["metrics"].get("fail_reason") or "")
    ]
    facts = json.loads((shared_data / "agbench" / "facts.json").read_text())
    assert len(blocked) == facts["fail_reason_class"]["blocked_by_dependency"]
    assert {outcome(record) for record in blocked} == {"infrastructure"}


def test_a_suite_is_read_test_by_test(report):
    pieces = report(
        {
            "TestOne": made(success=True),
            "TestSuite": {"metrics": {"percentage": 50}, "tests": {"TestTwo": made()}},
        },
        completion_time="2023-08-17T00:14:27+00:00",
        agent_git_commit_sha=COMMIT,
    )
    (one, _), (two, record) = pieces
    assert [each.record["task"]["id"] for each in (one, two)] == ["TestOne", "TestTwo"]
    assert two.place == "Auto-GPT/run-1/report.json test TestSuite/TestTwo"
    assert record.attempts[0].id == "Auto-GPT/run-1/report.json/TestSuite/TestTwo"
    assert record.task.template_version == "Auto-GPT@3a2d08fb4150"
    assert record.task.finished_at == datetime(2023, 8, 17, 0, 14, 27, tzinfo=UTC)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ({"fail_reason": "TestA::test depends on TestB::test"}, "infrastructure"),
        ({"fail_reason": "Agent is not eligible for this category", "attempted": False}, "infrastructure"),
        ({"attempted": False}, "infrastructure"),
        ({"attempted": False, "fail_reason": "async def function and no plugin"}, "infrastructure"),
        ({"attempted": True, "fail_reason": "assert 1 in [200]"}, "failure"),
        ({"fail_reason": "[Errno 2] No such file or directory: 'result.txt'"}, "failure"),
        ({}, "failure"),
        ({"success": True, "attempted": False}, "success"),
        ({"success": None}, "unknown"),
    ],
)
def test_only_what_ran_and_was_found_wanting_is_a_failure(report, metrics, expected):
    ((_, record),) = report({"TestOne": made(**metrics)})
    assert outcome(record) == expected


def test_a_time_without_zone_is_kept_and_not_guessed(report):
    ((imported, _),) = report({"TestOne": made()}, completion_time="2023-08-03-08:29")
    assert imported.record["task"]["finished_at_from"] == "file"
    assert imported.record["source"]["report"]["completion_time"] == "2023-08-03-08:29"


def test_the_agent_is_known_by_its_folder_where_no_commit_names_it(report):
    ((_, record),) = report({"TestOne": made()})
    assert record.task.template_version == "Auto-GPT"


@pytest.mark.parametrize("test", [3, {}, {"metrics": 4}, {"metrics": {}}, {"metrics": {"success": "yes"}}])
def test_what_is_no_test_is_left_out_alone(report, test):
    bad, (_, record) = report({"TestBad": test, "TestGood": made()})
    assert isinstance(bad, Unread)
    assert bad.place.endswith("test TestBad")
    assert record.task.id == "TestGood"


def test_a_report_cut_short_gives_the_tests_before_the_cut(tmp_path):
    whole = json.dumps({"tests": {f"Test{number}": made() for number in range(5)}})
    (tmp_path / "report.json").write_text(whole[: len(whole) // 2])
    *read, last = checked(named("agbench"), tmp_path, series="s")
    assert [record.task.id for _, record in read] == ["Test0", "Test1"]
    assert "the rest cannot be read" in last.why
