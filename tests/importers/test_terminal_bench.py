"""Terminal-Bench trials, on real ones and on the shapes that a harness run leaves."""

from __future__ import annotations

import json

import pytest

from yume.importers.formats import checked, named
from yume.importers.records import Unread

TRIAL = {
    "id": "effb400e",
    "trial_name": "hello-world.2-of-3.2025-10-22__09-19-22",
    "task_id": "hello-world",
    "instruction": "Write hello",
    "is_resolved": False,
    "failure_mode": "unset",
    "parser_results": {"test_exists": "passed", "test_content": "failed"},
    "recording_path": "run/agent.cast",
    "total_input_tokens": 3069,
    "trial_started_at": "2025-10-22T09:30:51.802908+00:00",
    "trial_ended_at": "2025-10-22T09:32:19.984093+00:00",
}


@pytest.fixture
def trials(tmp_path):
    def read(*rows, name="results.json", **head):
        (tmp_path / name).write_text(json.dumps({"accuracy": 0.5, **head, "results": rows}))
        return list(checked(named("terminal-bench"), tmp_path, series="pilot"))

    return read


def test_the_real_trials_end_as_their_facts_say(shared_data, outcomes):
    folder = shared_data / "tbench_orca"
    facts = json.loads((folder / "facts.json").read_text())["verdict"]
    counted = outcomes("terminal-bench", folder)
    assert counted == {"success": facts["True"], "failure": facts["False"], "unknown": facts["None"]}


def test_a_trial_that_timed_out_and_was_resolved_is_a_success(trials, outcomes, tmp_path):
    trials(
        TRIAL | {"is_resolved": True, "failure_mode": "agent_timeout"},
        TRIAL | {"is_resolved": None, "failure_mode": "unknown_agent_error"},
        TRIAL | {"is_resolved": False, "failure_mode": "agent_timeout"},
    )
    assert outcomes("tbench", tmp_path) == {"success": 1, "unknown": 1, "failure": 1}


def test_a_trial_becomes_a_record_with_all_that_it_holds(trials):
    ((imported, record),) = trials(TRIAL)
    assert imported.place == "results.json item 1"
    assert (record.task.id, record.task.series_id, record.task.title) == (
        "hello-world",
        "pilot",
        "Write hello",
    )
    (attempt,) = record.attempts
    assert (attempt.id, attempt.number, attempt.verdict) == ("effb400e", 2, "fail")
    assert attempt.failure_reason is None
    assert attempt.template_version == "2025-10-22__09-19-22"
    assert {"status": "failed", "message": "failed: test_content"} in attempt.verdict_details
    assert imported.record["source"]["total_input_tokens"] == 3069


def test_tasks_and_batches_beside_the_trials_are_used(tmp_path):
    (tmp_path / "trials.jsonl").write_text(json.dumps(TRIAL | {"instruction": None, "_batch": "mix"}))
    (tmp_path / "tasks.jsonl").write_text('{"task_id": "hello-world", "instruction": "Say hello"}\nrubbish\n')
    (tmp_path / "batches.jsonl").write_text('{"_batch": "mix", "commit_hash": "abc123"}\n')
    ((imported, record),) = checked(named("terminal-bench"), tmp_path, series="s")
    assert record.task.title == "Say hello"
    assert record.task.template_version == "mix"
    assert imported.record["source"]["agent_commit"] == "abc123"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"is_resolved": "yes"}, "is_resolved is true, false or null"),
        ({"trial_ended_at": "yesterday"}, "a time by RFC 3339 was expected"),
    ],
)
def test_a_trial_that_says_something_odd_is_left_out_alone(trials, change, why):
    bad, good = trials(TRIAL | change, TRIAL)
    assert isinstance(bad, Unread)
    assert why in bad.why
    assert not isinstance(good, Unread)


def test_what_is_no_trial_is_named_with_what_it_lacks(trials):
    (piece,) = trials({"reward": 1})
    assert piece.why == "no field 'task_id'; there is reward"


def test_a_trial_without_times_ended_when_its_file_was_written(trials):
    ((imported, _),) = trials(TRIAL | {"trial_started_at": None, "trial_ended_at": None})
    assert imported.record["task"]["finished_at_from"] == "file"
