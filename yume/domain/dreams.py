"""A series' policy, and a dream as its row says it: what is given to a step before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from yume.ids import DreamId, LessonId, LessonSetId, SeriesId, TaxonomyId

Mode = Literal["report_only", "gated", "auto"]
Language = Literal["en", "zh"]
Trigger = Literal["callback", "schedule", "manual", "release", "replay"]
Status = Literal["collecting", "queued", "running", "parked", "finished", "failed", "cancelled"]
Result = Literal["published", "no_change", "report_only", "held", "no_signal", "replayed", "cancelled"]

REQUESTED: Final = "s0_requested"  # sorts before the name of every step
LAST: Final = "s9_measure"
PATIENCE: Final = timedelta(hours=24)  # a dream that has not finished by then has failed


@dataclass(frozen=True, slots=True)
class Series:
    """A stream of similar tasks that shares one slot; `external_id` is the platform's name for it."""

    id: SeriesId
    platform: str
    external_id: str
    mode: Mode
    batch_max_runs: int
    batch_max_wait: timedelta
    projection_budget_tokens: int
    language: Language
    instructions: str
    taxonomy_id: TaxonomyId


@dataclass(frozen=True, slots=True)
class Dream:
    """One review of one batch: `after` and `before` bound when its tasks finished.

    `root` is the dream whose batch it is: the original of a replay, else the dream itself. `frozen_at` says
    as of when it looks at the slot. `fence` is that of the lease under which this was read.
    """

    id: DreamId
    series: Series
    number: int
    trigger: Trigger
    status: Status
    step: str | None
    announced: str | None
    attempt: int
    fence: int
    applies: bool
    forced: bool
    asked_by: str | None
    why: str | None
    root: DreamId
    root_number: int
    root_compiled: Mapping[str, Any] | None
    frozen_at: datetime
    taxonomy_id: TaxonomyId
    base_lesson_set_id: LessonSetId | None
    after: datetime | None
    before: datetime
    started_at: datetime
    result: Result | None
    reason: str | None
    report_key: str | None
    draft_ids: Sequence[LessonId] | None
    standing_ids: Sequence[LessonId] | None
    operations: Sequence[Mapping[str, Any]]
    gate: Mapping[str, Any] | None
    compiled: Mapping[str, Any] | None
    lesson_set_id: LessonSetId | None
    counters: Mapping[str, int]
    usage: Mapping[str, Any]
    broken: Sequence[Mapping[str, str]]
    error: str | None

    @property
    def dry(self) -> bool:
        """Whether it only shows what would come of its batch, and changes no lesson and no slot."""
        return not self.applies

    @property
    def evidence_ids(self) -> tuple[DreamId, ...]:
        """The dreams whose signals are this one's: a replay has its original's and its own."""
        return (self.id,) if self.root == self.id else (self.root, self.id)

    @property
    def names_drafts(self) -> DreamId:
        """The dream that drafts are named after: a replay that only shows drafts the very same ones."""
        return self.root if self.dry else self.id


Duty = Literal["run", "announce", "tell_failure", "tell_cancelled", "nothing"]


def duty(status: Status, step: str | None, announced: str | None, mine: str) -> Duty:
    """Say what a message for step `mine` asks of a worker, given how far the dream's row is.

    A step is run once, and only right after the one before it: nothing gets past the gate by a message.
    One that is done but whose event may not be stored is only announced; everything else is a copy of a
    message that changes nothing. Names of steps carry their place and so sort in the order of the pipeline.
    """
    told = announced is not None and announced >= mine
    if status == "failed":
        return "nothing" if told else "tell_failure"
    if status == "cancelled":
        return "nothing" if told or mine != LAST else "tell_cancelled"
    if status not in ("running", "finished"):
        return "nothing"
    done = step or REQUESTED
    if done < mine:
        return "run" if int(mine[1]) == int(done[1]) + 1 else "nothing"
    return "nothing" if told else "announce"
