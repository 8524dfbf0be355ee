from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from yume.domain.reading import read_record
from yume.domain.runs import (
    Capabilities,
    Judgement,
    events_by_attempt,
    judge,
    memory_version_of,
    version_read,
)

FINISHED = datetime(2026, 1, 2, tzinfo=UTC)
LATER = FINISHED + timedelta(days=30)
NO_VERIFIER = Capabilities(verifier={"chore": False})
JUDGED = Capabilities(verifier={"chore": True})
DISK = "No space left on device"


@pytest.fixture
def outcome(raw_record):
    def of(*, capabilities=None, now=LATER, kind="chore", task=None, **parts):
        record = read_record(raw_record(task={"kind": kind} | (task or {}), **parts))
        return judge(record, capabilities or Capabilities(), now=now)

    return of


def test_a_cancelled_task_is_cancelled_even_if_its_verdict_is_fail(outcome):
    assert outcome(task={"status": "cancelled"}, runs=[{"verdict": "fail"}]).outcome == "cancelled"


def test_the_platforms_own_words_are_mapped(outcome):
    words = Capabilities(statuses={"stopped by user": "cancelled"})
    assert outcome(task={"status": "stopped by user"}, capabilities=words).outcome == "cancelled"


@pytest.mark.parametrize(("word", "expected"), [("pass", "success"), ("fail", "failure")])
def test_a_persons_final_word_counts_above_the_verdict(outcome, word, expected):
    other = "fail" if word == "pass" else "pass"
    overturned = {"effect": "overturned", "outcome": word}
    assert outcome(runs=[{"verdict": other}], inquiries=[overturned]).outcome == expected


def test_the_latest_of_two_final_words_counts(outcome):
    words = [
        {"effect": "overturned", "outcome": "pass", "answered_at": "2026-01-04T00:00:00Z"},
        {"effect": "overturned", "outcome": "fail", "answered_at": "2026-01-03T00:00:00Z"},
    ]
    assert outcome(runs=[{"verdict": "fail"}], inquiries=words).outcome == "success"


def test_an_overturning_without_an_outcome_overturns_nothing(outcome):
    assert outcome(runs=[{"verdict": "pass"}], inquiries=[{"effect": "overturned"}]).outcome == "success"


@pytest.mark.parametrize("effect", ["resumed", "abandoned"])
def test_a_rescue_by_a_person_hides_no_failure(outcome, effect):
    rescue = {"effect": effect, "answer": "use the other key"}
    assert outcome(runs=[{"verdict": "pass"}], inquiries=[rescue]) == Judgement(
        "failure", rescued=True, settled=True
    )


def test_a_question_that_nobody_answered_rescues_nothing(outcome):
    judged = outcome(runs=[{"verdict": "pass"}], inquiries=[{"effect": "resumed", "question": "which key?"}])
    assert judged == Judgement("success", rescued=False, settled=True)


def test_a_task_that_timed_out_and_was_resolved_is_a_success(outcome):
    timed_out = {"verdict": "pass", "exit_code": 124, "failure_reason": "timed out"}
    assert outcome(task={"status": "timed_out"}, runs=[timed_out]).outcome == "success"


def test_a_fault_of_the_environment_is_no_failure(outcome):
    assert outcome(runs=[{"verdict": "fail", "failure_reason": DISK}]).outcome == "infrastructure"


def test_a_fault_of_the_environment_in_an_earlier_attempt_excuses_nothing(outcome):
    runs = [{"failure_reason": DISK}, {"verdict": "fail", "failure_reason": "wrong order"}]
    assert outcome(runs=runs).outcome == "failure"


def test_a_pass_comes_before_a_fault_of_the_environment(outcome):
    assert outcome(runs=[{"verdict": "pass", "failure_reason": DISK}]).outcome == "success"


def test_the_verdict_kept_on_the_task_counts_where_the_attempt_has_none(outcome):
    assert outcome(task={"verdict": "pass"}, runs=[{"exit_code": 1}]).outcome == "success"
    assert outcome(task={"verdict": "pass"}, runs=[{"verdict": "fail"}]).outcome == "failure"


def test_without_a_verdict_a_kind_that_is_verified_stays_unknown(outcome):
    assert outcome(runs=[{"exit_code": 0}], capabilities=JUDGED).outcome == "unknown"


@pytest.mark.parametrize(("code", "expected"), [(0, "success"), (1, "failure")])
def test_without_a_verifier_the_exit_code_decides(outcome, code, expected):
    assert outcome(runs=[{"exit_code": code}], capabilities=NO_VERIFIER).outcome == expected


def test_a_kind_that_nobody_described_has_a_verifier_if_its_record_has_a_verdict_key(outcome):
    assert outcome(runs=[{"exit_code": 0, "verdict": None}]).outcome == "unknown"
    assert outcome(runs=[{"exit_code": 0}]).outcome == "success"


