"""A dream over files: the rules of S2 to S7 on records that lie in files, without platform, servers or slot.

It reports and changes nothing. The records are read one by one; what stays in memory is the evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from yume.asking import Answers, draft_lessons, label, merge_drafts
from yume.clients.model import Model
from yume.domain.dreams import Language
from yume.domain.extraction import extract
from yume.domain.gating import Decision, gate
from yume.domain.lessons import Draft, learnable, stored
from yume.domain.merging import strength
from yume.domain.projection import Projection, project
from yume.domain.runs import Capabilities, Record, judge
from yume.domain.signals import Found, Signal, groups
from yume.domain.tally import Tally
from yume.domain.taxonomy import Taxonomy, with_labels
from yume.ids import DreamId, LessonId, RunId, SignalId, derived_id
from yume.importers.records import Imported, Unread

RUNS_OF_A_KIND: Final = 200  # whose evidence is kept; further runs of the same failure are counted
KINDS: Final = 20_000  # of failure, of which evidence is kept
UNREAD_KEPT: Final = 1_000
BUDGET_TOKENS: Final = 2_000
BRINGS_TEXT: Final = ("add", "merge")
_NAMESPACE: Final = UUID("7b9c6b0e-0d0c-5d0a-9a43-3f8f6c0f5a11")


@dataclass(slots=True)
class Evidence:
    """What was read: the tally of all runs, the signals that are kept, and where their runs stand."""

    tally: Tally = field(default_factory=Tally)
    signals: list[Signal] = field(default_factory=list)
    places: dict[RunId, tuple[str, str]] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    unread: list[Unread] = field(default_factory=list)
    unread_count: int = 0

    def add_unread(self, piece: Unread) -> None:
        """Note a piece that could not be read."""
        self.unread_count += 1
        if len(self.unread) < UNREAD_KEPT:
            self.unread.append(piece)

    def add(self, piece: Imported, record: Record, *, now: datetime) -> None:
        """Judge a run and keep the evidence of its failures."""
        outcome = judge(record, Capabilities(), now=now).outcome
        found = [] if outcome == "cancelled" else extract(record, injected=None)
        last = record.attempts[-1] if record.attempts else None
        version = record.task.template_version or (last.template_version if last else None)
        marks = (each.fingerprint for each in found)
        self.tally.add(outcome, version, marks, at=record.task.finished_at)
        self._keep(piece.place, last.id if last else "", record.task.id, found)

    def _keep(self, place: str, run: str, task: str, found: Sequence[Found]) -> None:
        marks = {each.fingerprint for each in found}
        new = len(self.seen) < KINDS
        kept = {mark for mark in marks if self.seen[mark] < RUNS_OF_A_KIND and (new or mark in self.seen)}
        self.seen.update(kept)
        run_id = RunId(derived_id(_NAMESPACE, place, run))
        signals = [
            Signal(
                SignalId(derived_id(run_id, ordinal)),
                run_id,
                task,
                ordinal,
                each.kind,
                each.source_class,
                each.pointer,
                each.excerpt,
                each.fingerprint,
            )
            for ordinal, each in enumerate(found)
            if each.fingerprint in kept
        ]
        if signals:
            self.signals += signals
            self.places[run_id] = (run, place)


@dataclass(frozen=True, slots=True)
class Review:
    """What came of it: classes by fingerprint, drafts with the gate's decisions, the text they would make."""

    evidence: Evidence
    codes: Mapping[str, str]
    kinds: int
    drafts: Mapping[LessonId, Draft]
    decisions: Sequence[Decision]
    refused: Counter[str]
    projection: Projection
    model: str
    calls: int


def gather(pieces: Iterable[tuple[Imported, Record] | Unread], *, now: datetime) -> Evidence:
    """Read all pieces."""
    evidence = Evidence()
    for piece in pieces:
        if isinstance(piece, Unread):
            evidence.add_unread(piece)
        else:
            evidence.add(*piece, now=now)
    return evidence


async def review(
    evidence: Evidence, taxonomy: Taxonomy, model: Model, *, series: str, language: Language
) -> Review:
    """Classify, draft, merge, gate and compile, as a series in report_only that has no lesson yet."""
    labelled = await label(groups(evidence.signals), taxonomy, model, language=language)
    signals = with_labels(evidence.signals, labelled.labels)
    found = groups(signals)
    dream = DreamId(derived_id(_NAMESPACE, series))
    teachable = [group for group in found if learnable(group, taxonomy)]
    drafted = await draft_lessons(teachable, model, language=language, dream=dream)
    merged = await merge_drafts(
        sorted(drafted.drafts, key=strength), (), model, language=language, dream=dream
    )
    drafts = {each.id: each for each in (*drafted.drafts, *merged.texts)}
    known = {each.id: each for each in signals}
    tasks = {each.task_id for each in signals}
    decisions = [
        gate(each, lesson=drafts[each.lesson], signals=known, mode="report_only", base=None, task_ids=tasks)
        for each in merged.operations
    ]
    approved = [
        stored(drafts[each.operation.lesson], "approved")
        for each in decisions
        if each.decision == "approve" and each.operation.kind in BRINGS_TEXT
    ]
    text = project(approved, series=series, version=1, language=language, budget_tokens=BUDGET_TOKENS)
    answers: list[Answers] = [labelled.answers, drafted.answers, merged.answers]
    return Review(
        evidence=evidence,
        codes={mark: each.code for mark, each in labelled.labels.items()},
        kinds=len(found),
        drafts=drafts,
        decisions=decisions,
        refused=Counter([*drafted.refused, *merged.refused]),
        projection=text,
        model=model.name,
        calls=sum(each.calls for answered in answers for each in answered),
    )


def facts(made: Review, *, source: str, format_: str) -> dict[str, Any]:
    """Return what the report says, for programs; each lesson says where it came from."""
    evidence = made.evidence
    known = {each.id: each for each in evidence.signals}
    return {
        "source": source,
        "format": format_,
        "runs": evidence.tally.runs,
        "outcomes": evidence.tally.outcome_counts(),
        "classes": evidence.tally.classes(made.codes),
        "lessons": [
            _lesson(made, each, known) for each in made.decisions if each.operation.kind in BRINGS_TEXT
        ],
        "versions": evidence.tally.versions(),
        "unread": {
            "count": evidence.unread_count,
            "first": [{"place": each.place, "why": each.why} for each in evidence.unread],
        },
        "kinds": made.kinds,
        "refused": dict(sorted(made.refused.items())),
        "model": made.model,
        "model_calls": made.calls,
        "text": made.projection.text,
        "tokens": made.projection.tokens,
    }


def _lesson(made: Review, decision: Decision, known: Mapping[SignalId, Signal]) -> dict[str, Any]:
    draft = made.drafts[decision.operation.lesson]
    cited = [known[each] for each in draft.evidence]
    return {
        "id": str(draft.id),
        "rule": draft.rule,
        "symptom": draft.symptom,
        "category": draft.category,
        "trust": draft.trust,
        "confidence": draft.confidence,
        "decision": decision.decision,
        "unmet": list(decision.unmet),
        "signals": len(draft.evidence),
        "runs": made.evidence.tally.showing(draft.fingerprints),
        "tasks": sorted({each.task_id for each in cited}),
        "evidence": [_place(made.evidence, each) for each in cited],
    }


def _place(evidence: Evidence, signal: Signal) -> dict[str, Any]:
    run, place = evidence.places[signal.run_id]
    pointer = signal.pointer
    lines = f"{pointer.first_line}-{pointer.last_line}"
    return {"task": signal.task_id, "run": run, "place": place, "pointer": pointer.path, "lines": lines}
