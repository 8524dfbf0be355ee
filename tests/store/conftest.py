"""Rows to start from: a platform with series, dreams in each status, runs with signals, and lessons."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from yume.domain.dreams import Series, Status
from yume.domain.lessons import Origin, State
from yume.domain.measurement.rates import VersionRate
from yume.domain.rounds import Compiled, Kind
from yume.domain.signals import Found, Pointer
from yume.ids import (
    DreamId,
    InjectionId,
    LessonId,
    LessonSetId,
    MeasurementId,
    PlatformId,
    RunId,
    SignalId,
    new_id,
)
from yume.store import access, batches, dreams, effects, evidence, lessons, measured
from yume.store.access import Platform
from yume.store.evidence import Placed, Pulled
from yume.store.measured import Look

if TYPE_CHECKING:
    from yume.store.database import Db

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SHA256 = "ab" * 32

# The way from `collecting` to a status, and what else the row must say then.
WAYS: dict[Status, tuple[Status, ...]] = {
    "collecting": (),
    "queued": ("queued",),
    "running": ("queued", "running"),
    "parked": ("queued", "running", "parked"),
    "finished": ("queued", "running", "finished"),
    "failed": ("queued", "running", "failed"),
    "cancelled": ("cancelled",),
}

OTHER_VALUES = {
    "uuid": "gen_random_uuid()",
    "text": "'another'",
    "integer": "7",
    "double precision": "0.123",
    "jsonb": "'[7]'",
    "ARRAY": "ARRAY[gen_random_uuid()]",
    "timestamp with time zone": "'epoch'",
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Makes rows on one connection, each with as little as it may have."""

    db: Db
    now: datetime = NOW

    async def series(self, name: str = "kamila", platform: str = "tobatsu") -> Series:
        """A series, with its platform."""
        row = Platform(PlatformId(platform), "https://platform.example", b"export", b"slot", {})
        await access.add_platform(self.db, row)
        return await access.series_named(self.db, platform, name)

    async def dream(self, series: Series, status: Status = "running") -> DreamId:
        """A dream in any status, brought there the legal way."""
        dream = await batches.collecting(self.db, series.id, "callback", NOW)
        for step in WAYS[status]:
            match step:
                case "queued":
                    assert await batches.close_batch(self.db, dream, batch_id=None, now=NOW)
                case "running":
                    assert await batches.start_next(self.db, series.id, NOW) == dream
                case "finished":
                    await dreams.finish(self.db, dream, NOW)
                case "failed":
                    assert await dreams.fail(self.db, dream, "it broke", NOW)
                case _:
                    ended = NOW if step == "cancelled" else None
                    await self.db.execute(
                        "UPDATE yume.dream_runs SET status = $2, finished_at = $3 WHERE id = $1",
                        dream,
                        step,
                        ended,
                    )
        return dream

    async def run(self, series: Series, dream: DreamId, task: str = "task-1", **facts: Any) -> RunId:
        """A pulled run with its record in the archive."""
        known = {"finished_at": NOW - timedelta(hours=1), "status": "failed"}
        where = {"raw_key": f"runs/{task}/{SHA256}.json", "raw_sha256": SHA256, "raw_bytes": 2}
        pulled = Pulled(task, **(known | where | facts))
        await evidence.save_pulled_runs(self.db, series.id, dream, [pulled], NOW)
        query = "SELECT id FROM yume.runs WHERE series_id = $1 AND task_id = $2"
        return RunId(await self.db.fetchval(query, series.id, task))

    async def signal(
        self,
        dream: DreamId,
        run: RunId,
        *,
        ordinal: int = 0,
        fingerprint: str = "f1",
        excerpt: str = "boom",
        signal: SignalId | None = None,
    ) -> SignalId:
        """A signal of a run."""
        found = Found("exit_code", "exit_code", Pointer("/runs/0/exit_code", 1, 1), excerpt, fingerprint)
        placed = Placed(signal or SignalId(new_id()), run, ordinal, SHA256, found)
        await evidence.save_signals(self.db, dream, "1", [placed])
        return placed.id

    async def lesson(
        self,
        series: Series,
        evidence_ids: list[SignalId] | None = None,
        *,
        origin: Origin = "dream",
        state: State = "draft",
        dream: DreamId | None = None,
    ) -> LessonId:
        """A lesson as it is born; `state` is written as it is, legal or not."""
        lesson = LessonId(new_id())
        await self.db.execute(
            """INSERT INTO yume.lessons (
                 id, series_id, lineage_id, revision, symptom, root_cause, rule, category, scope, confidence,
                 evidence, origin, trust, state, history, dream_id, written_by)
               VALUES (
                 $1, $2, $1, 1, 'it fails', 'a trap', 'Look first.', 'state_rot', 'all', 0.9,
                 $3, $4, $5, $6, $7, $8, 'test')""",
            *(
                lesson,
                series.id,
                evidence_ids or [],
                origin,
                None if origin == "owner" else "exit_code",
                state,
            ),
            *([{"from": None, "to": state, "by": "test", "why": "born", "at": NOW.isoformat()}], dream),
        )
        return lesson

    async def lesson_set(
        self,
        series: Series,
        dream: DreamId | None,
        version: int = 1,
        text: str = "text",
        *,
        holds: tuple[LessonId, ...] = (),
    ) -> LessonSetId:
        """A compiled set; its text's hash is made of the version."""
        lesson_set = LessonSetId(new_id())
        sha256 = f"{version:064x}"
        compiled = Compiled(version, "body", sha256, text, sha256, 1, holds, ())
        gate = {"decisions": []}
        await lessons.add_set(
            self.db, lesson_set, series.id, compiled, parent=None, gate=gate, dream=dream, now=NOW
        )
        return lesson_set

    async def injection(
        self,
        series: Series,
        lesson_set: LessonSetId | None,
        *,
        dream: DreamId | None = None,
        kind: Kind | None = None,
        now: datetime = NOW,
    ) -> InjectionId:
        """A slot write that is pending: a dream's, else a rollback."""
        injection = InjectionId(new_id())
        await effects.request(
            self.db,
            injection,
            series.id,
            lesson_set,
            kind=kind or ("write" if dream else "rollback"),
            status="pending",
            expected_version=None,
            by="test",
            why="a test",
            dream=dream,
            now=now,
        )
        return injection

    async def measurement(self, series: Series, dream: DreamId) -> MeasurementId:
        """A look at one version."""
        rate = VersionRate("3", None, 10, 4, 1, {"cancelled": 2}, 0.4, 0.17, 0.69)
        look = Look(MeasurementId(new_id()), rate, "batch", NOW - timedelta(days=1), NOW)
        await measured.save_measurements(self.db, series.id, dream, [look], "wilson", NOW)
        return look.id


