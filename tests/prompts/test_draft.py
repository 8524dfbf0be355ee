from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.guard import scan
from yume.domain.lessons import one_sentence, platform_written
from yume.domain.signals import Group, Pointer, Signal
from yume.ids import DreamId, RunId, SignalId, derived_id
from yume.prompts import draft

DREAM = DreamId(UUID(int=42))


def signal(number, task, source="verifier", excerpt="expected 7 before 23", kind="verifier"):
    return Signal(
        SignalId(UUID(int=number)),
        RunId(UUID(int=task)),
        f"kamila-{task}",
        number,
        kind,
        source,
        Pointer("/x", 1, 1),
        excerpt,
        "f1",
        "wrong_result",
    )


SIGNALS = (
    signal(1, 1),
    signal(2, 2),
    signal(3, 1, "agent_text", "sort -n a.txt", "recovery"),
    signal(4, 2, "human_answer", "sort -n does that", "inquiry"),
)
GROUPS = [Group("f1", SIGNALS)]
ONE, TWO, THREE, FOUR = (str(each.id) for each in SIGNALS)


def proposed(**change):
    return draft.Proposed(
        **{
            "item": 1,
            "symptom": "out of order",
            "root_cause": "sorted as text",
            "rule": "When figures are out of order, use `sort -n`.",
            "scope": "ranking",
            "advice": "remedy",
            "evidence": [THREE, ONE, TWO],
            "quotes": [draft.Cited(signal=ONE, text="expected 7")],
            "confidence": 0.8,
            **change,
        }
    )


def read(*lessons):
    return draft.read(draft.Answer(lessons=list(lessons)), GROUPS, dream_id=DREAM)


def test_a_sound_lesson_becomes_a_draft_with_what_code_knows():
    (made,), refused = read(proposed())
    assert refused == []
    assert made.id == derived_id(DREAM, "f1", made.rule)
    assert made.evidence == (SIGNALS[0].id, SIGNALS[1].id, SIGNALS[2].id)
    assert (made.trust, made.category, made.fingerprints, made.advice) == (
        "agent_text",
        "wrong_result",
        ("f1",),
        "remedy",
    )


def test_no_lesson_is_a_fine_answer():
    assert read() == ([], [])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"item": 0}, "unknown_item"),
        ({"item": 2}, "unknown_item"),
        ({"evidence": [ONE, str(UUID(int=99))]}, "unknown_signal"),
        ({"evidence": ["gremlin"]}, "unknown_signal"),
        ({"evidence": []}, "no_platform_signal"),
        ({"evidence": [THREE, FOUR]}, "no_platform_signal"),
        ({"quotes": []}, "no_quote"),
        ({"quotes": [draft.Cited(signal=ONE, text="expected  7")]}, "quote_not_found"),
        ({"quotes": [draft.Cited(signal=ONE, text="Expected 7")]}, "quote_not_found"),
        ({"quotes": [draft.Cited(signal=ONE, text=" ")]}, "quote_not_found"),
        ({"quotes": [draft.Cited(signal=FOUR, text="sort -n")]}, "quote_not_cited"),
        ({"rule": "\x00 "}, "empty_rule"),
        ({"rule": "x" * 301}, "rule_too_long"),
        ({"rule": "Use sort. Then stop."}, "not_one_sentence"),
        ({"rule": "Use sort\u202e."}, "blocked"),
        ({"symptom": "\u200b"}, "blocked"),
        ({"symptom": " "}, "incomplete"),
        ({"root_cause": ""}, "incomplete"),
        ({"confidence": 1.5}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
    ],
)
def test_a_bad_lesson_is_refused_alone_with_its_reason(change, code):
    drafts, refused = read(proposed(**change), proposed())
    assert [each.code for each in refused] == [code]
    assert len(drafts) == 1


def test_the_same_rule_twice_is_one_draft():
    drafts, refused = read(proposed(), proposed(confidence=0.9))
    assert (len(drafts), [each.code for each in refused]) == (1, ["repeated"])


def test_a_rule_is_cleaned():
    (made,), _ = read(proposed(rule=" Use \x1b[31m`sort -n`\x00. "))
    assert made.rule == "Use `sort -n`."


@pytest.mark.parametrize(
    ("advice", "evidence", "believed"),
    [
        ("remedy", [ONE, THREE], "remedy"),
        ("remedy", [ONE, FOUR], "warning"),
        ("answer", [ONE, FOUR], "answer"),
        ("answer", [ONE, THREE], "warning"),
        ("warning", [ONE, THREE, FOUR], "warning"),
    ],
)
def test_a_way_out_is_believed_only_where_it_is_cited(advice, evidence, believed):
    (made,), _ = read(proposed(advice=advice, evidence=evidence))
    assert made.advice == believed


def test_the_question_shows_ids_kinds_sources_and_tasks_by_number_only():
    question = draft.ask(GROUPS, language="zh")
    (item,) = question.body["items"]
    assert (item["code"], item["runs"], item["tasks"]) == ("wrong_result", 2, 2)
    assert {each["id"] for each in item["signals"]} == {ONE, TWO, THREE, FOUR}
    assert "kamila-" not in json.dumps(question.body)
    assert "kamila-" not in question.text
    assert "Chinese" in question.text
    for each in SIGNALS:
        assert f"{each.id} (task" in question.text
        assert each.excerpt in question.text


def test_tasks_that_show_a_way_out_come_before_a_crowd_that_shows_none():
    crowd = [signal(100 + number, 100 + number, excerpt=f"expected {number}") for number in range(50)]
    (item,) = draft.ask([Group("f1", (*crowd, *SIGNALS))], language="en").body["items"]
    assert {ONE, TWO, THREE, FOUR} <= {each["id"] for each in item["signals"]}
    assert len({each["task"] for each in item["signals"]}) == draft.TASKS_SHOWN


@given(st.permutations(SIGNALS))
def test_the_order_in_which_signals_were_read_does_not_change_the_question(order):
    assert draft.ask([Group("f1", tuple(order))], language="en").key == draft.ask(GROUPS, language="en").key


texts = st.text(max_size=40) | st.sampled_from(
    ["Use `sort -n`.", "One. Two.", "x" * 301, "a\u202eb", "expected 7", "sort -n", "\x00"]
)
ids = st.sampled_from([ONE, TWO, THREE, FOUR]) | st.text(max_size=5)
lessons = st.lists(
    st.builds(
        draft.Proposed,
        item=st.sampled_from([1, 1, 1, 0, 2]) | st.integers(),
        symptom=texts,
        root_cause=texts,
        rule=texts,
        scope=texts,
        advice=st.sampled_from(["remedy", "answer", "warning"]),
        evidence=st.lists(ids, max_size=4),
        quotes=st.lists(st.builds(draft.Cited, signal=ids, text=texts), max_size=3),
        confidence=st.floats(),
    ),
    max_size=4,
)


@given(lessons)
def test_whatever_the_answer_every_lesson_is_a_sound_draft_or_refused(lessons):
    drafts, refused = draft.read(draft.Answer(lessons=lessons), GROUPS, dream_id=DREAM)
    assert len(drafts) + len(refused) == len(lessons)
    known = {each.id: each for each in SIGNALS}
    for made in drafts:
        cited = [known[each] for each in made.evidence]
        assert any(platform_written(each) for each in cited)
        assert made.quotes
        assert all(quote.text in known[quote.signal_id].excerpt for quote in made.quotes)
        assert one_sentence(made.rule)
        assert len(made.rule) <= 300
        assert scan(made.rule).verdict != "block"
        assert 0 <= made.confidence <= 1
