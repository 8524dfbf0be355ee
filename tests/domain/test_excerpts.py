from __future__ import annotations

import pytest

from yume.domain.excerpts import (
    EXCERPT_CHARS,
    Passage,
    is_informative,
    is_lesson_line,
    lesson_lines,
    passage_of,
    strength,
)

NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    "line",
    [
        "[ERROR] cannot compile",
        "error[E0308]: mismatched types",
        "java.lang.IllegalStateException: no",
        "2026-01-01T00:00:00.1Z ##[error]Process completed with exit code 1.",
        "--- FAIL: TestA (0.00s)",
        "E   assert 1 == 2",
        "3 tests failed",
        "npm ERR! code 1",
        "错误: 文件不存在",
        "12:00:01 fatal: not a repository",
    ],
)
def test_a_plain_error_is_strong(line):
    assert strength(line) == 2


@pytest.mark.parametrize(
    "line", ["bash: bc: command not found", "connection refused", "无法打开", "cannot open it"]
)
def test_a_line_that_may_be_an_error_is_weak(line):
    assert strength(line) == 1


@pytest.mark.parametrize(
    "line",
    [
        "all went well",
        "Tests run: 3, Failures: 0, Errors: 0",
        "no errors, no warnings",
        "0 failed, 3 passed",
        "[INFO] checking TestInvalidToken",
        "WARNING: access will be denied in future",
        "bash -o pipefail",
        "没有错误",
        "",
    ],
)
def test_a_harmless_line_is_no_error(line):
    assert strength(line) == 0


def test_a_count_of_errors_above_zero_is_no_denial():
    assert strength("Failures: 0, Errors: 2") > 0


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "=========",
        "[#####     ] 45%",
        "45 %",
        "Downloading a.tar",
        "正在下载 3/4",
        " 10% |███       | 1/9",
    ],
)
def test_blanks_rulers_and_progress_say_nothing(line):
    assert not is_informative(line)


@pytest.mark.parametrize("line", ["45% of the tests failed", "line 3", "失败"])
def test_a_line_with_words_says_something(line):
    assert is_informative(line)


def test_a_short_text_is_taken_whole_without_its_blank_rim():
    assert passage_of("\n\nexpected 9\n\nbefore 10\n\n", NOTHING) == Passage(3, 5, "expected 9\n\nbefore 10")


def test_a_text_that_says_nothing_has_no_passage():
    assert passage_of("\n ---- \n[####] 100%\n", NOTHING) is None


def test_of_a_long_text_the_plainest_error_is_taken():
    text = "quiet line of output\n" * 500 + "ValueError: no\nafter\n" + "more output\n" * 3
    passage = passage_of(text, NOTHING)
    assert (passage.first, passage.excerpt.split("\n")[0]) == (501, "ValueError: no")


def test_of_a_long_text_without_errors_the_end_is_taken():
    passage = passage_of("\n".join(f"quiet line number {number}" for number in range(1000)), NOTHING)
    assert passage.last == 1000
    assert passage.excerpt.endswith("quiet line number 999")
    assert len(passage.excerpt) <= EXCERPT_CHARS


def test_progress_bars_end_a_passage():
    assert passage_of("start\n[####  ] 50%\nerror: no\n[######] 100%\n", NOTHING) == Passage(
        3, 3, "error: no"
    )


def test_a_line_that_is_too_long_is_cut_and_ends_the_passage():
    assert passage_of("error: " + "x" * 9_000 + "\nafter", NOTHING) == Passage(
        1, 1, ("error: " + "x" * 2_000)[:2_000]
    )


def test_lines_of_the_injected_lesson_are_left_out():
    lesson = lesson_lines("# Lessons\n- Always end lines with LF.\n2. Sort by number.\n")
    text = "expected LF\n  * Always end lines with LF.\nSort by number.\ngot CRLF"
    assert passage_of(text, lesson) == Passage(1, 1, "expected LF")


@pytest.mark.parametrize(
    "line",
    [
        "> Always end lines with LF.",
        "\x1b[1mAlways end lines with LF.\x1b[0m",
        "2026-01-01T00:00:00Z - Always end lines with LF.",
        '{"prompt":"- Always end lines with LF.\\n"}',
    ],
)
def test_a_lesson_line_is_known_in_other_dress(line):
    assert is_lesson_line(line, lesson_lines("- Always end lines with LF."))


def test_json_that_quotes_the_lesson_is_no_passage():
    lesson = lesson_lines("- Always end lines with LF.")
    assert passage_of('{"prompt":"- Always end lines with LF."}', lesson) is None
    assert passage_of('{"prompt":"Sort the names."}', lesson)


@pytest.mark.parametrize("line", ["error: Always end lines with LF.", "Always end lines", ""])
def test_another_line_is_no_lesson_line(line):
    assert not is_lesson_line(line, lesson_lines("- Always end lines with LF.\n\n"))


def test_without_a_lesson_no_line_is_one():
    assert lesson_lines(None) == NOTHING
    assert not is_lesson_line("", NOTHING)
