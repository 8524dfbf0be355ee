"""S4's question: what rule would have kept each failure from happening, and what shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from yume.domain.guard import scan
from yume.domain.lessons import (
    TEXT_LIMIT,
    Advice,
    Draft,
    Quote,
    Refusal,
    code_of,
    platform_written,
    wrong_with,
)
from yume.domain.question import Question
from yume.domain.signals import Group, Signal, least_trusted
from yume.domain.taxonomy import UNCLASSIFIED
from yume.domain.text import cap, clean
from yume.ids import DreamId, LessonId, SignalId, derived_id
from yume.prompts.wording import CHUNK, chunks, fence, language_name, wording

__all__ = ["CHUNK", "VERSION", "Answer", "Cited", "Proposed", "ask", "chunks", "read"]

TASKS_SHOWN: Final = 6
PLATFORM_SHOWN: Final = 2  # of a task
RECOVERIES_SHOWN: Final = 4
OTHERS_SHOWN: Final = 2

_WORDING: Final = wording("draft")
VERSION: Final = _WORDING.version
_TELLING: Final = ("verifier", "platform_reason", "exit_code")  # what says most about a failure comes first


class Cited(BaseModel):
    """Words that stand in a signal's excerpt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    signal: str
    text: str


class Proposed(BaseModel):
    """One lesson, as the model writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: int
    symptom: str
    root_cause: str
    rule: str
    scope: str
    advice: Advice
    evidence: list[str]
    quotes: list[Cited]
    confidence: float


class Answer(BaseModel):
    """Any number of lessons, none included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lessons: list[Proposed]


def ask(groups: Sequence[Group], *, language: str) -> Question:
    """Ask about groups from which a lesson may be learnt, numbered from 1 in their order."""
    items = [_item(number, group) for number, group in enumerate(groups, start=1)]
    text = _WORDING.template.substitute(
        language=language_name(language), items="\n\n".join(map(_item_text, items))
    )
    return Question("draft", VERSION, {"language": language, "items": items}, text)


def read(answer: Answer, groups: Sequence[Group], *, dream_id: DreamId) -> tuple[list[Draft], list[Refusal]]:
    """Return the lessons that stand, and for each other one why not: a bad lesson is refused alone."""
    drafts: dict[LessonId, Draft] = {}
    refused: list[Refusal] = []
    for proposed in answer.lessons:
        problem = next(_problems(proposed, groups), None)
        if problem is None:
            draft = _draft(proposed, groups[proposed.item - 1], dream_id)
            if draft.id not in drafts:
                drafts[draft.id] = draft
                continue
            problem = "repeated", "the same rule was drafted for the same failure before"
        refused.append(Refusal(proposed.item, *problem))
    return list(drafts.values()), refused


def _problems(proposed: Proposed, groups: Sequence[Group]) -> Iterator[tuple[str, str]]:
    """Name what is wrong with one lesson; with a wrong item or signal nothing else can be told."""
    if not 1 <= proposed.item <= len(groups):
        yield "unknown_item", f"item {proposed.item} is none of the {len(groups)} asked about"
        return
    known = {str(signal.id): signal for signal in groups[proposed.item - 1].signals}
    foreign = [each for each in proposed.evidence if each not in known]
    if foreign:
        yield "unknown_signal", f"{len(foreign)} of {len(proposed.evidence)} signals are not of this item"
        return
    if not any(platform_written(known[each]) for each in proposed.evidence):
        yield "no_platform_signal", f"none of {len(proposed.evidence)} signals was written by the platform"
    yield from _misquoted(proposed, known)
    if problem := wrong_with(_line(proposed.rule)):
        yield problem
    yield from _unfit_texts(proposed)
    if not 0 <= proposed.confidence <= 1:
        yield "confidence", f"a confidence of {proposed.confidence} is not between 0 and 1"


def _misquoted(proposed: Proposed, known: Mapping[str, Signal]) -> Iterator[tuple[str, str]]:
    if not proposed.quotes:
        yield "no_quote", f"it cites {len(proposed.evidence)} signals and quotes none"
    for quote in proposed.quotes:
        if quote.signal not in proposed.evidence:
            yield "quote_not_cited", "a quote is from a signal that is not among its evidence"
        elif not quote.text.strip() or quote.text not in known[quote.signal].excerpt:
            yield (
                "quote_not_found",
                f"{len(quote.text)} characters quoted from {quote.signal} do not stand there",
            )


