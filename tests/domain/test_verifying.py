from __future__ import annotations

from yume.domain.verifying import telling_leaves


def told(details):
    return [(leaf.path, leaf.passage.excerpt) for leaf in telling_leaves(details, "/d", frozenset())]


def test_the_most_telling_key_wins():
    assert told({"check": "order", "output": "x", "message": "expected 9"}) == [("/d/message", "expected 9")]


def test_output_is_read_where_there_is_no_message():
    assert told({"check": "order", "output": "expected 9\n"}) == [("/d/output", "expected 9")]


def test_details_may_be_a_bare_string():
    assert told("expected 9 before 10") == [("/d", "expected 9 before 10")]


def test_a_check_that_passed_tells_nothing():
    checks = [
        {"name": "a", "status": "passed", "message": "error: none of it"},
        {"name": "b", "ok": False, "message": "line ends"},
    ]
    assert told({"checks": checks}) == [("/d/checks/1/message", "line ends")]


def test_a_message_about_an_error_comes_first_and_three_are_enough():
    checks = [{"message": f"note {name}"} for name in "abc"] + [{"message": "error: d"}]
    assert [text for _, text in told(checks)] == ["error: d", "note a", "note b"]


def test_a_list_of_failing_checks_is_told_by_its_key():
    assert told({"took": "3 s", "failed_checks": ["line_ends"]}) == [("/d/failed_checks/0", "line_ends")]


def test_short_details_without_a_telling_string_are_read_whole():
    assert told({"score": 0.2, "limit": 0.5}) == [("/d", '{"score":0.2,"limit":0.5}')]


def test_long_details_without_a_telling_string_tell_nothing():
    assert told({"table": list(range(1000))}) == []
    assert told(None) == []
    assert told({}) == []


def test_deep_details_do_no_harm():
    deep: list = ["error: at the bottom"]
    for _ in range(5_000):
        deep = [deep]
    assert told(deep)[0][1] == "error: at the bottom"


def test_keys_are_escaped_in_the_pointer():
    assert told({"a/b~": {"error": "no"}}) == [("/d/a~1b~0/error", "no")]
