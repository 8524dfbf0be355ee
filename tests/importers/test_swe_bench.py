"""SWE-bench verdicts in the four shapes in which they are written down."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yume.domain.runs import Capabilities, judge
from yume.importers import swe_bench
from yume.importers.formats import checked, named
from yume.importers.records import Unread

NOW = datetime(2027, 1, 1, tzinfo=UTC)
DATA = Path(__file__).parent / "data" / "swe_bench"


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


def test_a_first_member_that_is_no_verdict_hides_none_of_the_rest(read):
    bad, (_, record) = read({"bad": "yes", "good": True})
    assert isinstance(bad, Unread)
    assert record.task.id == "good"


def test_a_real_report_of_a_run_is_read():
    """Both were made by the harness's own functions, as README.md beside them says."""
    report, folder = DATA / "some__model.first.json", DATA / "run_evaluation"
    read = list(checked(named("swe-bench"), report, series="s"))
    assert {record.task.id[-1]: outcome(record) for _, record in read} == {
        "1": "success",
        "2": "failure",
        "3": "failure",
        "4": "infrastructure",
        "5": "infrastructure",
        "6": "failure",
        "7": "unknown",
    }
    single = list(checked(named("swe-bench"), folder, series="s"))
    assert [outcome(record) for _, record in single] == ["success", "failure", "failure", "infrastructure"]
    assert {record.task.template_version for _, record in (*read, *single)} == {"some__model.first"}
    _, failed = single[1]
    assert failed.attempts[0].verdict_details == [
        {"status": "failed", "message": "failed: tests/test_sum.py::test_new"}
    ]
    _, broke = single[3]
    assert broke.attempts[0].failure_reason.endswith(
        "the evaluation of this instance broke: container_unavailable"
    )


def test_an_instance_with_a_report_of_its_own_counts_once():
    read = list(checked(named("swe-bench"), DATA, series="s"))
    assert sorted(record.task.id[-1] for _, record in read) == list("1234567")
    assert len({record.attempts[0].id for _, record in read}) == 7


def test_an_instance_that_was_only_handed_in_is_unknown(read):
    ((_, record),) = read({"submitted_ids": ["a"], "completed_ids": ["a"]}, name="m.r.json")
    assert outcome(record) == "unknown"


@pytest.mark.parametrize("eighths", range(8))
def test_a_map_cut_anywhere_gives_the_verdicts_before_the_cut(tmp_path, eighths):
    whole = json.dumps({f"django-{number}": number % 2 == 0 for number in range(9)})
    (tmp_path / "eval_results.json").write_text(whole[: len(whole) * eighths // 8])
    *read, last = checked(named("swe-bench"), tmp_path, series="s")
    assert [record.task.id for _, record in read] == [f"django-{number}" for number in range(len(read))]
    assert isinstance(last, Unread)


@pytest.mark.parametrize("sixteenths", range(16))
def test_a_report_cut_anywhere_gives_the_instances_before_the_cut(tmp_path, sixteenths):
    whole = (DATA / "some__model.first.json").read_text()
    (tmp_path / "m.r.json").write_text(whole[: len(whole) * sixteenths // 16])
    *read, last = checked(named("swe-bench"), tmp_path, series="s")
    assert isinstance(last, Unread)
    known = [record for _, record in (piece for piece in read if not isinstance(piece, Unread))]
    assert known or sixteenths < 6
    assert {record.task.id.partition("-")[0] for record in known} <= {"sums__sums"}


def test_a_report_too_long_for_one_run_gives_no_run(read, monkeypatch):
    monkeypatch.setattr(swe_bench, "_REPORT_BYTES", 100)
    assert all(isinstance(piece, Unread) for piece in read({"resolved_ids": ["a" * 40] * 10}))


def test_labels_of_a_model_are_no_runs(shared_data):
    path = shared_data / "swebench_pro" / "error_analysis.jsonl"
    assert all(isinstance(piece, Unread) for piece in checked(named("swe-bench"), path, series="s"))


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda each: st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=4), each, max_size=2),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_field_of_any_other_type_stops_nothing(tmp_path, data):
    path = data.draw(st.sampled_from(sorted(DATA.rglob("*.json"))))
    whole = json.loads(path.read_text())
    inner = [each for each in whole.values() if isinstance(each, dict)]
    target = data.draw(
        st.sampled_from([whole, *inner, *[each["tests_status"] for each in inner if "tests_status" in each]])
    )
    if target:
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(ODD)
    (tmp_path / path.name).write_text(json.dumps(whole))
    for piece in checked(named("swe-bench"), tmp_path / path.name, series="s"):
        assert isinstance(piece, Unread) or outcome(piece[1])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_line_with_a_field_of_any_other_type_stops_nothing(tmp_path, data):
    line = {"instance_id": "instance_a", "value": True, "_run": "gpt-4o-paper"}
    line[data.draw(st.sampled_from(sorted(line)))] = data.draw(ODD)
    (tmp_path / "verdicts.jsonl").write_text(json.dumps(line))
    (piece,) = checked(named("swe-bench"), tmp_path, series="s")
    assert isinstance(piece, Unread) or outcome(piece[1])


@pytest.mark.parametrize("content", [{"total": 3}, {"resolved_ids": 3}, [True], "x"])
def test_a_document_of_another_shape_gives_no_run(read, content):
    assert all(isinstance(piece, Unread) for piece in read(content))
