from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.signals import Group, Pointer, Signal
from yume.domain.taxonomy import FailureClass, Label, Taxonomy
from yume.errors import TransientError
from yume.ids import RunId, SignalId, TaxonomyId
from yume.prompts import classify


def failure_class(code, *decided_by):
    return FailureClass(code, code.title(), "Definition.", "Yes.", "No.", 2, decided_by, True, True)  # noqa: FBT003  # as in the table


TAXONOMY = Taxonomy(
    TaxonomyId(UUID(int=1)),
    "yume",
    2,
    (
        failure_class("wrong_result", "model"),
        failure_class("parallel_collision", "rule", "model"),
        failure_class("environment_fault", "rule"),
        failure_class("notification_fatigue", "monitor"),
    ),
)


def signal(number, source="verifier", excerpt="expected 1"):
    return Signal(
        SignalId(UUID(int=number)),
        RunId(UUID(int=number)),
        f"task-{number}",
        0,
        "verifier",
        source,
        Pointer("/x", 1, 1),
        excerpt,
        "f",
    )


GROUPS = [Group("f1", (signal(1), signal(2))), Group("f2", (signal(3, "agent_text"),))]


def answer(*labels):
    return classify.Answer(
        labels=[
            classify.Labelled(item=item, code=code, confidence=confidence)
            for item, code, confidence in labels
        ]
    )


def read(given_answer):
    return classify.read(given_answer, GROUPS, TAXONOMY, by="model:test")


def test_every_group_gets_exactly_one_finding_in_its_order():
    findings = read(answer((2, "parallel_collision", 0.7), (1, "wrong_result", 0.9)))
    assert findings == [
        classify.Finding("f1", Label("wrong_result", 0.9, "model:test")),
        classify.Finding("f2", Label("parallel_collision", 0.7, "model:test")),
    ]


def test_below_the_confidence_floor_nothing_is_claimed():
    findings = read(answer((1, "wrong_result", 0.54), (2, "wrong_result", 0.55)))
    assert [each.label.code for each in findings] == ["unclassified", "wrong_result"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([], r"2 failures were asked about, 0 labels came back: missing \[1, 2\]"),
        ([(1, "wrong_result", 0.9)], r"missing \[2\]"),
        ([(1, "wrong_result", 0.9), (3, "wrong_result", 0.9)], r"missing \[2\], unknown \[3\]"),
        ([(1, "wrong_result", 0.9)] * 2 + [(2, "wrong_result", 0.9)], r"more than once \[1\]"),
        ([(1, "gremlins", 0.9), (2, "wrong_result", 0.9)], r"not among the 3 offered: \['gremlins'\]"),
        ([(1, "environment_fault", 0.9), (2, "wrong_result", 0.9)], "environment_fault"),
        ([(1, "notification_fatigue", 0.9), (2, "wrong_result", 0.9)], "notification_fatigue"),
        ([(1, "wrong_result", 1.1), (2, "wrong_result", 0.9)], r"confidence of items \[1\]"),
        ([(1, "wrong_result", float("nan")), (2, "wrong_result", 0.9)], r"confidence of items \[1\]"),
    ],
)
def test_an_answer_that_does_not_fit_the_question_is_asked_again(labels, message):
    with pytest.raises(TransientError, match=message):
        read(answer(*labels))


def test_the_question_offers_only_what_a_model_decides_and_says_how_often_it_was_seen():
    question = classify.ask(GROUPS, TAXONOMY, language="en")
    assert [each["code"] for each in question.body["classes"]] == ["wrong_result", "parallel_collision"]
    assert [(each["item"], each["runs"], each["tasks"]) for each in question.body["items"]] == [
        (1, 2, 2),
        (2, 1, 1),
    ]
    assert json.loads(json.dumps(question.body)) == question.body
    for words in ("`parallel_collision`", "## Item 2", "expected 1", "English"):
        assert words in question.text


def test_excerpts_are_few_different_and_of_every_source():
    many = [signal(number, "agent_text", f"line {number % 5}") for number in range(40)]
    group = Group("f", (*many, signal(50, "verifier"), signal(51, "verifier"), signal(52, "exit_code", "1")))
    (item,) = classify.ask([group], TAXONOMY, language="en").body["items"]
    assert [each["source"] for each in item["excerpts"]] == [
        "exit_code",
        "verifier",
        "agent_text",
        "agent_text",
    ]
    assert len({each["text"] for each in item["excerpts"]}) == 4


@given(st.permutations(range(1, 20)))
def test_the_order_in_which_signals_were_read_does_not_change_the_question(order):
    signals = {number: signal(number, "agent_text", f"line {number % 7}") for number in order}
    shuffled = Group("f", tuple(signals[number] for number in order))
    ordered = Group("f", tuple(signals[number] for number in sorted(order)))
    assert (
        classify.ask([shuffled], TAXONOMY, language="en").key
        == classify.ask([ordered], TAXONOMY, language="en").key
    )


labels = st.lists(
    st.builds(
        classify.Labelled,
        item=st.integers(-1, 3),
        code=st.sampled_from(["wrong_result", "unclassified", "environment_fault"]) | st.text(),
        confidence=st.floats(),
    ),
    max_size=4,
)


@given(labels)
def test_any_answer_is_read_whole_or_asked_again(labels):
    try:
        findings = read(classify.Answer(labels=labels))
    except TransientError:
        return
    assert [each.fingerprint for each in findings] == ["f1", "f2"]
    assert {each.label.code for each in findings} <= {"wrong_result", "parallel_collision", "unclassified"}
