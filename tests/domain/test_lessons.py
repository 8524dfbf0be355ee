from __future__ import annotations

from uuid import UUID

import pytest

from yume.domain.lessons import code_of, content_hash, learnable, one_sentence, wrong_with
from yume.domain.signals import Group, Pointer, Signal
from yume.domain.taxonomy import FailureClass, Taxonomy
from yume.ids import RunId, SignalId, TaxonomyId


def signal(number, code):
    return Signal(
        SignalId(UUID(int=number)),
        RunId(UUID(int=number)),
        "task",
        0,
        "verifier",
        "verifier",
        Pointer("/x", 1, 1),
        "text",
        "f",
        code,
    )


def taxonomy(*, attributable, learnable):
    each = FailureClass("wrong_result", "", "", "", "", 1, ("model",), attributable, learnable)
    return Taxonomy(TaxonomyId(UUID(int=1)), "yume", 1, (each,))


def test_a_hash_is_of_the_rule_and_of_the_evidence_in_any_order():
    one, two = SignalId(UUID(int=1)), SignalId(UUID(int=2))
    assert content_hash("rule", [one, two]) == content_hash("rule", [two, one])
    assert content_hash("rule", [one]) != content_hash("rule", [one, two])
    assert content_hash("rule", [one]) != content_hash("Rule", [one])


def test_only_a_class_that_a_lesson_can_change_and_may_be_learnt_from_is_learnable():
    group = Group("f", (signal(1, "wrong_result"), signal(2, "wrong_result")))
    assert learnable(group, taxonomy(attributable=True, learnable=True))
    assert not learnable(group, taxonomy(attributable=False, learnable=True))
    assert not learnable(group, taxonomy(attributable=True, learnable=False))


@pytest.mark.parametrize("codes", [(None, None), ("wrong_result", None), ("wrong_result", "other")])
def test_a_group_that_is_not_labelled_as_a_whole_has_no_code_and_teaches_nothing(codes):
    group = Group("f", tuple(signal(number, code) for number, code in enumerate(codes)))
    assert code_of(group) is None
    assert not learnable(group, taxonomy(attributable=True, learnable=True))


@pytest.mark.parametrize(
    "rule",
    [
        "Use `sort -n`.",
        "When the check says 4.5 is too low, use e.g. an `awk` line.",
        "Use `find . -print0 | xargs -0 cat`. ",
        "Write `a. B` as one command.",
        "当检查失败时\uff0c使用 `sort -n`。",
    ],
)
def test_one_sentence_is_one_sentence(rule):
    assert one_sentence(rule)


@pytest.mark.parametrize(
    "rule", ["", "  ", "Use sort. Then stop.", "Use sort\nand stop", "先排序。再输出", "Stop! 停"]
)
def test_two_sentences_two_lines_or_none_are_not_one(rule):
    assert not one_sentence(rule)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (" ", "empty_rule"),
        ("x" * 301, "rule_too_long"),
        ("One. Two.", "not_one_sentence"),
        ("Use sort\u202e -n", "blocked"),
    ],
)
def test_what_is_wrong_with_a_rule_is_named(rule, code):
    assert wrong_with(rule)[0] == code
    assert wrong_with("Use `sort -n`.") is None


@pytest.mark.parametrize("rule", ["Build first. then say done.", "Build it! 2 times.", "先构建。再测试。"])
def test_a_second_sentence_counts_however_it_begins(rule):
    assert not one_sentence(rule)


@pytest.mark.parametrize(
    "rule", ["Build it, e.g. with make.", "Use version 1.2.3 of it.", "Use `a. b` first."]
)
def test_a_dot_inside_a_sentence_begins_no_second_one(rule):
    assert one_sentence(rule)