def _unfit_texts(proposed: Proposed) -> Iterator[tuple[str, str]]:
    for name in ("symptom", "root_cause", "scope"):
        text = clean(getattr(proposed, name)).strip()
        if not text and name != "scope":
            yield "incomplete", f"it has no {name}"
        if (scanned := scan(text)).verdict == "block":
            yield "blocked", f"its {name} holds {', '.join(scanned.reasons)}"


def _draft(proposed: Proposed, group: Group, dream_id: DreamId) -> Draft:
    cited = [each for each in group.signals if str(each.id) in proposed.evidence]
    rule = _line(proposed.rule)
    return Draft(
        id=LessonId(derived_id(dream_id, group.fingerprint, rule)),
        symptom=cap(clean(proposed.symptom).strip(), TEXT_LIMIT),
        root_cause=cap(clean(proposed.root_cause).strip(), TEXT_LIMIT),
        rule=rule,
        category=code_of(group) or UNCLASSIFIED,
        scope=cap(clean(proposed.scope).strip(), TEXT_LIMIT),
        evidence=tuple(each.id for each in cited),
        quotes=tuple(
            dict.fromkeys(Quote(SignalId(UUID(each.signal)), each.text) for each in proposed.quotes)
        ),
        trust=least_trusted(each.source_class for each in cited),
        confidence=proposed.confidence,
        fingerprints=(group.fingerprint,),
        advice=_advice(proposed.advice, cited),
    )


def _advice(claimed: Advice, cited: Sequence[Signal]) -> Advice:
    """Believe a remedy only where a passing attempt is cited, an answer only where a person's is."""
    shown = {
        "remedy": any(each.kind == "recovery" for each in cited),
        "answer": any(each.source_class == "human_answer" for each in cited),
    }
    return claimed if shown.get(claimed) else "warning"


def _line(text: str) -> str:
    return clean(text).strip()


def _item(number: int, group: Group) -> dict[str, Any]:
    shown = _shown(group)
    tasks = {task: place for place, task in enumerate(dict.fromkeys(each.task_id for each in shown), start=1)}
    return {
        "item": number,
        "fingerprint": group.fingerprint,
        "code": code_of(group) or UNCLASSIFIED,
        "runs": len(group.runs),
        "tasks": len(group.tasks),
        "signals": [
            {
                "id": str(each.id),
                "kind": each.kind,
                "source": each.source_class,
                "task": tasks[each.task_id],
                "text": each.excerpt,
            }
            for each in shown
        ],
    }


def _shown(group: Group) -> list[Signal]:
    """Choose the tasks that tell most about a way out, and from each a few signals of every sort."""
    by_task: dict[str, list[Signal]] = {}
    for signal in sorted(group.signals, key=lambda each: (each.task_id, str(each.run_id), each.ordinal)):
        by_task.setdefault(signal.task_id, []).append(signal)
    tasks = sorted(by_task.values(), key=_tells_a_way_out)[:TASKS_SHOWN]
    return [signal for task in tasks for signal in _shown_of(task)]


def _tells_a_way_out(task: Sequence[Signal]) -> tuple[bool, bool, int]:
    """Order: a person's answer that led on, then any recovery, the one with the fewest new commands first."""
    recoveries = sum(each.kind == "recovery" for each in task)
    answered = any(each.source_class == "human_answer" for each in task)
    return not (answered and recoveries), not (answered or recoveries), recoveries


def _shown_of(task: Sequence[Signal]) -> list[Signal]:
    platform = sorted(filter(platform_written, task), key=lambda each: _TELLING.index(each.source_class))
    recoveries = [each for each in task if each.kind == "recovery"]
    answers = [each for each in task if each.source_class == "human_answer"]
    others = [each for each in task if each not in (*platform, *recoveries, *answers)]
    return [
        *_different(platform, PLATFORM_SHOWN),
        *_different(answers, OTHERS_SHOWN),
        *_different(recoveries, RECOVERIES_SHOWN),
        *_different(others, OTHERS_SHOWN),
    ]


def _different(signals: Sequence[Signal], limit: int) -> list[Signal]:
    first: dict[str, Signal] = {}
    for signal in signals:
        first.setdefault(signal.excerpt, signal)
    return list(first.values())[:limit]


def _item_text(item: Mapping[str, Any]) -> str:
    head = f"## Item {item['item']}: class `{item['code']}`, {item['runs']} runs of {item['tasks']} tasks"
    return "\n".join([head, *map(_signal_text, item["signals"])])


def _signal_text(signal: Mapping[str, Any]) -> str:
    head = f"Signal {signal['id']} (task {signal['task']}, {signal['kind']}, from {signal['source']}):"
    return f"{head}\n{fence(signal['text'])}"
