"""A lesson as a dream drafts it and as a series keeps it, and what may be learnt at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from yume.domain.guard import scan
from yume.domain.signals import PLATFORM_WRITTEN, Group, Signal, SourceClass
from yume.domain.taxonomy import Taxonomy
from yume.ids import LessonId, SignalId

# Which state may follow which is kept by the table itself: schemas/postgres/0002_rules.sql.
State = Literal["draft", "approved", "superseded", "retired", "archived"]
Origin = Literal["owner", "dream", "agent_proposal"]
Advice = Literal["remedy", "answer", "warning"]

RULE_LIMIT: Final = 300
TEXT_LIMIT: Final = 1_000

_CODE_SPAN: Final = re.compile(r"`[^`\n]*`")
_SECOND_SENTENCE: Final = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?]\s+\S|[\u3002\uff01\uff1f]\s*\S|\n")


@dataclass(frozen=True, slots=True)
class Quote:
    """Words of a signal's excerpt, byte for byte."""

    signal_id: SignalId
    text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A lesson that a dream proposes; `trust` is that of its least trusted evidence."""

    id: LessonId
    symptom: str
    root_cause: str
    rule: str
    category: str
    scope: str
    evidence: tuple[SignalId, ...]
    quotes: tuple[Quote, ...]
    trust: SourceClass
    confidence: float
    fingerprints: tuple[str, ...]
    advice: Advice


@dataclass(frozen=True, slots=True)
class Lesson:
    """One revision of a lesson in the store; an owner's has no evidence, hence no trust."""

    id: LessonId
    lineage_id: LessonId
    revision: int
    origin: Origin
    state: State
    symptom: str
    root_cause: str
    rule: str
    category: str
    scope: str
    evidence: tuple[SignalId, ...]
    quotes: tuple[Quote, ...]
    trust: SourceClass | None
    fingerprints: tuple[str, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """One part of a model's answer that does not stand: its number in the answer, a code, and why."""

    item: int
    code: str
    why: str


def stored(draft: Draft, state: State) -> Lesson:
    """Return a draft as the first revision of a lesson."""
    return Lesson(
        id=draft.id,
        lineage_id=draft.id,
        revision=1,
        origin="dream",
        state=state,
        symptom=draft.symptom,
        root_cause=draft.root_cause,
        rule=draft.rule,
        category=draft.category,
        scope=draft.scope,
        evidence=draft.evidence,
        quotes=draft.quotes,
        trust=draft.trust,
        fingerprints=draft.fingerprints,
        confidence=draft.confidence,
    )


def content_hash(rule: str, evidence: Iterable[SignalId]) -> str:
    """Return what an approval is bound to: sha256 over the rule and the sorted evidence, one a line."""
    parts = [rule, *sorted(str(signal_id) for signal_id in evidence)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def code_of(group: Group) -> str | None:
    """Return the code that the group's signals carry, None if one is missing or they differ."""
    codes = {signal.code for signal in group.signals}
    return codes.pop() if len(codes) == 1 else None


def learnable(group: Group, taxonomy: Taxonomy) -> bool:
    """Say whether a lesson may be drafted: its class can be changed by one and may be learnt from."""
    code = code_of(group)
    return any(each.code == code and each.learnable and each.attributable for each in taxonomy.classes)


def platform_written(signal: Signal) -> bool:
    """Say whether the platform itself wrote this signal: a lesson without one rests on hearsay."""
    return signal.source_class in PLATFORM_WRITTEN


def shows_a_way_out(signal: Signal) -> bool:
    """Say whether the signal tells how it ended: what a passing attempt did, or what a person answered."""
    return signal.kind == "recovery" or signal.source_class == "human_answer"


def wrong_with(rule: str) -> tuple[str, str] | None:
    """Return a code and the reason if this text can be no lesson's rule, whatever its evidence."""
    if not rule.strip():
        return "empty_rule", "it has no rule"
    if len(rule) > RULE_LIMIT:
        return "rule_too_long", f"the rule has {len(rule)} characters, {RULE_LIMIT} are allowed"
    if not one_sentence(rule):
        return "not_one_sentence", "the rule is more than one sentence or line"
    scanned = scan(rule)
    if scanned.verdict == "block":
        return "blocked", f"the rule holds {', '.join(scanned.reasons)}"
    return None


def one_sentence(rule: str) -> bool:
    """Say whether the rule is one line and one sentence; commands between backticks do not count."""
    return bool(rule.strip()) and not _SECOND_SENTENCE.search(_CODE_SPAN.sub("`", rule).strip())
