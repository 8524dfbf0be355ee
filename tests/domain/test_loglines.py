from __future__ import annotations

from datetime import UTC, datetime

from yume.domain.loglines import PER_ATTEMPT, log_errors
from yume.domain.runs import Event

AT = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")


def found(*texts, kind="log", lesson=frozenset()):
    events = [Event(index, AT, kind, text) for index, text in enumerate(texts)]
    return [
        (error.event.index, error.passage.first, error.passage.last) for error in log_errors(events, lesson)
    ]


def test_a_traceback_is_one_passage_named_by_its_last_line():
    text = (
        "ok\nTraceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nKeyError: 'a'\nbye"
    )
    (error,) = log_errors([Event(0, AT, "stderr", text)], frozenset())
    assert (error.passage.first, error.passage.last, error.headline) == (2, 5, "KeyError: 'a'")


def test_a_log_without_errors_has_no_passage():
    assert found("all well\n0 errors\n") == []


def test_other_kinds_of_event_are_no_log():
    assert found("error: no", kind="tool_call") == []
    assert found("error: no", kind="output") == [(0, 1, 1)]


def test_the_same_error_counts_once_and_where_it_was_last():
    assert found("error: no 1\nfine\nerror: no 2\n", "error: no 3") == [(1, 1, 1)]


def test_of_many_errors_the_last_are_kept_in_order():
    errors = found(*(f"error: {name} broke" for name in NAMES))
    assert [index for index, _, _ in errors] == list(range(len(NAMES) - PER_ATTEMPT, len(NAMES)))


def test_beside_a_plain_error_a_mere_hint_is_left_out():
    assert found("cannot see\n", "fatal: no repository\n") == [(1, 1, 1)]
    assert found("cannot see\n") == [(0, 1, 1)]


def test_a_bare_carriage_return_counts_as_a_line():
    assert found("10%\r20%\rerror: no\r") == [(0, 3, 3)]


def test_a_lesson_line_is_no_error_and_ends_a_passage():
    lesson = frozenset({"error: never ignore it"})
    assert found("error: a\n- error: never ignore it\nerror: b\n", lesson=lesson) == [(0, 1, 1), (0, 3, 3)]
