"""What the three model steps ask, and what they make of the answers: no database, no slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from yume.clients.model import Answered, Model
from yume.domain.dreams import Language
from yume.domain.lessons import Draft, Lesson, code_of
from yume.domain.merging import Operation
from yume.domain.signals import Group
from yume.domain.taxonomy import Label, Taxonomy, decide
from yume.ids import DreamId
from yume.prompts import classify, draft, merge

QUESTIONS: Final = 10  # of one step in one dream; the largest groups come first
ITEMS: Final = 20  # drafts that one merge is asked about

Answers = Sequence[Answered[Any]]


@dataclass(frozen=True, slots=True)
class Labelled:
    """Labels by fingerprint, code's before the model's; `not_asked` groups were beyond the last question."""

    labels: Mapping[str, Label]
    answers: Answers
    not_asked: int


@dataclass(frozen=True, slots=True)
class Drafted:
    """The drafts that stand, and the codes of those that were refused."""

    drafts: Sequence[Draft]
    refused: Sequence[str]
    answers: Answers


@dataclass(frozen=True, slots=True)
class Merged:
    """Operations that dispose of every draft, the texts that they make, and the codes of what was refused."""

    operations: Sequence[Operation]
    texts: Sequence[Draft]
    refused: Sequence[str]
    answers: Answers


async def label(found: Sequence[Group], taxonomy: Taxonomy, model: Model, *, language: Language) -> Labelled:
    """Say which class each group shows; the model is asked where code cannot tell and nothing was said."""
    labels = {group.fingerprint: given for group in found if (given := decide(group, taxonomy)) is not None}
    undecided = [group for group in found if group.fingerprint not in labels and code_of(group) is None]
    questions = classify.chunks(undecided)[:QUESTIONS]
    answers: list[Answered[classify.Answer]] = []
    for chunk in questions:
        question = classify.ask(chunk, taxonomy, language=language)
        answers.append(answered := await model.answer(question, classify.Answer))
        by = f"{model.name}:{question.version}"
        findings = classify.read(answered.value, chunk, taxonomy, by=by)
        labels |= {each.fingerprint: each.label for each in findings}
    return Labelled(labels, answers, len(undecided) - sum(map(len, questions)))


async def draft_lessons(
    teachable: Sequence[Group], model: Model, *, language: Language, dream: DreamId
) -> Drafted:
    """Draft from groups that a lesson may be learnt from; `dream` is what the drafts' ids derive from."""
    drafts: list[Draft] = []
    codes: list[str] = []
    answers: list[Answered[draft.Answer]] = []
    for chunk in draft.chunks(teachable)[:QUESTIONS]:
        question = draft.ask(chunk, language=language)
        answers.append(answered := await model.answer(question, draft.Answer))
        stand, refused = draft.read(answered.value, chunk, dream_id=dream)
        drafts += stand
        codes += [each.code for each in refused]
    return Drafted(drafts, codes, answers)


async def merge_drafts(
    drafts: Sequence[Draft], standing: Sequence[Lesson], model: Model, *, language: Language, dream: DreamId
) -> Merged:
    """Say what becomes of the drafts, best founded first, beside what stands; no drafts, no question."""
    if not drafts:
        return Merged((), (), (), ())
    asked = drafts[:ITEMS]
    question = merge.ask(asked, standing, language=language)
    answered = await model.answer(question, merge.Answer)
    operations, texts, refused = merge.read(answered.value, asked, standing, dream_id=dream)
    beyond = [Operation("add", each.id, (each.id,), (), "not asked about") for each in drafts[ITEMS:]]
    return Merged([*operations, *beyond], texts, [each.code for each in refused], [answered])
