from __future__ import annotations

from uuid import UUID

import pytest

from yume.clients.model import Model
from yume.clients.rules import Rules
from yume.domain.gating import gate
from yume.domain.question import Question
from yume.domain.signals import Pointer, Signal, groups
from yume.domain.taxonomy import FailureClass, Taxonomy
from yume.errors import PermanentError
from yume.ids import DreamId, RunId, SignalId, TaxonomyId
from yume.prompts import classify, draft, merge

DREAM = DreamId(UUID(int=42))
CLASS = FailureClass(
    code="wrong_result",
    title="Wrong result",
    definition="",
    positive="",
    negative="",
    severity=2,
    decided_by=("model",),
    attributable=True,
    learnable=True,
)
TAXONOMY = Taxonomy(TaxonomyId(UUID(int=1)), "yume", 2, (CLASS,))


def signal(number, task, *, kind, source, excerpt, code=None):
    return Signal(
        SignalId(UUID(int=number)),
        RunId(UUID(int=task)),
        f"kamila-{task:04}",
        number,
        kind,
        source,
        Pointer("/x", 1, 1),
        excerpt,
        "f1",
        code,
    )


def evidence(code=None):
    rows = [
        (1, 1, "verifier", "verifier", "expected 7 before 23 in 'ranked.txt'"),
        (2, 2, "verifier", "verifier", "expected 9 before 101 in 'sorted.txt'"),
        (3, 1, "recovery", "agent_text", "sort -n figures.txt > ranked.txt"),
        (4, 2, "recovery", "agent_text", "sort -n scores.txt > sorted.txt"),
    ]
    return [
        signal(number, task, kind=kind, source=source, excerpt=excerpt, code=code)
        for number, task, kind, source, excerpt in rows
    ]


async def test_two_failed_tasks_become_one_lesson_that_the_gate_approves():
    model: Model = Rules()
    found = groups(evidence())
    answer = await model.answer(classify.ask(found, TAXONOMY, language="en"), classify.Answer)
    assert answer.calls == 1
    (finding,) = classify.read(answer.value, found, TAXONOMY, by=model.name)
    assert (finding.label.code, finding.label.by) == ("wrong_result", "rules")

    labelled = groups(evidence(finding.label.code))
    drafted = await model.answer(draft.ask(labelled, language="en"), draft.Answer)
    drafts, refused = draft.read(drafted.value, labelled, dream_id=DREAM)
    assert refused == []

    merged = await model.answer(merge.ask(drafts, [], language="en"), merge.Answer)
    (operation,), texts, refused = merge.read(merged.value, drafts, [], dream_id=DREAM)
    assert (operation.kind, texts, refused) == ("add", [], [])

    signals = {each.id: each for each in evidence()}
    decision = gate(operation, lesson=drafts[0], signals=signals, mode="auto", base=None)
    assert (decision.decision, decision.unmet) == ("approve", ())
    assert "`sort -n … > …`" in drafts[0].rule


async def test_the_same_question_gets_the_same_answer():
    question = draft.ask(groups(evidence("wrong_result")), language="en")
    assert await Rules().answer(question, draft.Answer) == await Rules().answer(question, draft.Answer)


async def test_a_question_that_the_rules_do_not_know_is_an_error_for_ever():
    with pytest.raises(PermanentError, match="draft-0: the rules do not know this question"):
        await Rules().answer(Question("draft", "draft-0", {}, ""), draft.Answer)


async def test_a_shape_that_does_not_fit_the_question_is_an_error_for_ever():
    question = draft.ask(groups(evidence("wrong_result")), language="en")
    with pytest.raises(PermanentError, match="Answer"):
        await Rules().answer(question, classify.Answer)
