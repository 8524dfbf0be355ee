"""Classes of failure, and those of them that code decides before a model is asked."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Final, Literal
from uuid import UUID

from yume.domain import patterns
from yume.domain.signals import Group, Signal
from yume.errors import PermanentError
from yume.ids import RunId, TaxonomyId

CONFIDENCE_FLOOR: Final = 0.55
UNCLASSIFIED: Final = "unclassified"

Decider = Literal["rule", "model", "monitor"]
_DECIDERS: Final[tuple[Decider, ...]] = ("rule", "model", "monitor")


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One way to fail; `attributable`: can a lesson change it, `learnable`: may one be drafted from it."""

    code: str
    title: str
    definition: str
    positive: str
    negative: str
    severity: int
    decided_by: tuple[Decider, ...]
    attributable: bool
    learnable: bool


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """An immutable, versioned set of failure classes."""

    id: TaxonomyId
    name: str
    version: int
    classes: tuple[FailureClass, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """A class given to a failure; `by` is `rule:<id>` or the model with its prompt's hash."""

    code: str
    confidence: float
    by: str


def shipped() -> Taxonomy:
    """Return the default taxonomy, which the migrations put into a database too: for a dream without one."""
    text = (resources.files("yume.domain") / "rules" / "taxonomy.json").read_text(encoding="utf-8")
    row = json.loads(text)
    return Taxonomy(TaxonomyId(UUID(row["id"])), row["name"], row["version"], read_classes(row["classes"]))


def with_labels(signals: Iterable[Signal], labels: Mapping[str, Label]) -> list[Signal]:
    """Return the signals with the labels of their fingerprints, as `signals.labels` keeps them."""
    return [
        replace(each, code=labels[each.fingerprint].code) if each.fingerprint in labels else each
        for each in signals
    ]


def read_classes(rows: Any) -> tuple[FailureClass, ...]:
    """Read `taxonomies.classes`, as JSON text or parsed; `decided_by` is a list or "rule+model"."""
    parsed = json.loads(rows) if isinstance(rows, str) else rows
    read = tuple(_failure_class(row) for row in parsed)
    twice = [code for code, count in Counter(each.code for each in read).items() if count > 1]
    if twice:
        raise PermanentError(f"the taxonomy holds a class twice: {', '.join(twice)}")
    return read


def decide(group: Group, taxonomy: Taxonomy) -> Label | None:
    """Label what code can see, if at least half of the group's runs show it; None leaves it to the model."""
    codes = {each.code for each in taxonomy.classes if "rule" in each.decided_by}
    by_run: defaultdict[RunId, list[Signal]] = defaultdict(list)
    for signal in group.signals:
        by_run[signal.run_id].append(signal)
    labels = [_by_words(signals, codes) or _by_shape(signals, codes) for signals in by_run.values()]
    votes = Counter(label for label in labels if label)
    if not votes:
        return None
    label, count = votes.most_common(1)[0]
    return label if 2 * count >= len(by_run) else None


def _by_words(signals: Sequence[Signal], codes: Collection[str]) -> Label | None:
    platform = [signal.excerpt for signal in signals if signal.source_class == "platform_reason"]
    log = [signal.excerpt for signal in signals if signal.source_class == "external_text"]
    rule = patterns.first_match(codes, platform=platform, log=log)
    return Label(rule.code, rule.confidence, f"rule:{rule.id}") if rule else None


def _by_shape(signals: Sequence[Signal], codes: Collection[str]) -> Label | None:
    kinds = {signal.kind for signal in signals}
    sources = {signal.source_class for signal in signals if signal.kind == "inquiry"}
    passed = any(
        signal.kind == "verifier" and signal.pointer.path.endswith("/verdict") and signal.excerpt == "pass"
        for signal in signals
    )
    shown = (
        ("overturned-pass", "verifier_theater", 0.95, passed and "human_answer" in sources),
        ("timed-out", "time_exhausted", 0.9, "timeout" in kinds),
        ("same-error-thrice", "infinite_fix_loop", 0.9, "retry_loop" in kinds),
        ("unanswered", "escalation_failure", 0.7, sources == {"agent_text"} and "recovery" not in kinds),
    )
    for rule_id, code, confidence, is_shown in shown:
        if is_shown and code in codes:
            return Label(code, confidence, f"rule:{rule_id}")
    return None


def _failure_class(row: dict[str, Any]) -> FailureClass:
    try:
        return FailureClass(
            code=row["code"],
            title=row["title"],
            definition=row["definition"],
            positive=row["positive"],
            negative=row["negative"],
            severity=row["severity"],
            decided_by=_deciders(row["decided_by"]),
            attributable=row["attributable"],
            learnable=row["learnable"],
        )
    except KeyError as error:
        raise PermanentError(
            f"class {row.get('code', '?')!r} of a taxonomy lacks the field {error}"
        ) from None


def _deciders(stated: str | list[str]) -> tuple[Decider, ...]:
    words = {word.strip() for word in (stated.split("+") if isinstance(stated, str) else stated)}
    unknown = words - set(_DECIDERS) - {""}
    if unknown:
        raise PermanentError(
            f"a class is decided by rule, model or monitor, not by {', '.join(sorted(unknown))}"
        )
    return tuple(decider for decider in _DECIDERS if decider in words)