@pytest.mark.parametrize(
    ("status", "expected"), [("succeeded", "success"), ("failed", "failure"), ("odd", "unknown")]
)
def test_without_verdict_and_exit_code_the_status_decides(outcome, status, expected):
    assert outcome(task={"status": status}).outcome == expected


@pytest.mark.parametrize(
    ("age", "settled"), [(timedelta(days=6, hours=23), False), (timedelta(days=7), True)]
)
def test_a_run_without_its_verdict_is_unsettled_for_seven_days(outcome, age, settled):
    assert outcome(runs=[{"verdict": None}], now=FINISHED + age).settled is settled


def test_a_verdict_an_absent_verdict_and_an_open_inquiry_are_settled_at_once(outcome):
    assert outcome(runs=[{"verdict": "fail"}], now=FINISHED).settled
    assert outcome(runs=[{"exit_code": 1}], now=FINISHED).settled
    assert outcome(runs=[{"verdict": "fail"}], inquiries=[{"question": "?"}], now=FINISHED).settled


def test_an_unmistakable_last_log_line_is_a_fault_of_the_environment(outcome):
    log = {"text": f"working\nwrite failed: {DISK}\n", "run_id": "R1"}
    assert outcome(runs=[{"exit_code": 1}], events=[log]).outcome == "infrastructure"


def test_the_same_line_long_before_the_end_is_the_agents_own_story(outcome):
    log = {"text": f"{DISK}\n" + "and on it went\n" * 30, "run_id": "R1"}
    assert outcome(runs=[{"exit_code": 1}], events=[log]).outcome == "failure"


def test_no_log_line_turns_exit_code_zero_into_a_fault_of_the_environment(outcome):
    log = {"text": DISK, "run_id": "R1"}
    assert outcome(runs=[{"exit_code": 0}], events=[log]).outcome == "success"


def test_events_are_dealt_by_run_id_else_by_time(raw_record):
    runs = [
        {"started_at": "2026-01-01T10:00:00Z", "finished_at": "2026-01-01T11:00:00Z"},
        {"started_at": "2026-01-01T12:00:00Z", "finished_at": "2026-01-01T13:00:00Z"},
    ]
    events = [
        {"at": "2026-01-01T12:30:00Z"},
        {"at": "2026-01-01T12:30:00Z", "run_id": "R1"},
        {"at": "2026-01-01T09:00:00Z"},
        {"at": "2026-01-01T12:30:00Z", "run_id": "of another task"},
    ]
    dealt = events_by_attempt(read_record(raw_record(runs=runs, events=events)))
    assert {index: [event.index for event in given] for index, given in dealt.items()} == {0: [1], 1: [0]}


def test_without_text_the_data_of_an_event_is_read(raw_record):
    events = read_record(raw_record(events=[{"data": {"a": 1}}, {"text": "t", "data": 1}, {}])).events
    assert [event.source for event in events] == [("data", '{"a":1}'), ("text", "t"), ("text", "")]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([{"memory_version": 3}, {"memory_version": 3}], ("3", "reported")),
        ([{"memory_version": 3}, {"memory_version": 4}], ("3", "mixed")),
        ([{"memory_version": None}], ("0", "reported")),
        ([{}], (None, "unknown")),
        ([], (None, "unknown")),
    ],
)
def test_a_run_belongs_to_the_version_that_its_first_attempt_read(raw_record, versions, expected):
    assert memory_version_of(read_record(raw_record(runs=versions))) == expected


SWITCHED = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ({"memory_version": 4, "started_at": "2026-01-01T13:00:00Z"}, ("4", "reported")),
        ({"started_at": "2026-01-01T11:00:00Z"}, ("0", "inferred")),
        ({"started_at": "2026-01-01T13:00:00Z"}, ("7", "inferred")),
        ({"started_at": "2026-01-01T15:00:00Z"}, ("8", "inferred")),
        ({"started_at": "2026-01-01T12:01:00Z"}, (None, "unknown")),
        ({"started_at": "2026-01-01T11:59:00Z"}, (None, "unknown")),
        ({"started_at": "2026-01-01T12:01:01Z"}, ("7", "inferred")),
        ({}, (None, "unknown")),
    ],
)
def test_a_version_that_nobody_reports_is_inferred_from_when_the_run_started(raw_record, run, expected):
    switches = [(SWITCHED, "7"), (SWITCHED + timedelta(hours=2), "8")]
    assert version_read(read_record(raw_record(runs=[run])), switches) == expected


def test_a_version_that_changed_between_attempts_stays_mixed(raw_record):
    mixed = [{"memory_version": 3}, {"memory_version": 4, "started_at": "2026-01-01T13:00:00Z"}]
    assert version_read(read_record(raw_record(runs=mixed)), [(SWITCHED, "7")]) == ("3", "mixed")
