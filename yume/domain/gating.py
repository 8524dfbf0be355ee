"""Whether an operation may be approved without a person: every unmet reason, never only the first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, assert_never

from yume.domain.guard import scan
from yume.domain.lessons import (
    RULE_LIMIT,
    Draft,
    Lesson,
    content_hash,
    one_sentence,
    platform_written,
    shows_a_way_out,
)
from yume.domain.merging import Operation
from yume.domain.signals import Signal
from yume.domain.taxonomy import CONFIDENCE_FLOOR
from yume.ids import SignalId

Mode = Literal["report_only", "gated", "auto"]
Verdict = Literal["approve", "hold", "refuse"]

POLICY_VERSION: Final = "1"
TASKS_NEEDED: Final = 2
SHORTEST_TASK_ID: Final = 3  # a shorter one cannot be told from a number or a word of the rule

_WAITS: Final = "release: waits for the approval of the release"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate says; `base` binds a destructive operation to the set of lessons it was decided on."""

    operation: Operation
    content_hash: str
    decision: Verdict
    unmet: tuple[str, ...]
    base: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what `dream_runs.gate` keeps of one operation."""
        return {
            "kind": self.operation.kind,
            "lesson": str(self.operation.lesson),
            "sources": [str(each) for each in self.operation.sources],
            "replaces": [str(each) for each in self.operation.replaces],
            "content_hash": self.content_hash,
            "decision": self.decision,
            "unmet": list(self.unmet),
            "base": self.base,
        }


def gate(
    operation: Operation,
    *,
    lesson: Draft | Lesson,
    signals: Mapping[SignalId, Signal],
    mode: Mode,
    base: str | None,
    task_ids: Collection[str] = (),
) -> Decision:
    """Decide on one operation by itself.

    `lesson` is the text that it brings, or the approved one that it concerns; `signals` are those of the
    series that are cited; `base` names the set of lessons that was merged into. What can never stand is
    refused, what a person may still approve is held. Nothing that takes away or changes an approved text is
    approved here.
    """
    fatal, unmet = _reasons(operation, lesson, signals, task_ids)
    if not fatal and not unmet and mode == "gated" and operation.kind in ("add", "merge"):
        unmet = (_WAITS,)
    return Decision(
        operation,
        content_hash(lesson.rule, lesson.evidence),
        "refuse" if fatal else "hold" if unmet else "approve",
        fatal + unmet,
        base if operation.destructive else None,
    )


def _reasons(
    operation: Operation,
    lesson: Draft | Lesson,
    signals: Mapping[SignalId, Signal],
    task_ids: Collection[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    match operation.kind:
        case "keep" | "duplicate":
            return (), ()
        case "conflict":
            return (), (f"conflict: it contradicts {operation.lesson}; a person decides which one stands",)
        case "retire":
            owned = isinstance(lesson, Lesson) and lesson.origin == "owner"
            fatal = ("owner: Yume never retires an owner's rule",) if owned else ()
            return fatal, (_destructive(operation),)
        case "add" | "merge" | "supersede":
            loss = (_destructive(operation),) if operation.destructive else ()
            return tuple(_fatal(lesson, signals)), loss + tuple(_unmet(lesson, signals, task_ids))
        case _:
            assert_never(operation.kind)


def _destructive(operation: Operation) -> str:
    return f"destructive: {len(operation.replaces)} approved lessons would go or change; a person decides"


def _fatal(lesson: Draft | Lesson, signals: Mapping[SignalId, Signal]) -> Iterator[str]:
    """Name what no approval can mend: the text would have to change first."""
    lost = [each for each in lesson.evidence if each not in signals]
    if lost:
        yield f"evidence: {len(lost)} of {len(lesson.evidence)} signals are unknown here, such as {lost[0]}"
    if not any(platform_written(signals[each]) for each in lesson.evidence if each in signals):
        yield f"platform: none of its {len(lesson.evidence)} signals was written by the platform itself"
    invented = [quote for quote in lesson.quotes if not _stands(quote.signal_id, quote.text, lesson, signals)]
    if invented or not lesson.quotes:
        yield f"quote: {len(invented)} of {len(lesson.quotes)} quotes do not stand in the signals cited"
    if not lesson.rule.strip():
        yield "empty: it has no rule"
    blocking = {
        reason
        for text in (lesson.symptom, lesson.root_cause, lesson.rule, lesson.scope)
        if (scanned := scan(text)).verdict == "block"
        for reason in scanned.reasons
    }
    if blocking:
        yield f"blocked: {', '.join(sorted(blocking))}"


def _unmet(
    lesson: Draft | Lesson, signals: Mapping[SignalId, Signal], task_ids: Collection[str]
) -> Iterator[str]:
    """Name what an automatic approval needs and a person may judge otherwise."""
    cited = [signals[each] for each in lesson.evidence if each in signals]
    runs, tasks = len({each.run_id for each in cited}), len({each.task_id for each in cited})
    answered = any(each.source_class == "human_answer" for each in cited)
    if min(runs, tasks) < TASKS_NEEDED and not answered:
        yield f"tasks: {runs} run(s) of {tasks} task(s), {TASKS_NEEDED} or a person's answer are needed"
    if len(lesson.rule) > RULE_LIMIT:
        yield f"length: {len(lesson.rule)} characters, {RULE_LIMIT} are allowed"
    if not one_sentence(lesson.rule):
        yield "sentence: the rule is more than one sentence"
    if (scanned := scan(lesson.rule)).verdict == "hold":
        yield f"scan: {', '.join(scanned.reasons)}"
    if (isinstance(lesson, Draft) and lesson.advice == "warning") or not any(map(shows_a_way_out, cited)):
        yield "warning: no run that it cites shows a way out of the failure"
    named = sorted(
        each for each in {one.task_id for one in signals.values()} | {*task_ids} if _names(lesson.rule, each)
    )
    if named:
        yield f"task_id: the rule names the task {named[0]!r}"
    if not lesson.confidence >= CONFIDENCE_FLOOR:
        yield f"confidence: {lesson.confidence:.2f}, {CONFIDENCE_FLOOR} is needed"


def _stands(
    signal_id: SignalId, text: str, lesson: Draft | Lesson, signals: Mapping[SignalId, Signal]
) -> bool:
    known = signal_id in lesson.evidence and signal_id in signals
    return known and bool(text) and text in signals[signal_id].excerpt


def _names(rule: str, task_id: str) -> bool:
    if len(task_id) < SHORTEST_TASK_ID:
        return False
    return re.search(rf"(?<![^\W_]){re.escape(task_id)}(?![^\W_])", rule, re.IGNORECASE) is not None
