"""Reads and writes `runs` and `signals`: in bulk, and each of them the same twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from yume.domain.measurement.rates import RunFact
from yume.domain.runs import Judgement, Verdict
from yume.domain.signals import Found, Pointer, Signal
from yume.domain.taxonomy import Label
from yume.ids import DreamId, LessonId, RunId, SeriesId, SignalId, TaxonomyId, new_id
from yume.store import queries

if TYPE_CHECKING:
    import asyncpg

    from yume.store.database import Db

SQL: Final = queries.load("evidence.sql")


@dataclass(frozen=True, slots=True)
class Pulled:
    """What S1 knows of a task, and where its whole record lies; `broken` says why it cannot be used."""

    task_id: str
    status: str | None = None
    task_kind: str | None = None
    template_version: str | None = None
    agent_model: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: Sequence[Mapping[str, Any]] = ()
    inquiries: Sequence[Mapping[str, Any]] = ()
    artifacts: Sequence[Any] = ()
    raw_key: str | None = None
    raw_sha256: str | None = None
    raw_bytes: int | None = None
    broken: str | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """A run whose whole record lies in the archive."""

    id: RunId
    task_id: str
    raw_key: str
    raw_sha256: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What S2 decided about a run; `followed` are lessons that its commands follow, None if it shows none."""

    run_id: RunId
    judgement: Judgement
    verdict: Verdict | None
    memory_version: str | None
    memory_version_source: str
    followed: Sequence[LessonId] | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A signal that was found in a run, with the id derived from where it was found."""

    id: SignalId
    run_id: RunId
    ordinal: int
    raw_sha256: str
    found: Found


@dataclass(frozen=True, slots=True)
class Evidence:
    """One stop of the way from a lesson down to a task: the signal, the run, and the raw record."""

    signal: Signal
    signal_raw_sha256: str
    raw_key: str
    outcome: str | None
    platform: str
    series: str


async def announced_tasks(db: Db, dream: DreamId) -> list[str]:
    """Return the tasks that callbacks announced for a batch."""
    return [row["task_id"] for row in await db.fetch(SQL["announced_tasks"], dream)]


async def taken_tasks(db: Db, series: SeriesId, dream: DreamId, tasks: Sequence[str]) -> set[str]:
    """Return those of the tasks that belong to another dream's batch."""
    return {row["task_id"] for row in await db.fetch(SQL["taken_tasks"], series, dream, list(tasks))}


async def left_tasks(db: Db, series: SeriesId) -> set[str]:
    """Return the tasks that a dream was to pull and did not: it failed, and the next one takes them."""
    return {row["task_id"] for row in await db.fetch(SQL["left_tasks"], series)}


async def unsettled_tasks(db: Db, series: SeriesId, dream: DreamId, since: datetime) -> dict[str, datetime]:
    """Return the tasks of earlier batches whose verdict may still come, and when each finished."""
    rows = await db.fetch(SQL["unsettled_tasks"], series, dream, since)
    return {row["task_id"]: row["finished_at"] for row in rows}


async def save_pulled_runs(
    db: Db, series: SeriesId, dream: DreamId, pulled: Sequence[Pulled], now: datetime
) -> None:
    """Fill the rows of a batch in one statement; a task of an earlier dream stays in that batch."""
    columns = [
        [new_id() for _ in pulled],
        *([getattr(each, name) for each in pulled] for name in _FACTS),
        *([json.dumps(list(getattr(each, name))) for each in pulled] for name in _DOCUMENTS),
        *([getattr(each, name) for each in pulled] for name in _ARCHIVE),
    ]
    await db.execute(SQL["save_pulled_runs"], series, dream, now, *columns)


_FACTS: Final = (
    "task_id",
    "task_kind",
    "template_version",
    "agent_model",
    "status",
    "started_at",
    "finished_at",
)
_DOCUMENTS: Final = ("attempts", "inquiries", "artifacts")
_ARCHIVE: Final = ("raw_key", "raw_sha256", "raw_bytes", "broken")


async def runs_to_extract(db: Db, series: SeriesId, dream: DreamId, started_at: datetime) -> list[Archived]:
    """Return the runs of a batch, and the unsettled ones that the dream pulled again."""
    return [
        Archived(**dict(row)) for row in await db.fetch(SQL["runs_to_extract"], series, dream, started_at)
    ]


