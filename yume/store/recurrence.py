"""Reads what lessons' failures came to, and writes looks at single lessons into `measurements`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from yume.domain.following import prescribed
from yume.domain.lessons import State
from yume.domain.measurement.chain import NO_CHAIN, Chain, Link
from yume.domain.measurement.comparison import Verdict
from yume.domain.measurement.rates import RunFact, wilson
from yume.domain.measurement.recurrence import Hits, Told, Watched
from yume.ids import DreamId, LessonId, MeasurementId, SeriesId, derived_id
from yume.store import queries

if TYPE_CHECKING:
    from yume.store.database import Db

SQL: Final = queries.load("recurrence.sql")
METHOD: Final = "recurrence, exact at checkpoints, 1"
_VERDICTS: Final[dict[str, Verdict]] = {"helps": "improved", "harms": "regressed"}


@dataclass(frozen=True, slots=True)
class WatchedLesson:
    """A lesson that ever stood in the slot, its state, and when and why it was last retired, if it was."""

    watched: Watched
    state: State
    rule: str
    retired: dict[str, Any] | None = None


async def watched_lessons(db: Db, series: SeriesId) -> list[WatchedLesson]:
    """Return the lessons of dreams that ever stood in a series' slot."""
    return [
        WatchedLesson(
            Watched(
                row["id"],
                row["injected_at"],
                frozenset(row["versions"]),
                row["drafted_from"],
                frozenset(row["kinds"]),
            ),
            row["state"],
            row["rule"],
            row["retired"],
        )
        for row in await db.fetch(SQL["watched_lessons"], series)
    ]


async def lesson_hits(db: Db, series: SeriesId, lessons: Iterable[LessonId], before: datetime) -> list[Hits]:
    """Return how many runs showed the failure of each lesson, by batch, version and stratum."""
    return [
        Hits(row["batch"], row["version"], _stratum(dict(row)), row["runs"], row["lesson"], row["failed"])
        for row in await db.fetch(SQL["lesson_hits"], series, list(lessons), before)
    ]


async def lesson_chains(
    db: Db, series: SeriesId, lessons: Sequence[WatchedLesson], before: datetime
) -> dict[LessonId, Chain]:
    """Return how far each lesson came on its way to the runs that it stood ready for."""
    names = [each.watched.id for each in lessons]
    commanding = {each.watched.id for each in lessons if prescribed(each.rule)}
    return {
        row["lesson"]: Chain(
            Link(row["eligible"], row["eligible_failed"]),
            Link(row["injected"], row["injected_failed"]),
            Link(row["shown"], row["shown_failed"]),
            Link(row["followed"], row["followed_failed"]) if row["lesson"] in commanding else None,
        )
        for row in await db.fetch(SQL["lesson_chains"], series, names, before)
    }


async def checkpoints_reached(db: Db, series: SeriesId) -> dict[LessonId, int]:
    """Return the last checkpoint at which each lesson was judged."""
    return {row["lesson_id"]: row["checkpoint"] for row in await db.fetch(SQL["checkpoints_reached"], series)}


async def save_lesson_looks(
    db: Db,
    series: SeriesId,
    dream: DreamId,
    told: Sequence[Told],
    chains: Mapping[LessonId, Chain],
    *,
    since: datetime,
    now: datetime,
) -> None:
    """Add one row a lesson; the same look twice is one row."""
    rates = [wilson(each.seen.after_hits, each.seen.after_runs) for each in told]
    await db.execute(
        SQL["save_lesson_looks"],
        series,
        dream,
        now,
        since,
        METHOD,
        [MeasurementId(derived_id(dream, "lesson", str(each.lesson))) for each in told],
        [each.lesson for each in told],
        [each.seen.after_runs for each in told],
        [each.seen.after_hits for each in told],
        [each.rate for each in rates],
        [each.low for each in rates],
        [each.high for each in rates],
        [_VERDICTS.get(each.state, "no_evidence") for each in told],
        [each.state for each in told],
        [
            json.dumps(
                {
                    "window": "cumulative",
                    "evidence": "observational",
                    **each.to_json(),
                    "chain": chains.get(each.lesson, NO_CHAIN).to_json(),
                }
            )
            for each in told
        ],
    )


async def lesson_looks(db: Db, series: SeriesId) -> list[dict[str, Any]]:
    """Return the newest look at each lesson, for display."""
    return [dict(row) for row in await db.fetch(SQL["lesson_looks"], series)]


def _stratum(row: dict[str, Any]) -> str:
    fact = RunFact(
        None,
        "unknown",
        "unknown",
        None,
        template_version=row["template_version"],
        agent_model=row["agent_model"],
        task_kind=row["task_kind"],
    )
    return fact.stratum
