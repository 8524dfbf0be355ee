"""What the demo shows in the end: versions with their failure rates, the lessons, and one trail to a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yume import operate, trail
from yume.domain.dreams import Series
from yume.domain.lessons import Lesson
from yume.domain.measurement.wording import effect
from yume.ids import DreamId, LessonId
from yume.resources import Resources
from yume.store import dreams, effects, evidence, lessons, measured
from yume.store.lessons import LessonSet
from yume.trail import Trail

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Summary:
    """The demo's outcome, collected from the tables."""

    series: str
    dreams: int
    model: str
    model_calls: int
    versions: Sequence[Row]
    batches: Sequence[Row]
    lessons: Sequence[Lesson]
    tasks: Mapping[LessonId, Sequence[str]]
    slot: LessonSet | None
    trail: Trail | None
    rolled_back: frozenset[str] = frozenset()

    @property
    def verdict(self) -> str:
        """The first verdict on the newest version that has one or was rolled back; else the last one's."""
        for row in reversed(self.versions):
            if "decided" in row["details"]:
                return str(row["details"]["decided"]["verdict"])
            if row["details"]["memory_version"] in self.rolled_back:
                return "rolled_back"
        return str(self.versions[-1]["verdict"]) if self.versions else "no_evidence"

    def to_json(self) -> dict[str, Any]:
        """Return the summary for programs."""
        stop = self.trail.stops[0] if self.trail and self.trail.stops else None
        return {
            "series": self.series,
            "dreams": self.dreams,
            "model": self.model,
            "model_calls": self.model_calls,
            "versions": [_version(row) for row in self.versions],
            "verdict": self.verdict,
            "baseline_rate": self.versions[0]["rate"] if self.versions else None,
            "final_rate": self.versions[-1]["rate"] if self.versions else None,
            "lessons": [
                {
                    "rule": each.rule,
                    "category": each.category,
                    "state": each.state,
                    "signals": len(each.evidence),
                    "tasks": list(self.tasks.get(each.id, ())),
                }
                for each in self.lessons
            ],
            "slot": None
            if self.slot is None
            else {"version": self.slot.version, "sha256": self.slot.text_sha256},
            "trail": None
            if self.trail is None or stop is None
            else {
                "lesson": str(self.trail.lesson.id),
                "signal": str(stop.signal.id),
                "run": stop.run,
                "task": stop.task,
                "raw_sha256": stop.raw_sha256,
                "holds": self.trail.holds,
            },
        }


async def summarise(series: Series, resources: Resources) -> Summary:
    """Collect the outcome after the last dream."""
    async with resources.db.acquire() as db:
        ended = await dreams.dreams_of_series(db, series.id)
        approved = await lessons.lessons_in(db, series.id, "approved")
        cited = {signal for each in approved for signal in each.evidence}
        signals = await evidence.signals_by_id(db, series.id, cited)
        known = {each.id: each.task_id for each in signals.values()}
        looks = [await measured.measurements_of(db, DreamId(each["id"])) for each in ended]
        last = [row for row in (looks[-1] if looks else []) if row["scope"] == "version"]
        batches = [row for of_dream in looks for row in of_dream if row["scope"] == "version"]
        injected = await effects.injected_versions(db, series.id)
        written = await effects.in_slot(db, series.id)
        slot = (
            None
            if written is None or written.lesson_set_id is None
            else await lessons.set_by_id(db, written.lesson_set_id)
        )
    usage = [step for each in ended for step in each["usage"].values()]
    followed = (
        await trail.follow(series.id, slot.lesson_ids[0], resources) if slot and slot.lesson_ids else None
    )
    return Summary(
        series=series.external_id,
        dreams=len(ended),
        model=", ".join(sorted({step["model"] for step in usage})) or "none",
        model_calls=sum(step["calls"] for step in usage),
        versions=[row for row in last if row["details"]["window"] == "cumulative"],
        batches=[row for row in batches if row["details"]["window"] == "batch"],
        lessons=approved,
        tasks={each.id: sorted({known[signal] for signal in each.evidence}) for each in approved},
        slot=slot,
        trail=followed,
        rolled_back=frozenset(each.version for each in injected if each.rolled_back),
    )


async def show_dream(dream: DreamId, resources: Resources) -> str:
    """Say in one line what a dream came to."""
    async with resources.db.acquire() as db:
        found = await dreams.dream_of(db, dream)
    counted = found.counters
    return (
        f"dream {found.number}: {counted.get('failures', 0)} of {counted.get('runs', 0)} runs failed "
        "or had to be rescued, "
        f"{counted.get('groups', 0)} kinds of failure in their attempts; "
        f"{counted.get('drafts', 0)} lessons drafted: "
        f"{counted.get('approved', 0)} approved, {counted.get('held', 0)} held, "
        f"{counted.get('duplicates', 0)} known already; {found.result}"
    )


def as_text(summary: Summary) -> str:
    """Return the outcome for people."""
    lines = [
        f"{summary.series}: {summary.dreams} dreams",
        f"{summary.model_calls} questions were answered by `{summary.model}`"
        + (", which is code and no language model" if summary.model == "rules" else ""),
        "",
        *_rates(summary.versions),
        "",
        *(f"{_name(row)}: {effect(row)}" for row in summary.versions if row["effect"] is not None),
        "Rates before and after, not an experiment: they name no cause. A version that is not listed was",
        "compiled but never written.",
        "",
    ]
    if summary.slot is None or summary.trail is None:
        return "\n".join([*lines, "No lesson reached the slot, so there is no trail to follow."])
    known = {each.id: each for each in summary.lessons}
    return "\n".join(
        [
            *lines,
            f"In the slot now: version {summary.slot.version}, {summary.slot.tokens} tokens",
            *(f"  - {known[each].rule}" for each in summary.slot.lesson_ids if each in known),
            "",
            "From the first of them down to the tasks that it was learnt from",
            *(f"  {line}" for line in operate.describe(summary.trail).splitlines()),
        ]
    )


def _rates(rows: Sequence[Row]) -> list[str]:
    head = f"{'version':>10}  {'runs':>5}  {'failed':>6}  {'rate':>5}  {'95 % interval':>14}"
    table = [f"{head}  {'infrastructure':>14}  {'left out':>8}  verdict"]
    for row in rows:
        rate = "-" if row["rate"] is None else f"{row['rate']:.0%}"
        interval = f"{row['low']:.0%} to {row['high']:.0%}"
        table.append(
            f"{_name(row):>10}  {row['runs']:>5}  {row['failures']:>6}  {rate:>5}  {interval:>14}"
            f"  {row['infrastructure']:>14}  {sum(row['excluded'].values()):>8}  {row['verdict']}"
            + (", rollback alarm" if _alarmed(row) else "")
        )
    return table


def _alarmed(row: Row) -> bool:
    return bool(row["details"].get("rollback_alarm", False))


def _name(row: Row) -> str:
    if row["version"] is not None:
        return f"v{row['version']}"
    return "no lesson" if row["details"]["memory_version"] == "0" else "unknown"


def _version(row: Row) -> Row:
    return {
        "version": row["version"] or 0,
        "runs": row["runs"],
        "failures": row["failures"],
        "infrastructure": row["infrastructure"],
        "rate": row["rate"],
        "low": row["low"],
        "high": row["high"],
        "verdict": row["verdict"],
        "why": row["why"],
        "rollback_alarm": _alarmed(row),
        "effect": row["effect"],
        "effect_low": row["effect_low"],
        "effect_high": row["effect_high"],
    }
