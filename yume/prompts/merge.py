"""S5's question: which drafts are new, which say the same, and which lessons no longer hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from yume.domain.lessons import Draft, Lesson, Refusal, wrong_with
from yume.domain.merging import Operation, OperationKind, combined, inputs_of, settle, strength
from yume.domain.question import Question
from yume.domain.text import cap, clean
from yume.errors import TransientError
from yume.ids import DreamId, LessonId, derived_id
from yume.prompts.wording import fence, language_name, wording

WHY_LIMIT: Final = 300

_WORDING: Final = wording("merge")
VERSION: Final = _WORDING.version
_TAKES_LESSONS: Final = ("merge", "supersede", "retire")
_NAMES: Final[Mapping[OperationKind, tuple[int, bool]]] = {  # how many drafts at least, and whether a lesson
    "add": (1, False),
    "merge": (1, False),
    "supersede": (1, True),
    "retire": (0, True),
    "keep": (0, True),
    "duplicate": (1, True),
    "conflict": (1, True),
}


class Proposed(BaseModel):
    """One operation on drafts and lessons, by their numbers.

    For `merge`, `text` is the draft whose words stay; `rule` may put the rule into new words, or be empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: OperationKind
    drafts: list[int]
    lessons: list[int]
    text: int = 0
    rule: str = ""
    why: str = ""


