"""Auto-GPT benchmark reports: what never ran is no failure, and rates match the facts of real reports."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
        (
            "by_agent_month",
            lambda source, task: f"{source['_agent']}|{source['report']['completion_time'][:7]}",
        ),
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


def test_the_rates_of_agents_by_their_commits_are_those_of_the_facts(shared_data):
    facts = json.loads((shared_data / "agbench" / "facts.json").read_text())["by_agent_version"]
    counted = defaultdict(Counter)
    for imported, record in checked(named("agbench"), shared_data / "agbench", series="s"):
        version = record.task.template_version
        assert version.partition("@")[0] == imported.record["source"]["_agent"]
        counted[version][outcome(record)] += 1
    versions = {f"{known['agent']}@{known['agent_git_commit']}": known for known in facts}
    assert {version for version in counted if "@" in version} == set(versions)
    for version, known in versions.items():
        ran = counted[version]["success"] + counted[version]["failure"]
        assert counted[version].total() == known["results"]
        assert counted[version]["failure"] / ran == pytest.approx(known["failure_rate_run_only"], abs=1e-6)


def test_the_outcomes_of_the_whole_set_are_those_of_its_facts(shared_data, outcomes):
    facts = json.loads((shared_data / "agbench" / "facts.json").read_text())
    counted = outcomes("agbench", shared_data / "agbench")
    assert set(counted) == {"success", "failure", "infrastructure"}
    assert counted.total() == facts["n_results"]
    assert counted["success"] == facts["success"]["True"]
    assert counted["infrastructure"] >= facts["fail_reason_class"]["blocked_by_dependency"]


def test_the_catalog_gives_the_task_of_every_test(shared_data):
    pieces = list(checked(named("agbench"), shared_data / "agbench", series="s"))
    titles = {record.task.id: record.task.title for _, record in pieces if record.task.title}
    assert titles["TestBasicMemory"] == "Follow the instructions in the instructions_1.txt file"


def test_what_waits_for_another_test_is_blocked_and_no_failure(shared_data):
    blocked = [
        (imported.record["source"], record)
        for imported, record in checked(named("agbench"), shared_data / "agbench", series="s")
        if "depends on" in (imported.record["source"]["metrics"].get("fail_reason") or "")
    ]
    facts = json.loads((shared_data / "agbench" / "facts.json").read_text())
    assert len(blocked) == facts["fail_reason_class"]["blocked_by_dependency"]
    assert {outcome(record) for _, record in blocked} == {"infrastructure"}
    by_agent = Counter(source["_agent"] for source, _ in blocked)
    assert by_agent == {agent: known["blocked_by_dependency"] for agent, known in facts["by_agent"].items()}


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
        ({"attempted": False, "fail_reason": "assert: expected 3 but found 4"}, "infrastructure"),
        ({"attempted": True, "fail_reason": "assert 'A depends on B' in ''"}, "failure"),
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


@pytest.mark.parametrize("time", ["2023-99-99T00:00:00+00:00", 3, None, {"at": 1}])
def test_a_time_that_is_none_costs_no_test(report, time):
    ((imported, _),) = report({"TestOne": made()}, completion_time=time)
    assert imported.record["source"]["report"]["completion_time"] == time


def test_the_head_may_stand_behind_the_tests(tmp_path):
    whole = {"tests": {"TestOne": made()}, "completion_time": "2023-08-17T00:14:27+00:00"}
    (tmp_path / "report.json").write_text(json.dumps(whole | {"agent_git_commit_sha": COMMIT}))
    ((_, record),) = checked(named("agbench"), tmp_path, series="s")
    assert record.task.template_version == "Auto-GPT@3a2d08fb4150"
    assert record.task.finished_at == datetime(2023, 8, 17, 0, 14, 27, tzinfo=UTC)


def test_the_suite_says_what_its_tests_do_not(report):
    one, two = {"metrics": {"success": False}}, {"metrics": {"success": False}, "task": "own"}
    suite = {
        "task": "of all",
        "reached_cutoff": True,
        "metrics": {"percentage": 0},
        "tests": {"A": one, "B": two},
    }
    (first, a), (_, b) = report({"TestSuite": suite})
    assert (a.task.title, b.task.title) == ("of all", "own")
    assert a.attempts[0].failure_reason == "timed out: the time limit was reached"
    assert outcome(a) == "failure"
    assert "task" not in first.record["source"]


def test_a_time_limit_is_no_reason_where_the_check_gives_one(report):
    stopped = made(fail_reason="assert 1 in []") | {"reached_cutoff": True}
    ((_, record),) = report({"TestOne": stopped})
    assert record.attempts[0].failure_reason is None
    assert record.attempts[0].verdict_details == {"message": "assert 1 in []"}


def test_a_suite_without_tests_is_no_run(report):
    assert report({"TestSuite": {"metrics": {"percentage": 0}, "tests": {}}}) == []


def test_the_agent_is_known_by_its_folder_where_no_commit_names_it(report):
    ((_, record),) = report({"TestOne": made()})
    assert record.task.template_version == "Auto-GPT"


@pytest.mark.parametrize("test", [3, {}, {"metrics": 4}, {"metrics": {}}, {"metrics": {"success": "yes"}}])
def test_what_is_no_test_is_left_out_alone(report, test):
    bad, (_, record) = report({"TestBad": test, "TestGood": made()})
    assert isinstance(bad, Unread)
    assert bad.place.endswith("test TestBad")
    assert record.task.id == "TestGood"


def test_what_is_not_known_is_kept(report):
    ((imported, _),) = report({"TestOne": made(new_metric=1) | {"new_field": [2]}})
    assert imported.record["source"]["new_field"] == [2]
    assert imported.record["source"]["metrics"]["new_metric"] == 1


def test_reports_of_the_older_names_are_found(tmp_path):
    folder = tmp_path / "reports" / "beebot"
    folder.mkdir(parents=True)
    for name in ("file11_07-20-23-18.json", "39_TestReturnCode.json", "regression_tests.json"):
        (folder / name).write_text(json.dumps({"tests": {"TestOne": made()}}))
    read = list(checked(named("agbench"), tmp_path, series="s"))
    assert [record.task.template_version for _, record in read] == ["beebot", "beebot"]


@pytest.mark.parametrize("eighths", range(8))
def test_a_report_cut_anywhere_gives_the_tests_before_the_cut(tmp_path, eighths):
    whole = json.dumps({"completion_time": "x", "tests": {f"Test{number}": made() for number in range(5)}})
    (tmp_path / "report.json").write_text(whole[: len(whole) * eighths // 8])
    *read, last = checked(named("agbench"), tmp_path, series="s")
    assert [record.task.id for _, record in read] == [f"Test{number}" for number in range(len(read))]
    assert "the rest cannot be read" in last.why


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda each: st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=4), each, max_size=2),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_field_of_any_other_type_stops_nothing(tmp_path, shared_data, data):
    for name in ("results.jsonl", "reports.jsonl"):
        with (shared_data / "agbench" / name).open() as lines:
            item = json.loads(next(lines))
        target = item.get("metrics") if data.draw(st.booleans()) else item
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(ODD)
        (tmp_path / name).write_text(json.dumps(item))
    (piece,) = checked(named("agbench"), tmp_path, series="s")
    assert isinstance(piece, Unread) or outcome(piece[1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_report_with_a_field_of_any_other_type_stops_nothing(tmp_path, data):
    suite = {"metrics": {"percentage": 0}, "tests": {"A": made(fail_reason="no")}, "task": "t"}
    whole = {
        "completion_time": "2023-08-03-08:29",
        "agent_git_commit_sha": COMMIT,
        "tests": {"S": suite, "B": made()},
    }
    targets = [whole, whole["tests"], suite, suite["tests"]["A"], suite["tests"]["A"]["metrics"]]
    target = data.draw(st.sampled_from(targets))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(ODD)
    (tmp_path / "report.json").write_text(json.dumps(whole))
    for piece in checked(named("agbench"), tmp_path, series="s"):
        assert isinstance(piece, Unread) or outcome(piece[1])


def test_a_report_cut_short_gives_the_tests_before_the_cut(tmp_path):
    whole = json.dumps({"tests": {f"Test{number}": made() for number in range(5)}})
    (tmp_path / "report.json").write_text(whole[: len(whole) // 2])
    *read, last = checked(named("agbench"), tmp_path, series="s")
    assert [record.task.id for _, record in read] == ["Test0", "Test1"]
    assert "the rest cannot be read" in last.why
