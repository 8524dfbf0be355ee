from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from yume.domain.text import cap, clean, lines, raw_lines, rendered

any_text = st.text(st.characters(exclude_categories=()))
escaped = st.lists(st.sampled_from(["\x1b[31m", "\x1b]0;t\x07", "\x9b1m", "a", "é", "\x00", "\ud800"])).map(
    "".join
)


@given(st.one_of(any_text, escaped))
def test_cleaned_text_holds_no_control_character_and_no_lone_surrogate(text):
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", clean(text))


@given(st.one_of(any_text, escaped))
def test_cleaning_twice_is_cleaning_once(text):
    assert clean(clean(text)) == clean(text)


@given(escaped, st.integers(0, 40))
def test_a_text_cut_before_cleaning_is_the_start_of_the_cleaned_text(text, at):
    assert clean(text).startswith(clean(text[:at]))


def test_colours_and_titles_leave_their_text_alone():
    assert clean("\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain\ttab\n") == "red plain\ttab\n"


def test_a_title_that_never_ends_hides_no_error():
    assert "error" in clean("\x1b]0;" + "x" * 300 + " error")


def test_newline_carriage_return_and_both_end_a_line():
    assert lines("a\nb\r\nc\rd\n") == ["a", "b", "c", "d", ""]


@given(any_text)
def test_no_line_holds_an_end_of_line(text):
    assert not any({"\n", "\r"} & set(line) for line in raw_lines(text))
    assert len(lines(text)) == len(raw_lines(text))


@given(st.text("ab\n", max_size=60), st.integers(1, 30))
def test_a_capped_text_is_a_start_and_never_longer_than_its_limit(text, limit):
    capped = cap(text, limit)
    assert text.startswith(capped)
    assert len(capped) <= limit


def test_a_cap_keeps_whole_lines_unless_the_first_is_too_long():
    assert cap("abc\ndefgh", 6) == "abc"
    assert cap("abcdefgh\ni", 6) == "abcdef"
    assert cap("abc\nde", 6) == "abc\nde"


def test_what_is_no_string_is_read_as_compact_json():
    assert rendered({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    assert rendered("as it is") == "as it is"


def test_what_is_nested_too_deeply_is_read_as_nothing():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert rendered(deep) == ""
