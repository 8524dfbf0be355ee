from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.adopting import SHOWN_FAULTS, rules_of
from yume.domain.guard import scan
from yume.domain.lessons import RULE_LIMIT
from yume.errors import PermanentError


def test_each_line_that_says_something_is_a_rule_in_its_order():
    text = "Use `sort -n`.\n\n  Ask before deleting.  \r\n\t\nRun the tests; then stop. Twice.\n"
    assert rules_of(text) == ["Use `sort -n`.", "Ask before deleting.", "Run the tests; then stop. Twice."]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("- Use `sort`.", "Use `sort`."),
        ("* Use `sort`.", "Use `sort`."),
        ("  - Use `sort`.", "Use `sort`."),
        ("• Use `sort`.", "Use `sort`."),
        ("•先排序。", "先排序。"),
        ("1. Use `sort`.", "Use `sort`."),
        ("12.\tUse `sort`.", "Use `sort`."),
        ("1.5 seconds are enough.", "1.5 seconds are enough."),
        ("2026. That was the year.", "2026. That was the year."),
        ("-n sorts by number.", "-n sorts by number."),
        ("**Never** push.", "**Never** push."),
        ("*Never* push.", "*Never* push."),
        ("- - Use `sort`.", "- Use `sort`."),
        ("#12 is the ticket to read.", "#12 is the ticket to read."),
    ],
)
def test_a_list_marker_is_taken_off_and_nothing_else(line, rule):
    assert rules_of(line) == [rule]


@pytest.mark.parametrize(
    "line", ["---", "***", "===", "```", "```bash", "~~~ python", "-", "1.", "•", "|---|", "#", "##", "> "]
)
def test_a_line_of_markup_alone_is_no_rule(line):
    assert rules_of(f"{line}\nUse `sort`.\n{line}") == ["Use `sort`."]


def test_headings_are_no_rules_beside_rules_and_are_the_rules_where_they_stand_alone():
    assert rules_of("# How we work\n\n- Use `sort`.\n\n## More ##\n- Ask.") == ["Use `sort`.", "Ask."]
    assert rules_of("# How we work\n---\n## Use C# here ##\n### Ask\n") == [
        "How we work",
        "Use C# here",
        "Ask",
    ]


def test_the_same_line_twice_is_one_rule_where_it_stood_first():
    assert rules_of("- Ask.\n- Use `sort`.\n1. Ask.\nask.") == ["Ask.", "Use `sort`.", "ask."]


def test_a_line_within_the_limit_is_not_cut_and_one_over_it_is_cut_between_sentences():
    first, second = "A" * 149 + ".", "B" * 148 + "."
    assert rules_of(f"- {first} {second}") == [f"{first} {second}"]
    assert rules_of(f"- {first} {second[:-1]}b.") == [first, second[:-1] + "b."]


def test_the_pieces_are_as_few_as_the_limit_allows():
    sentences = [letter * 89 + "!" for letter in "abcdefg"]
    assert rules_of(" ".join(sentences)) == [
        " ".join(sentences[:3]),
        " ".join(sentences[3:6]),
        sentences[6],
    ]


def test_chinese_sentences_are_cut_after_their_marks_and_closing_quotes():
    first, second = "先" * 198 + "吗\uff1f”", "再" * 150 + "。"
    assert rules_of(first + second) == [first, second]


def test_a_command_and_an_abbreviation_are_not_cut():
    command = "Use `" + "x. y" * 60 + "`."
    abbreviation = "Ask a person, e.g. " + "b" * 200 + "."
    assert rules_of(f"{command} {abbreviation}") == [command, abbreviation]
    with pytest.raises(PermanentError, match="a sentence of 358 characters"):
        rules_of("a" * 200 + " `x. y` " + "b" * 150)


def test_a_sentence_over_the_limit_is_refused_with_its_line_and_length():
    with pytest.raises(PermanentError, match=r"line 3 has a sentence of 301 characters, 300 are allowed"):
        rules_of(f"Ask.\n\n- Short one. {'x' * 300}.\n")
    assert rules_of(f"- {'x' * 299}.") == ["x" * 299 + "."]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("- Use\u202e `sort`.", "bidi:202e"),
        ("- Use\u200b `sort`.", "zero_width:200b"),
        ("# Use\U000e0041 it", "tag:e0041"),
        ("---\u200b", "zero_width:200b"),
        ("- Use AKIAABCDEFGHIJKLMNOP.", "secret"),
    ],
)
def test_a_line_that_no_agent_may_read_is_refused_with_its_number_and_reasons(line, reason):
    with pytest.raises(PermanentError, match=f"edit it first: line 2 holds {reason}"):
        rules_of(f"- Ask.\n{line}\n- Use `sort`.")


def test_a_line_that_a_person_has_to_look_at_is_adopted():
    assert scan("See https://wiki.example.com first.").verdict == "hold"
    assert rules_of("- See https://wiki.example.com first.") == ["See https://wiki.example.com first."]


def test_all_faults_are_listed_up_to_a_number():
    with pytest.raises(PermanentError, match=r"line 1 holds .*; line 2 has a sentence of 400 characters"):
        rules_of("a\u200b\n" + "b" * 400)
    with pytest.raises(PermanentError, match=rf"line {SHOWN_FAULTS} holds [^;]*; and 7 more$"):
        rules_of("a\u200b\n" * (SHOWN_FAULTS + 7))


@pytest.mark.parametrize("text", ["", "\n \n", "---\n\n```\n```\n", "# \n"])
def test_a_text_without_a_rule_has_nothing_to_adopt(text):
    with pytest.raises(PermanentError, match="nothing to adopt"):
        rules_of(text)


words = st.text(st.sampled_from("ab排。\uff1f. !`)”"), min_size=1, max_size=700)


@given(st.lists(st.one_of(words, st.text(max_size=40)), max_size=6))
def test_no_rule_is_over_the_limit_hidden_twice_or_without_a_word_and_none_is_invented(lines):
    text = "\n".join(lines)
    try:
        rules = rules_of(text)
    except PermanentError:
        return
    assert all(0 < len(rule) <= RULE_LIMIT and rule == rule.strip() for rule in rules)
    assert all(scan(rule).verdict != "block" for rule in rules)
    assert len(set(rules)) == len(rules)
    assert all(rule in text for rule in rules)


@given(
    st.lists(
        st.from_regex(re.compile(r"[a-z]{1,40}[.!?] ", re.ASCII), fullmatch=True), min_size=1, max_size=60
    )
)
def test_cutting_a_line_loses_no_sentence(sentences):
    distinct = "".join(f"{number} {sentence}" for number, sentence in enumerate(sentences))
    assert " ".join(rules_of(distinct)) == distinct.strip()
