from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from yume.domain.gating import gate
from yume.domain.lessons import Draft, Lesson, Quote, content_hash
from yume.domain.merging import Operation
from yume.domain.signals import Pointer, Signal
from yume.ids import LessonId, RunId, SignalId

ONE, TWO, THREE, FOUR = (SignalId(UUID(int=number)) for number in range(1, 5))
OLD = LessonId(UUID(int=77))


def signal(signal_id, run, task, *, kind, source, excerpt):
    return Signal(
        signal_id, RunId(UUID(int=run)), task, 0, kind, source, Pointer("/x", 1, 1), excerpt, "f", "k"
    )


SIGNALS = {
    ONE: signal(ONE, 1, "kamila-0001", kind="verifier", source="verifier", excerpt="expected 7 before 23"),
    TWO: signal(TWO, 2, "kamila-0002", kind="verifier", source="verifier", excerpt="expected 9 before 101"),
    THREE: signal(THREE, 1, "kamila-0001", kind="recovery", source="agent_text", excerpt="sort -n a.txt"),
    FOUR: signal(FOUR, 1, "kamila-0001", kind="inquiry", source="human_answer", excerpt="sort -n does that"),
}
DRAFT = Draft(
    LessonId(UUID(int=5)),
    "out of order",
    "sorted as text",
    "When figures are out of order, use `sort -n`.",
    "wrong_result",
    "",
    (ONE, TWO, THREE),
    (Quote(ONE, "expected 7"), Quote(THREE, "sort -n")),
    "agent_text",
    0.8,
    ("f",),
    "remedy",
)
ADD = Operation("add", DRAFT.id, (DRAFT.id,), (), "new")


def decide(lesson=DRAFT, operation=ADD, mode="auto", base="base-7"):
    return gate(operation, lesson=lesson, signals=SIGNALS, mode=mode, base=base)


def codes(decision):
    return [each.partition(":")[0] for each in decision.unmet]


@pytest.mark.parametrize("mode", ["auto", "report_only"])
def test_a_founded_addition_is_approved(mode):
    decision = decide(mode=mode)
    assert (decision.decision, decision.unmet, decision.base) == ("approve", (), None)
    assert decision.content_hash == content_hash(DRAFT.rule, DRAFT.evidence)


def test_in_gated_mode_it_waits_for_the_release_and_for_nothing_else():
    assert decide(mode="gated").decision == "hold"
    assert codes(decide(mode="gated")) == ["release"]
    unsure = replace(DRAFT, confidence=0.2)
    assert codes(decide(unsure, mode="gated")) == ["confidence"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"evidence": (ONE, THREE)}, "tasks"),
        ({"rule": "Use `sort -n` " + "now " * 75}, "length"),
        ({"rule": "Use `sort -n`. Then stop."}, "sentence"),
        ({"rule": "Use `curl x | sh`."}, "scan"),
        ({"advice": "warning"}, "warning"),
        ({"evidence": (ONE, TWO), "quotes": (Quote(ONE, "expected 7"),)}, "warning"),
        ({"rule": "For kamila-0002, use `sort -n`."}, "task_id"),
        ({"confidence": 0.5}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "gated", "report_only"])
def test_what_a_person_may_judge_otherwise_is_held_for_that_reason_alone(change, code, mode):
    decision = decide(replace(DRAFT, **change), mode=mode)
    assert (decision.decision, codes(decision)) == ("hold", [code])


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"evidence": (ONE, TWO, THREE, SignalId(UUID(int=99)))}, "evidence"),
        ({"quotes": (Quote(ONE, "expected 8"),)}, "quote"),
        ({"quotes": (Quote(FOUR, "sort -n"),)}, "quote"),
        ({"quotes": (Quote(ONE, ""),)}, "quote"),
        ({"quotes": ()}, "quote"),
        ({"rule": "Use\u202e `sort -n`."}, "blocked"),
        ({"root_cause": "sorted\u200b as text"}, "blocked"),
    ],
)
def test_what_can_never_stand_is_refused_for_that_reason_alone(change, code):
    decision = decide(replace(DRAFT, **change))
    assert (decision.decision, codes(decision)) == ("refuse", [code])


def test_hearsay_is_refused():
    hearsay = replace(DRAFT, evidence=(THREE, FOUR), quotes=(Quote(THREE, "sort -n"),))
    assert codes(decide(hearsay)) == ["platform"]
    assert decide(hearsay).decision == "refuse"


def test_a_persons_answer_stands_for_the_second_task():
    answered = replace(DRAFT, evidence=(ONE, FOUR), quotes=(Quote(FOUR, "sort -n"),), advice="answer")
    assert decide(answered).decision == "approve"


def test_all_unmet_reasons_are_listed():
    bad = replace(DRAFT, evidence=(ONE,), quotes=(), confidence=0.1, advice="warning", rule="One. Two.")
    decision = decide(bad)
    assert decision.decision == "refuse"
    assert codes(decision) == ["quote", "tasks", "sentence", "warning", "confidence"]


@pytest.mark.parametrize("mode", ["auto", "gated", "report_only"])
@pytest.mark.parametrize(
    "operation",
    [
        Operation("supersede", DRAFT.id, (DRAFT.id,), (OLD,), ""),
        Operation("merge", DRAFT.id, (DRAFT.id,), (OLD,), ""),
        Operation("retire", OLD, (), (OLD,), ""),
    ],
)
def test_nothing_that_takes_an_approved_text_away_is_approved_here(operation, mode):
    decision = decide(operation=operation, mode=mode)
    assert (decision.decision, codes(decision), decision.base) == ("hold", ["destructive"], "base-7")


def test_a_merge_of_drafts_alone_is_an_addition():
    merge = Operation("merge", DRAFT.id, (LessonId(UUID(int=8)), LessonId(UUID(int=9))), (), "")
    assert decide(operation=merge).decision == "approve"
    assert codes(decide(operation=merge, mode="gated")) == ["release"]


def approved(origin):
    return Lesson(
        OLD, OLD, 1, origin, "approved", "s", "c", "Use `sort`.", "k", "", (ONE,), (), "verifier", (), 0.9
    )


def test_an_owners_rule_is_never_retired():
    retire = Operation("retire", OLD, (), (OLD,), "")
    assert decide(approved("owner"), retire).decision == "refuse"
    assert decide(approved("dream"), retire).decision == "hold"


def test_what_stays_as_it_is_needs_no_approval_and_a_conflict_always_does():
    keep = Operation("keep", OLD, (OLD,), (), "")
    duplicate = Operation("duplicate", OLD, (DRAFT.id,), (), "")
    conflict = Operation("conflict", OLD, (DRAFT.id,), (), "")
    assert decide(approved("dream"), keep, mode="gated").decision == "approve"
    assert decide(approved("dream"), duplicate, mode="gated").decision == "approve"
    assert decide(operation=conflict).decision == "hold"


def test_a_task_id_is_found_as_a_word_and_not_inside_one():
    inside = replace(DRAFT, rule="For xkamila-00021, use `sort -n`.")
    assert decide(inside).decision == "approve"


def test_a_decision_is_kept_with_its_hash_and_every_unmet_reason():
    decision = decide(replace(DRAFT, confidence=0.2, advice="warning"))
    kept = json.loads(json.dumps(decision.to_json()))
    assert kept["decision"] == "hold"
    assert kept["lesson"] == str(DRAFT.id)
    assert kept["content_hash"] == content_hash(DRAFT.rule, DRAFT.evidence)
    assert kept["unmet"] == list(decision.unmet)
