from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.lessons import Draft, Lesson, Quote, one_sentence
from yume.errors import TransientError
from yume.ids import DreamId, LessonId, SignalId
from yume.prompts import merge

DREAM = DreamId(UUID(int=42))


def signals(*numbers):
    return tuple(SignalId(UUID(int=1000 + number)) for number in numbers)


def draft(number, *, evidence=(1, 2), trust="verifier", rule="Use `sort -n`.", confidence=0.8):
    cited = signals(*evidence)
    quotes = (Quote(cited[0], "q"),)
    ours = LessonId(UUID(int=number))
    return Draft(ours, "s", "c", rule, "k", "", cited, quotes, trust, confidence, ("f",), "remedy")


def lesson(number, *, origin="dream"):
    ours = LessonId(UUID(int=number))
    cited = signals(1, 2)
    trust = None if origin == "owner" else "verifier"
    return Lesson(ours, ours, 1, origin, "approved", "s", "c", "r", "k", "", cited, (), trust, ("f",), 0.8)


DRAFTS = [
    draft(1),
    draft(2, evidence=(3,), trust="agent_text", confidence=0.6),
    draft(3, rule="Use `tr -d`.", evidence=(1, 2, 3)),
]
LESSONS = [lesson(11), lesson(12, origin="owner")]


def op(kind, drafts=(), lessons=(), **more):
    return merge.Proposed(kind=kind, drafts=list(drafts), lessons=list(lessons), **more)


def read(*operations):
    return merge.read(merge.Answer(operations=list(operations)), DRAFTS, LESSONS, dream_id=DREAM)


def kinds(operations):
    return [(each.kind, each.lesson.int) for each in operations]


def test_operations_speak_of_the_lessons_that_the_numbers_stand_for():
    operations, texts, refused = read(op("duplicate", [1], [2]), op("add", [2]), op("supersede", [3], [1]))
    assert (texts, refused) == ([], [])
    assert kinds(operations) == [("duplicate", 12), ("add", 2), ("supersede", 3), ("keep", 12)]


def test_merged_drafts_become_one_new_text_on_all_their_evidence():
    operations, (text,), refused = read(op("merge", [2, 1]), op("add", [3]))
    assert refused == []
    assert operations[0].lesson == text.id
    assert text.id not in {each.id for each in DRAFTS}
    assert set(text.evidence) == set(signals(1, 2, 3))
    assert (text.rule, text.trust, text.confidence) == (DRAFTS[0].rule, "agent_text", 0.8)


def test_the_model_may_choose_whose_words_stay_or_find_new_ones_and_is_then_less_sure():
    _, (chosen,), _ = read(op("merge", [1, 3], text=3), op("add", [2]))
    assert chosen.rule == "Use `tr -d`."
    _, (worded,), _ = read(op("merge", [1, 2], rule="Use `sort -n` always."), op("add", [3]))
    assert (worded.rule, worded.confidence) == ("Use `sort -n` always.", 0.6)
    assert worded.id not in {chosen.id, *(each.id for each in DRAFTS)}


def test_the_same_merge_gives_the_same_id_and_another_dream_another():
    same = [read(op("merge", [1, 2]), op("add", [3]))[1][0].id for _ in range(2)]
    answer = merge.Answer(operations=[op("merge", [1, 2]), op("add", [3])])
    other = merge.read(answer, DRAFTS, LESSONS, dream_id=DreamId(UUID(int=43)))[1][0].id
    assert same[0] == same[1] != other


def test_a_draft_in_no_operation_is_asked_about_again():
    with pytest.raises(TransientError, match=r"3 drafts were asked about, \[2, 3\] are in no operation"):
        read(op("add", [1]))


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (op("add", [9]), "unknown_item"),
        (op("retire", [], [0]), "unknown_item"),
        (op("add", [1], [1]), "misshapen"),
        (op("add"), "misshapen"),
        (op("merge"), "misshapen"),
        (op("merge", [1]), "misshapen"),
        (op("duplicate", [1]), "misshapen"),
        (op("duplicate", [1], [1, 2]), "misshapen"),
        (op("supersede", [1, 2], [1]), "misshapen"),
        (op("retire", [1], [1]), "misshapen"),
        (op("retire", [], [2]), "owner"),
        (op("merge", [1], [2]), "owner"),
        (op("merge", [1, 2], text=3), "unknown_text"),
        (op("merge", [1, 2], rule="One. Two."), "not_one_sentence"),
        (op("merge", [1, 2], rule="Use\u202e this."), "blocked"),
    ],
)
def test_a_bad_operation_is_refused_alone_and_its_drafts_pass_to_the_gate(bad, code):
    rest = [op("add", [number]) for number in (1, 2, 3) if number not in bad.drafts]
    operations, texts, refused = read(bad, *rest)
    assert [(each.item, each.code) for each in refused] == [(1, code)]
    assert texts == []
    assert sorted(each.int for one in operations for each in one.inputs) == [1, 2, 3, 11, 12]
    assert not any(each.destructive for each in operations)


def test_the_question_holds_both_sides_and_says_what_is_the_owners():
    question = merge.ask(DRAFTS, LESSONS, language="en")
    assert [each["item"] for each in question.body["drafts"]] == [1, 2, 3]
    assert [each["owner"] for each in question.body["lessons"]] == [False, True]
    assert json.loads(json.dumps(question.body)) == question.body
    assert "Lesson 2 (written by the owner)" in question.text
    assert "Use `tr -d`." in question.text
    assert "(none)" in merge.ask(DRAFTS, [], language="en").text


numbers = st.lists(st.integers(-1, 4), max_size=3)
operations = st.lists(
    st.builds(
        merge.Proposed,
        kind=st.sampled_from(["add", "merge", "supersede", "retire", "keep", "duplicate", "conflict"]),
        drafts=numbers,
        lessons=numbers,
        text=st.integers(-1, 4),
        rule=st.text(max_size=20) | st.just("One. Two."),
        why=st.text(max_size=20),
    ),
    max_size=6,
)


@given(operations)
def test_whatever_the_answer_every_input_is_disposed_of_once_or_all_is_asked_again(operations):
    try:
        settled, texts, _ = read(*operations)
    except TransientError:
        return
    _hold(settled, texts)


@given(operations)
def test_the_same_holds_when_every_draft_is_named(operations):
    settled, texts, _ = read(*operations, *[op("add", [number]) for number in (1, 2, 3)])
    _hold(settled, texts)


def _hold(settled, texts):
    assert sorted(each.int for one in settled for each in one.inputs) == [1, 2, 3, 11, 12]
    assert all(each.int != 12 for one in settled for each in one.replaces)
    assert {each.lesson for each in settled if each.kind == "merge"} == {each.id for each in texts}
    assert all(one_sentence(each.rule) and len(each.rule) <= 300 for each in texts)


def test_a_merge_of_warnings_reworded_stays_a_warning():
    drafts = [replace(DRAFTS[0], advice="warning"), DRAFTS[1]]
    answer = merge.Answer(operations=[op("merge", [1, 2], text=2, rule="Use `sort -n` here.")])
    _, (text,), _ = merge.read(answer, drafts, [], dream_id=DREAM)
    assert text.advice == "warning"
