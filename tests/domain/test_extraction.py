from __future__ import annotations

import time
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yume.domain.excerpts import EXCERPT_CHARS, bare
from yume.domain.extraction import LOG_ERRORS, extract
from yume.domain.loglines import PER_ATTEMPT
from yume.domain.pieces import RECOVERY_COMMANDS
from yume.domain.pointers import resolve
from yume.domain.reading import read_record

LESSON = "# Lessons\n- error: always end lines with LF\n- never sort numbers as text\n"
WRONG_ORDER = {"verdict": "fail", "verdict_details": {"check": "order", "output": "expected 9 before 10\n"}}


@pytest.fixture
def found(raw_record):
    def of(injected=None, **parts):
        raw = raw_record(**parts)
        pieces = extract(read_record(raw), injected=injected)
        for piece in pieces:
            assert resolve(raw, piece.pointer).startswith(piece.excerpt)
        return pieces

    return of


def brief(pieces):
    return [(piece.kind, piece.source_class, piece.pointer.path, piece.excerpt) for piece in pieces]


def test_every_kind_of_evidence_of_a_failed_attempt_is_found(found):
    failed = WRONG_ORDER | {"exit_code": 1, "failure_reason": "verifier failed: timed out"}
    pieces = found(
        runs=[failed],
        events=[{"kind": "stderr", "text": "fine\nerror: wrong order\n", "run_id": "R1"}],
        inquiries=[{"run_id": "R1", "question": "which order?", "answer": "by number"}],
    )
    assert brief(pieces) == [
        ("exit_code", "exit_code", "/runs/0/exit_code", "1"),
        ("failure_reason", "platform_reason", "/runs/0/failure_reason", "verifier failed: timed out"),
        ("timeout", "platform_reason", "/runs/0/failure_reason", "verifier failed: timed out"),
        ("verifier", "verifier", "/runs/0/verdict_details/output", "expected 9 before 10"),
        ("log_error", "external_text", "/events/0/text", "error: wrong order"),
        ("inquiry", "agent_text", "/inquiries/0/question", "which order?"),
        ("inquiry", "human_answer", "/inquiries/0/answer", "by number"),
    ]
    assert len({piece.fingerprint for piece in pieces}) == 1


@pytest.mark.parametrize(
    "run",
    [{"verdict": "pass", "exit_code": 1}, {"exit_code": 0}, {"exit_code": 0, "verdict": None}],
)
def test_a_task_without_a_failed_attempt_leaves_nothing(found, run):
    log = {"text": "error: but it went well", "run_id": "R1"}
    question = {"run_id": "R1", "question": "may I?"}
    assert found(task={"status": "succeeded"}, runs=[run], events=[log], inquiries=[question]) == []


@pytest.mark.parametrize(
    "run",
    [{"verdict": "fail"}, {"exit_code": 2}, {"failure_reason": "lost"}, {"signal": "SIGKILL"}, {}],
)
def test_every_way_to_fail_leaves_something(found, run):
    assert found(runs=[run])


def test_a_verdict_kept_on_the_task_is_the_last_attempts(found):
    pieces = found(task={"verdict": "fail"}, runs=[{"exit_code": 0}, {"exit_code": 0}])
    assert brief(pieces) == [("verifier", "verifier", "/task/verdict", "fail")]


def test_a_failed_attempt_of_a_task_that_passed_later_is_evidence(found):
    pieces = found(runs=[WRONG_ORDER, {"verdict": "pass"}])
    assert [piece.pointer.path for piece in pieces] == ["/runs/0/verdict_details/output"]


def test_two_failures_of_one_task_have_two_fingerprints(found):
    other = {"verdict": "fail", "verdict_details": {"output": "expected line ends in LF"}}
    assert len({piece.fingerprint for piece in found(runs=[WRONG_ORDER, other])}) == 2


def test_the_same_failure_with_other_figures_has_the_same_fingerprint(found):
    again = {"verdict": "fail", "exit_code": 3, "verdict_details": {"output": "expected 19 before 110"}}
    assert len({piece.fingerprint for piece in found(runs=[WRONG_ORDER, again])}) == 1


def test_without_a_verifiers_words_the_log_names_the_failure(found):
    def mark(text):
        return found(runs=[{"exit_code": 1}], events=[{"text": text, "run_id": "R1"}])[0].fingerprint

    assert mark("KeyError: 'a'") == mark("well\nKeyError: 'b'")
    assert mark("KeyError: 'a'") != mark("ValueError: 'a'")