@pytest.fixture
def now() -> datetime:
    """The instant at which the rows were made."""
    return NOW


@pytest.fixture
def rows(db: Db) -> Rows:
    """The maker of rows on the test's own connection."""
    return Rows(db)


@pytest.fixture
async def series(rows: Rows) -> Series:
    """One series of one platform."""
    return await rows.series()


@pytest.fixture
async def dream(rows: Rows, series: Series) -> DreamId:
    """The series' first dream, running."""
    return await rows.dream(series)


@pytest.fixture
async def signal(rows: Rows, series: Series, dream: DreamId) -> SignalId:
    """A signal of the dream's only run."""
    return await rows.signal(dream, await rows.run(series, dream))


@pytest.fixture
def announce(db: Db, series: Series):
    """Have a callback announce a task; False if the task is known."""

    async def announced(dream: DreamId, task: str, status: str = "failed", **told: Any) -> bool:
        facts = {"finished_at": NOW - timedelta(hours=1), "now": NOW} | told
        return await batches.announce_run(db, series.id, dream, task_id=task, status=status, **facts)

    return announced


@pytest.fixture
async def move(db: Db):
    """Change a lesson's state and add an entry to its history, in raw SQL; `entry` replaces parts of it."""

    async def change(lesson: LessonId, source: str, target: str, **entry: Any) -> None:
        told = {"from": source, "to": target, "by": "person:ada", "why": "a test", "at": NOW.isoformat()}
        await db.execute(
            "UPDATE yume.lessons SET state = $2, history = history || $3 WHERE id = $1",
            *(lesson, target, [told | entry]),
        )

    return change


@pytest.fixture
def columns_of(db: Db):
    """Return each column of a table with an SQL expression that gives it another value."""

    async def columns(table: str, *, but: tuple[str, ...]) -> dict[str, str]:
        found = await db.fetch(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'yume' AND table_name = $1 AND column_name <> ALL ($2)",
            *(table, list(but)),
        )
        return {row["column_name"]: OTHER_VALUES[row["data_type"]] for row in found}

    return columns


@pytest.fixture
def eventually():
    """Wait for a state, at most 20 s; what tells it may be awaitable."""

    async def wait(reached) -> None:
        async with asyncio.timeout(20):
            while True:
                told = reached()
                if await told if inspect.isawaitable(told) else told:
                    return
                await asyncio.sleep(0.01)

    return wait