async def save_outcomes(db: Db, judged: Sequence[Judged], now: datetime) -> None:
    """Write the outcomes and which lesson set each run had in its context."""
    await db.execute(
        SQL["save_outcomes"],
        now,
        [each.run_id for each in judged],
        [each.judgement.outcome for each in judged],
        [each.verdict for each in judged],
        [each.judgement.rescued for each in judged],
        [each.judgement.settled for each in judged],
        [each.memory_version for each in judged],
        [each.memory_version_source for each in judged],
        [None if each.followed is None else json.dumps(each.followed, default=str) for each in judged],
    )


async def save_signals(db: Db, dream: DreamId, extractor: str, placed: Sequence[Placed]) -> None:
    """Add the signals that are not there yet."""
    await db.execute(
        SQL["save_signals"],
        dream,
        extractor,
        [each.id for each in placed],
        [each.run_id for each in placed],
        [each.ordinal for each in placed],
        [each.found.kind for each in placed],
        [each.found.source_class for each in placed],
        [json.dumps(_pointer_json(each.found.pointer)) for each in placed],
        [each.raw_sha256 for each in placed],
        [each.found.excerpt for each in placed],
        [each.found.fingerprint for each in placed],
    )


async def signals_of(db: Db, dreams: Iterable[DreamId], taxonomy: TaxonomyId) -> list[Signal]:
    """Return the signals of a batch with their labels under a taxonomy, task by task."""
    return [_signal(row) for row in await db.fetch(SQL["signals_of"], list(dreams), str(taxonomy))]


async def signals_by_id(db: Db, series: SeriesId, signals: Iterable[SignalId]) -> dict[SignalId, Signal]:
    """Return those of the signals that exist in the series."""
    found = [_signal(row) for row in await db.fetch(SQL["signals_by_id"], series, list(signals))]
    return {signal.id: signal for signal in found}


async def save_labels(
    db: Db, dreams: Iterable[DreamId], taxonomy: TaxonomyId, labels: Mapping[str, Label]
) -> None:
    """Label all signals of each fingerprint; a label that was given before stays."""
    await db.execute(
        SQL["save_labels"],
        list(dreams),
        str(taxonomy),
        list(labels),
        [
            json.dumps({"code": label.code, "confidence": label.confidence, "by": label.by})
            for label in labels.values()
        ],
    )


async def run_facts(db: Db, series: SeriesId, before: datetime) -> list[RunFact]:
    """Return what counts of a series' runs, summed up by all that tells them apart, oldest first."""
    return [_fact(row) for row in await db.fetch(SQL["run_facts"], series, before)]


async def experiment_facts(
    db: Db, series: SeriesId, before: datetime, batches: Iterable[UUID], washout_runs: int
) -> list[RunFact]:
    """Return what `run_facts` does of some batches, with the first runs of each told apart as washed out."""
    rows = await db.fetch(SQL["experiment_facts"], series, before, list(batches), washout_runs)
    return [_fact(row, washed_out=row["washed_out"]) for row in rows]


async def trail_of(db: Db, lesson: LessonId) -> list[Evidence]:
    """Return each piece of a lesson's evidence with the run and the raw record that it came from."""
    return [
        Evidence(
            signal=_signal(row),
            signal_raw_sha256=row["signal_raw_sha256"],
            raw_key=row["raw_key"],
            outcome=row["outcome"],
            platform=row["platform_id"],
            series=row["external_id"],
        )
        for row in await db.fetch(SQL["trail_of"], lesson)
    ]


def _fact(row: asyncpg.Record, *, washed_out: bool = False) -> RunFact:
    return RunFact(
        version=row["memory_version"],
        source=row["memory_version_source"] or "unknown",
        outcome=row["outcome"] or "unknown",
        lesson_set_id=row["lesson_set_id"],
        settled=row["settled"],
        runs=row["runs"],
        batch=row["dream_id"],
        template_version=row["template_version"],
        agent_model=row["agent_model"],
        task_kind=row["task_kind"],
        taxonomy=None if row["taxonomy_id"] is None else str(row["taxonomy_id"]),
        first_at=row["first_at"],
        last_at=row["last_at"],
        washed_out=washed_out,
    )


def _signal(row: asyncpg.Record) -> Signal:
    pointer = row["pointer"]
    return Signal(
        id=row["id"],
        run_id=row["run_id"],
        task_id=row["task_id"],
        ordinal=row["ordinal"],
        kind=row["kind"],
        source_class=row["source_class"],
        pointer=Pointer(pointer["path"], pointer["first_line"], pointer["last_line"]),
        excerpt=row["excerpt"],
        fingerprint=row["fingerprint"],
        code=row["code"],
    )


def _pointer_json(pointer: Pointer) -> dict[str, str | int]:
    return {"path": pointer.path, "first_line": pointer.first_line, "last_line": pointer.last_line}
