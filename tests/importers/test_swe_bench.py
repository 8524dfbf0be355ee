"""SWE-bench verdicts in the four shapes in which they are written down."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest

from yume.domain.runs import Capabilities, judge
from yume.importers.formats import checked, named
from yume.importers.records import Unread

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def read(tmp_path):
    def pieces(content, name="eval_results.json", folder="gpt-4o-paper"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(json.dumps(content))
        return list(checked(named("swe-bench"), tmp_path, series="s"))

    return pieces


def outcome(record):
    return judge(record, Capabilities(), now=NOW).outcome


def test_the_rates_of_real_runs_are_those_of_their_facts(shared_data):
    facts = json.loads((shared_data / "swebench_pro" / "facts.json").read_text())["runs"]
    counted = defaultdict(Counter)
    for _, record in checked(named("swe-bench"), shared_data / "swebench_pro", series="s"):
        counted[record.task.template_version][outcome(record)] += 1
    assert {
        run: (sum(outcomes.values()), outcomes["success"], outcomes["failure"] / outcomes.total())
        for run, outcomes in counted.items()
    } == {
        run: (known["n"], known["resolved"], pytest.approx(known["failure_rate"], abs=1e-6))
        for run, known in facts.items()
    }


def test_a_map_of_verdicts_is_a_run_named_by_its_folder(read):
    pieces = read({"django-1": True, "django-2": False, "django-3": None})
    assert [(record.task.id, outcome(record)) for _, record in pieces] == [
        ("django-1", "success"),
        ("django-2", "failure"),
        ("django-3", "unknown"),
    ]
    assert {record.task.template_version for _, record in pieces} == {"gpt-4o-paper"}
    assert pieces[0][1].attempts[0].id == "gpt-4o-paper/django-1"


def test_a_runs_report_counts_an_instance_once_by_the_most_telling_list(read):
    lists = {
        "total_instances": 6,
        "submitted_ids": ["a", "b", "c", "d", "e"],
        "completed_ids": ["a", "b"],
        "incomplete_ids": ["e", "c"],
        "unresolved_ids": ["b", "d"],
        "resolved_ids": ["a"],
        "empty_patch_ids": ["d"],
        "error_ids": ["c"],
        "schema_version": 2,
    }
    pieces = read(lists, name="gpt-4o.run-7.json")
    assert {record.task.id: outcome(record) for _, record in pieces} == {
        "a": "success",
        "b": "failure",
        "c": "infrastructure",
        "d": "failure",
        "e": "unknown",
    }
    assert len(pieces) == 5
    assert {record.task.template_version for _, record in pieces} == {"gpt-4o.run-7"}


def test_an_instances_report_names_the_tests_that_failed(read):
    report = {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": True,
        "resolved": False,
        "tests_status": {
            "FAIL_TO_PASS": {"success": ["test_a"], "failure": ["test_b"]},
            "PASS_TO_PASS": {"success": [], "failure": ["test_c"]},
        },
    }
    ((imported, record),) = read({"django-1": report}, name="report.json")
    assert outcome(record) == "failure"
    assert [each["message"] for each in record.attempts[0].verdict_details] == [
        "failed: test_b",
        "failed: test_c",
    ]
    assert imported.record["source"]["tests_status"] == report["tests_status"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"patch_exists": False}, "the patch is empty"),
        ({"patch_successfully_applied": False}, "the patch could not be applied"),
    ],
)
def test_a_patch_that_is_no_use_is_the_reason(read, change, reason):
    ((_, record),) = read({"x": {"resolved": False} | change}, name="report.json")
    assert (record.attempts[0].failure_reason, outcome(record)) == (reason, "failure")


@pytest.mark.parametrize("value", ["yes", 1, [], {}, {"resolved": "no"}])
def test_what_is_no_verdict_is_left_out_alone(read, value):
    good, bad = read({"good": True, "bad": value})
    assert isinstance(bad, Unread)
    assert bad.place.endswith("instance bad")
    assert good[1].task.id == "good"


@pytest.mark.parametrize("content", [{"total": 3}, {"resolved_ids": 3}, [True], "x"])
def test_a_document_of_another_shape_gives_no_run(read, content):
    assert all(isinstance(piece, Unread) for piece in read(content))