class Answer(BaseModel):
    """Operations that name every draft once; lessons not named are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operations: list[Proposed]


def ask(drafts: Sequence[Draft], lessons: Sequence[Lesson], *, language: str) -> Question:
    """Ask what becomes of the drafts beside the approved lessons, each numbered from 1 in its order."""
    ours = [_draft_item(number, each) for number, each in enumerate(drafts, start=1)]
    theirs = [_lesson_item(number, each) for number, each in enumerate(lessons, start=1)]
    text = _WORDING.template.substitute(
        language=language_name(language),
        drafts="\n\n".join(_text("Draft", each) for each in ours) or "(none)",
        lessons="\n\n".join(_text("Lesson", each) for each in theirs) or "(none)",
    )
    return Question("merge", VERSION, {"language": language, "drafts": ours, "lessons": theirs}, text)


def read(
    answer: Answer, drafts: Sequence[Draft], lessons: Sequence[Lesson], *, dream_id: DreamId
) -> tuple[list[Operation], list[Draft], list[Refusal]]:
    """Return operations that give every input one disposition, the merged texts, and what was refused.

    A refusal's item is the operation's number in the answer. Raises TransientError if a draft is in no
    operation.
    """
    _check_every_draft_is_named(answer, len(drafts))
    staged: list[_Staged] = []
    refused: list[Refusal] = []
    for number, proposed in enumerate(answer.operations, start=1):
        if problem := next(_problems(proposed, len(drafts), len(lessons)), None):
            refused.append(Refusal(number, *problem))
        else:
            staged.append(_stage(number, proposed, drafts, lessons, dream_id))
    inputs = inputs_of(drafts, lessons, [each.text for each in staged if each.text])
    settled, rejected = settle([each.operation for each in staged], inputs)
    refused += [Refusal(staged[each.place].number, each.code, each.why) for each in rejected]
    texts = [inputs.texts[each.lesson] for each in settled if each.kind == "merge"]
    return settled, texts, sorted(refused, key=lambda each: each.item)


@dataclass(frozen=True, slots=True)
class _Staged:
    """An operation with its number in the answer, and the text that it makes."""

    number: int
    operation: Operation
    text: Draft | None


def _check_every_draft_is_named(answer: Answer, asked: int) -> None:
    named = {number for each in answer.operations for number in each.drafts}
    missing = [number for number in range(1, asked + 1) if number not in named]
    if missing:
        raise TransientError(f"{asked} drafts were asked about, {missing} are in no operation")


def _problems(proposed: Proposed, drafts: int, lessons: int) -> Iterator[tuple[str, str]]:
    foreign = [each for each in proposed.drafts if not 1 <= each <= drafts]
    foreign += [each for each in proposed.lessons if not 1 <= each <= lessons]
    if foreign:
        yield "unknown_item", f"{foreign} are none of the {drafts} drafts and {lessons} lessons asked about"
    fewest, takes_lesson = _NAMES[proposed.kind]
    if len(proposed.drafts) < fewest or (takes_lesson and not proposed.lessons):
        yield "misshapen", f"{proposed.kind} needs {fewest} drafts{' and a lesson' if takes_lesson else ''}"
    exact = proposed.kind != "merge"
    if exact and (len(proposed.drafts) > fewest or (not takes_lesson and proposed.lessons)):
        yield "misshapen", f"{proposed.kind} names more drafts or lessons than it can be about"
    if proposed.kind in ("keep", "retire", "duplicate", "conflict") and len(proposed.lessons) > 1:
        yield "misshapen", f"{proposed.kind} is about one lesson, not {len(proposed.lessons)}"
    if proposed.kind == "merge" and proposed.text and proposed.text not in proposed.drafts:
        yield "unknown_text", f"draft {proposed.text}, whose words should stay, is not among those merged"
    if (rule := _line(proposed.rule)) and (problem := wrong_with(rule)):
        yield problem


def _stage(
    number: int,
    proposed: Proposed,
    drafts: Sequence[Draft],
    lessons: Sequence[Lesson],
    dream_id: DreamId,
) -> _Staged:
    ours = [drafts[each - 1] for each in proposed.drafts]
    theirs = [lessons[each - 1] for each in proposed.lessons]
    text = None
    if proposed.kind == "merge":
        kept = drafts[proposed.text - 1] if proposed.text else min(ours, key=strength)
        text = _merged(kept, [*ours, *theirs], _line(proposed.rule), dream_id)
    return _Staged(number, _operation(proposed, ours, theirs, text), text)


def _merged(kept: Draft, everyone: Sequence[Draft | Lesson], rule: str, dream_id: DreamId) -> Draft:
    """Return the text that stays; new words for its rule are only as sure as the least sure source."""
    inputs = sorted(str(each.id) for each in everyone)
    new_id = LessonId(derived_id(dream_id, "merge", str(kept.id), rule, *inputs))
    text = combined(kept, [each for each in everyone if each is not kept], new_id=new_id)
    if not rule or rule == kept.rule:
        return text
    warns = any(isinstance(each, Draft) and each.advice == "warning" for each in everyone)
    confidence = min(each.confidence for each in everyone)
    return replace(text, rule=rule, confidence=confidence, advice="warning" if warns else kept.advice)


def _operation(
    proposed: Proposed, ours: Sequence[Draft], theirs: Sequence[Lesson], text: Draft | None
) -> Operation:
    lesson: Draft | Lesson = text or (ours[0] if proposed.kind in ("add", "supersede") else theirs[0])
    named = tuple(each.id for each in theirs)
    sources = named if proposed.kind == "keep" else tuple(each.id for each in ours)
    replaces = named if proposed.kind in _TAKES_LESSONS else ()
    why = cap(clean(proposed.why).strip(), WHY_LIMIT) or proposed.kind
    return Operation(proposed.kind, lesson.id, sources, replaces, why)


def _line(text: str) -> str:
    return clean(text).strip()


def _draft_item(number: int, draft: Draft) -> dict[str, Any]:
    return _item(number, draft) | {"advice": draft.advice}


def _lesson_item(number: int, lesson: Lesson) -> dict[str, Any]:
    return _item(number, lesson) | {"owner": lesson.origin == "owner"}


def _item(number: int, lesson: Draft | Lesson) -> dict[str, Any]:
    return {
        "item": number,
        "symptom": lesson.symptom,
        "rule": lesson.rule,
        "category": lesson.category,
        "fingerprints": list(lesson.fingerprints),
        "trust": lesson.trust,
        "signals": len(lesson.evidence),
        "confidence": lesson.confidence,
    }


def _text(name: str, item: Mapping[str, Any]) -> str:
    written_by = " (written by the owner)" if item.get("owner") else ""
    head = f"{name} {item['item']}{written_by}: class `{item['category']}`, {item['signals']} signals"
    return f"{head}, trust {item['trust']}\n{fence(item['symptom'])}\n{fence(item['rule'])}"