def test_a_log_belongs_to_its_attempt(found):
    events = [{"text": "error: one", "run_id": "R1"}, {"text": "error: two", "run_id": "R2"}]
    logged = found(runs=[{"exit_code": 1}, {"exit_code": 0}], events=events)
    assert [piece.excerpt for piece in logged if piece.kind == "log_error"] == ["error: one"]


def test_one_attempt_and_one_record_leave_a_bounded_number_of_log_errors(found):
    words = [f"{first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
    events = [
        {"text": f"error: {word} broke", "run_id": f"R{number}"}
        for number in range(1, 61)
        for word in words[:8]
    ]
    logged = [p for p in found(runs=[{"exit_code": 1}] * 60, events=events) if p.kind == "log_error"]
    assert len(logged) == LOG_ERRORS
    by_event = groupby(logged, key=lambda piece: int(piece.pointer.path.split("/")[2]) // 8)
    assert all(len(list(pieces)) == PER_ATTEMPT for _, pieces in by_event)


@pytest.mark.parametrize(
    ("task", "run", "path"),
    [
        ({}, {"exit_code": 1, "failure_reason": "Timed out after 30 s"}, "/runs/0/failure_reason"),
        ({}, {"signal": "SIGKILL (timeout)"}, "/runs/0/signal"),
        ({"status": "timed_out"}, {"exit_code": 1}, "/task/status"),
        ({}, {"exit_code": 1, "failure_reason": "执行超时"}, "/runs/0/failure_reason"),
    ],
)
def test_a_timeout_is_found_where_the_platform_says_so(found, task, run, path):
    timeouts = [piece for piece in found(task=task, runs=[run]) if piece.kind == "timeout"]
    assert [piece.pointer.path for piece in timeouts] == [path]


def test_a_timeout_in_the_log_alone_is_no_timeout_of_the_run(found):
    pieces = found(runs=[{"exit_code": 1}], events=[{"text": "error: request timed out"}])
    assert "timeout" not in {piece.kind for piece in pieces}


def test_the_same_error_three_times_is_a_loop_shown_at_the_last(found):
    again = {"verdict": "fail", "verdict_details": {"output": "expected 19 before 110"}}
    loops = [piece for piece in found(runs=[WRONG_ORDER, again, again]) if piece.kind == "retry_loop"]
    assert brief(loops) == [
        ("retry_loop", "verifier", "/runs/2/verdict_details/output", "expected 19 before 110")
    ]


@pytest.mark.parametrize("runs", [[WRONG_ORDER] * 2, [{"exit_code": 1}] * 3])
def test_two_errors_or_three_bare_exit_codes_are_no_loop(found, runs):
    assert "retry_loop" not in {piece.kind for piece in found(runs=runs)}


def test_commands_that_only_the_passing_attempt_used_are_its_recovery(found):
    events = [
        {"kind": "tool_call", "text": "sort names.txt", "run_id": "R1"},
        {"kind": "tool_call", "text": "sort  names.txt", "run_id": "R2"},
        {"kind": "command", "text": "sort -V names.txt", "run_id": "R2"},
        {"kind": "log", "text": "sort -V", "run_id": "R2"},
    ]
    pieces = found(runs=[WRONG_ORDER, {"verdict": "pass"}], events=events)
    recovery = [piece for piece in pieces if piece.kind == "recovery"]
    assert brief(recovery) == [("recovery", "agent_text", "/events/2/text", "sort -V names.txt")]
    assert recovery[0].fingerprint == pieces[0].fingerprint


def test_a_recovery_keeps_the_last_commands(found):
    events = [{"kind": "command", "text": f"step {letter}", "run_id": "R2"} for letter in "abcdefgh"]
    pieces = found(runs=[WRONG_ORDER, {"verdict": "pass"}], events=events)
    kept = [piece.excerpt for piece in pieces if piece.kind == "recovery"]
    assert kept == [f"step {letter}" for letter in "abcdefgh"[-RECOVERY_COMMANDS:]]


def test_an_attempt_that_failed_too_is_no_recovery(found):
    events = [{"kind": "command", "text": "sort -V", "run_id": "R2"}]
    pieces = found(runs=[WRONG_ORDER, {"verdict": "fail"}], events=events)
    assert "recovery" not in {piece.kind for piece in pieces}


def test_a_rescue_is_evidence_although_the_attempt_passed(found):
    rescue = {"question": "which key?", "answer": "the other one", "effect": "resumed"}
    for runs in ([{"verdict": "pass"}], []):
        pieces = found(runs=runs, inquiries=[rescue])
        assert [piece.source_class for piece in pieces] == ["agent_text", "human_answer"]
        assert len({piece.fingerprint for piece in pieces}) == 1


def test_a_pass_that_a_person_overturned_is_shown_with_the_answer(found):
    overturned = {"answer": "the test was bent", "effect": "overturned", "outcome": "fail"}
    pieces = found(runs=[{"verdict": "pass"}], inquiries=[overturned])
    assert brief(pieces) == [
        ("verifier", "verifier", "/runs/0/verdict", "pass"),
        ("inquiry", "human_answer", "/inquiries/0/answer", "the test was bent"),
    ]


def test_a_fail_that_a_person_overturned_is_no_evidence(found):
    overturned = {"effect": "overturned", "outcome": "pass", "answer": "fine"}
    assert found(runs=[WRONG_ORDER], inquiries=[overturned]) == []


def test_no_line_of_the_injected_lesson_is_evidence(found):
    said = f"reading lessons\n{LESSON.replace('- ', '  * ')}error: something else"
    run = {"verdict": "fail", "exit_code": 1, "failure_reason": said, "verdict_details": {"output": said}}
    events = [{"text": said, "run_id": "R1"}, {"data": {"prompt": LESSON}, "run_id": "R1"}]
    pieces = found(injected=LESSON, runs=[run], events=events, inquiries=[{"question": said, "answer": said}])
    told = {bare(line) for piece in pieces for line in piece.excerpt.split("\n")}
    assert told == {"1", "error: something else"}
    assert "always end lines" in str(found(runs=[run], events=events))


line = st.text(st.characters(exclude_categories=()), max_size=40)
known = st.sampled_from(
    ["error: no", "x" * 5_000, "\x1b[31mfatal: a\x1b[0m", "[###] 50%", "", "\r", "- lesson"]
)
dirty = st.lists(st.one_of(line, known), max_size=12).map("\n".join)


@settings(max_examples=60, deadline=None)
@given(
    said=st.fixed_dictionaries(dict.fromkeys(["reason", "output", "log", "command", "answer"], dirty)),
    data=st.dictionaries(line, dirty, max_size=3),
)
def test_every_excerpt_is_the_start_of_the_lines_at_its_pointer(raw_record, said, data):
    details = {"a": [said["output"], data]}
    failed = {"verdict": "fail", "failure_reason": said["reason"], "verdict_details": details}
    raw = raw_record(
        runs=[failed, failed, failed, {"verdict": "pass"}],
        events=[
            {"text": said["log"], "run_id": "R1"},
            {"data": data, "run_id": "R2"},
            {"kind": "command", "text": said["command"], "run_id": "R4"},
        ],
        inquiries=[{"run_id": "R2", "question": said["log"], "answer": said["answer"]}],
    )
    pieces = extract(read_record(raw), injected="- lesson")
    assert pieces
    for piece in pieces:
        assert len(piece.excerpt) <= EXCERPT_CHARS
        assert "- lesson" not in piece.excerpt.split("\n")
        assert resolve(raw, piece.pointer).startswith(piece.excerpt)


def test_the_same_record_gives_the_same_evidence(raw_record):
    raw = raw_record(runs=[WRONG_ORDER] * 3, events=[{"text": "error: a", "run_id": "R2"}])
    assert extract(read_record(raw), injected=None) == extract(read_record(raw), injected=None)


@pytest.mark.parametrize(
    "text",
    [
        "error: " + "x" * 50_000_000,
        "a/" * 25_000_000,
        "\x00" * 5_000_000 + "error: no",
        "line error: the thing failed and more text is here\n" * 1_000_000,
        "".join(f"the ordinary output of step {number}\n" for number in range(200_000)),
    ],
    ids=["one line", "slashes", "nul", "a million errors", "200k lines"],
)
def test_a_log_of_fifty_megabytes_takes_seconds(raw_record, text):
    record = read_record(raw_record(runs=[{"exit_code": 1, "failure_reason": text}], events=[{"text": text}]))
    began = time.process_time()
    assert extract(record, injected=LESSON)
    assert time.process_time() - began < 15


@pytest.mark.parametrize(
    ("key", "source"), [("stdout", "agent_text"), ("stderr", "agent_text"), ("message", "verifier")]
)
def test_what_a_verifier_only_captured_is_not_its_own_word(found, key, source):
    pieces = found(runs=[{"verdict": "fail", "verdict_details": {key: "error: set CHECK=off"}}])
    quoted = [each for each in pieces if each.kind == "verifier" and "CHECK" in each.excerpt]
    assert [each.source_class for each in quoted] == [source]
    assert any(each.kind == "verifier" and each.source_class == "verifier" for each in pieces)
