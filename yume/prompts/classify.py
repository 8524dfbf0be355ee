"""S3's question: which class of the taxonomy each failure shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from yume.domain.question import Question
from yume.domain.signals import TRUST, Group, Signal
from yume.domain.taxonomy import CONFIDENCE_FLOOR, UNCLASSIFIED, FailureClass, Label, Taxonomy
from yume.errors import TransientError
from yume.prompts.wording import CHUNK, chunks, fence, language_name, wording

__all__ = ["CHUNK", "VERSION", "Answer", "Finding", "Labelled", "ask", "chunks", "read"]

EXCERPTS_OF_A_SOURCE: Final = 2
EXCERPT_LIMIT: Final = 600

_WORDING: Final = wording("classify")
VERSION: Final = _WORDING.version


class Labelled(BaseModel):
    """One failure's class, as the model sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: int
    code: str
    confidence: float


class Answer(BaseModel):
    """One label for each item of the question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    labels: list[Labelled]


@dataclass(frozen=True, slots=True)
class Finding:
    """The label of one failure, for all of its signals."""

    fingerprint: str
    label: Label


def ask(groups: Sequence[Group], taxonomy: Taxonomy, *, language: str) -> Question:
    """Ask about one chunk of groups, numbered from 1 in their order."""
    classes = [_class(each) for each in _for_models(taxonomy)]
    items = [_item(number, group) for number, group in enumerate(groups, start=1)]
    text = _WORDING.template.substitute(
        language=language_name(language),
        classes="\n".join(map(_class_text, classes)),
        items="\n\n".join(map(_item_text, items)),
    )
    return Question("classify", VERSION, {"language": language, "classes": classes, "items": items}, text)


def read(answer: Answer, groups: Sequence[Group], taxonomy: Taxonomy, *, by: str) -> list[Finding]:
    """Return one finding a group, in their order; `by` names who answered, with the version of the question.

    A label below the confidence floor becomes `unclassified`. Raises TransientError if the answer does not
    label every item exactly once with a class that was offered.
    """
    offered = {each.code for each in _for_models(taxonomy)} | {UNCLASSIFIED}
    labels = {label.item: label for label in answer.labels}
    _check(answer, len(groups), offered)
    return [
        Finding(group.fingerprint, _label(labels[number], by)) for number, group in enumerate(groups, start=1)
    ]


def _check(answer: Answer, asked: int, offered: set[str]) -> None:
    counts = Counter(label.item for label in answer.labels)
    missing = [number for number in range(1, asked + 1) if number not in counts]
    foreign = [number for number in counts if not 1 <= number <= asked]
    twice = [number for number, count in counts.items() if count > 1]
    if missing or foreign or twice:
        raise TransientError(
            f"{asked} failures were asked about, {len(answer.labels)} labels came back: "
            f"missing {missing}, unknown {foreign}, more than once {twice}"
        )
    unknown = sorted({label.code for label in answer.labels} - offered)
    if unknown:
        raise TransientError(f"{len(unknown)} codes are not among the {len(offered)} offered: {unknown}")
    odd = [label.item for label in answer.labels if not 0 <= label.confidence <= 1]
    if odd:
        raise TransientError(f"the confidence of items {odd} is not between 0 and 1")


def _label(labelled: Labelled, by: str) -> Label:
    sure = labelled.confidence >= CONFIDENCE_FLOOR
    return Label(labelled.code if sure else UNCLASSIFIED, labelled.confidence, by)


def _for_models(taxonomy: Taxonomy) -> list[FailureClass]:
    return [each for each in taxonomy.classes if "model" in each.decided_by]


def _class(each: FailureClass) -> dict[str, str]:
    return {
        "code": each.code,
        "title": each.title,
        "definition": each.definition,
        "positive": each.positive,
        "negative": each.negative,
    }


def _item(number: int, group: Group) -> dict[str, Any]:
    return {
        "item": number,
        "fingerprint": group.fingerprint,
        "runs": len(group.runs),
        "tasks": len(group.tasks),
        "excerpts": [
            {"kind": each.kind, "source": each.source_class, "text": each.excerpt[:EXCERPT_LIMIT]}
            for each in _diverse(group)
        ],
    }


def _diverse(group: Group) -> list[Signal]:
    """Choose a few different excerpts from every source, the most trusted source first."""
    chosen: list[Signal] = []
    for source in TRUST:
        members = [each for each in group.signals if each.source_class == source]
        different = {each.excerpt: each for each in sorted(members, key=_place, reverse=True)}
        chosen += sorted(different.values(), key=_place)[:EXCERPTS_OF_A_SOURCE]
    return chosen


def _place(signal: Signal) -> tuple[str, str, int]:
    return signal.task_id, str(signal.run_id), signal.ordinal


def _class_text(each: Mapping[str, str]) -> str:
    return (
        f"- `{each['code']}` ({each['title']}): {each['definition']} "
        f"For example: {each['positive']} But not: {each['negative']}"
    )


def _item_text(item: Mapping[str, Any]) -> str:
    head = f"## Item {item['item']}: seen in {item['runs']} runs of {item['tasks']} tasks"
    excerpts = [f"{each['kind']}, from {each['source']}:\n{fence(each['text'])}" for each in item["excerpts"]]
    return "\n".join([head, *excerpts])
