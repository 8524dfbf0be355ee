"""The demo: a practice platform that really runs tasks, and Yume learning from what went wrong."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from yume import jetstream, operate
from yume.acts import series as known
from yume.acts.series import Change
from yume.domain.dreams import Series
from yume.errors import PermanentError
from yume.events import TaskFinished, event
from yume.ids import DreamId, LessonId
from yume.jetstream import JetStream
from yume.local import planting, up
from yume.local.practice import HARMFUL, OWN, Habits, Practice, load
from yume.local.summary import as_text, show_dream, summarise
from yume.resources import Resources, open_resources
from yume.settings import Settings
from yume.store import access, dreams

PLATFORM: Final = "practice"
SERIES: Final = "kamila"
REPORT_ONLY_SHARE: Final = 3  # one batch in three only reports: the baseline
DREAM_PATIENCE_S: Final = 120
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is run, and how the worker behaves."""

    seed: int
    batches: int
    size: int
    obedience: float
    harm: float = 0.0
    pitfalls: Path | None = None

    @property
    def report_only(self) -> int:
        """How many batches come first that only report."""
        return max(1, self.batches // REPORT_ONLY_SHARE)

    @property
    def plants_after(self) -> int | None:
        """The batch after whose dream the harmful lesson is planted: by then a version is in the slot."""
        return self.report_only + 1 if self.harm else None


@dataclass(frozen=True, slots=True)
class Stage:
    """What a running demo stands on."""

    practice: Practice
    resources: Resources
    series: Series
    started_at: float

    def say(self, line: str) -> None:
        """Print a line of progress with the seconds since the start."""
        print(f"{time.monotonic() - self.started_at:6.1f} s  {line}", flush=True)


async def run(plan: Plan, settings: Settings, *, folder: Path | None, as_json: bool) -> int:
    """Run the demo to its end and print what came of it; 1 if the trail does not hold."""
    with _folder(folder) as home:
        own = _own_settings(settings, home)
        with up.ground(own) as standing:
            async with _standing(plan, standing) as stage:
                planted = await _run_batches(plan, stage)
                summary = await summarise(stage.series, stage.resources)
                fate = None
                if planted is not None:
                    fate = await planting.fate(planted, stage.series, stage.resources)
    print(f"\n{as_text(summary)}")
    if fate is not None:
        print(f"\n{fate.told()}")
    if folder is not None:
        print(f"\nLook around: YUME_DATA_DIR={folder} yume up, then yume lessons {PLATFORM} {SERIES}")
    if as_json:
        told = summary.to_json() | ({} if fate is None else {"planted": fate.to_json()})
        print(json.dumps(told, ensure_ascii=False, default=str))
    return 0 if summary.trail is None or summary.trail.holds else 1


def _own_settings(settings: Settings, home: Path) -> Settings:
    """Keep to this folder, whatever servers the environment names: they may hold somebody's data."""
    return Settings.model_construct(
        data_dir=home,
        platform_allow_http=True,
        log_format="json",
        log_level=settings.log_level,
        ack_wait_s=settings.ack_wait_s,
    )


@asynccontextmanager
async def _standing(plan: Plan, standing: up.Ground) -> AsyncGenerator[Stage]:
    started_at = time.monotonic()
    settings = standing.settings
    practice = Practice(
        settings.data_dir / "practice",
        habits=Habits(obedience=plan.obedience, harm=plan.harm),
        seed=plan.seed,
        pitfalls=load(OWN) if plan.pitfalls is None else load(OWN, plan.pitfalls),
        name=PLATFORM,
    )
    try:
        async with practice.serving() as base_url, up.up(standing):
            await operate.add_platform(
                settings,
                PLATFORM,
                base_url=base_url,
                export_token=SecretStr(practice.export_token),
                slot_token=SecretStr(practice.slot_token),
            )
            assert settings.nats_url is not None
            async with (
                jetstream.connect(settings.nats_url.get_secret_value(), name="practice") as js,
                open_resources(settings, "cli") as resources,
            ):
                practice.callbacks = lambda data: _tell(data, js)
                async with resources.db.acquire() as db:
                    series = await access.series_named(db, PLATFORM, SERIES)
                stage = Stage(practice, resources, series, started_at)
                stage.say(f"PostgreSQL, NATS and one Yume process a trust zone run, on {settings.data_dir}")
                yield stage
    finally:
        practice.close()


async def _tell(data: dict[str, Any], js: JetStream) -> None:
    """Publish a finished task as a platform does."""
    task = TaskFinished.model_validate(data)
    key = f"{task.task_id}:{task.status}"
    await js.store(event("task.finished", task, key=key, at=task.finished_at))


async def _run_batches(plan: Plan, stage: Stage) -> LessonId | None:
    """Run them all; return the harmful lesson if one was planted on the way."""
    planted = None
    for number in range(1, plan.batches + 1):
        if number == plan.report_only + 1:
            await _promote(stage)
        done = 0

        def count(_: object, number: int = number) -> None:
            nonlocal done
            done += 1
            if done % 10 == 0 and done < plan.size:
                stage.say(f"batch {number}: {done} of {plan.size} tasks")

        tasks = await stage.practice.run_batch(SERIES, plan.size, on_task=count)
        failed = sum(1 for task in tasks if task["status"] != "succeeded")
        stage.say(f"batch {number}: {plan.size} tasks ran, {failed} did not succeed; dreaming")
        dream = await _dreamt(stage, number)
        stage.say(await show_dream(dream, stage.resources))
        if number == plan.plants_after:
            planted = await planting.plant(HARMFUL.rule, dream, stage.series, stage.resources)
            stage.say(f"planting a harmful lesson, past the gate: {HARMFUL.rule}")
    return planted


async def _promote(stage: Stage) -> None:
    """Let the series write: a person's act, recorded with who and why."""
    now = stage.resources.now()
    async with stage.resources.db.acquire() as db:
        series = await access.series_named(db, PLATFORM, SERIES)
        why = "the demo's owner has read the reports"
        await access.promote(db, series, "auto", by="demo", why=why, now=now)
    await known.change(PLATFORM, SERIES, Change(auto_rollback=True), stage.resources, by="demo", why=why)
    stage.say("playing the owner: the series is promoted from report_only to auto, on the record,")
    stage.say("and a version that looks worse may be rolled back by itself")


async def _dreamt(stage: Stage, number: int) -> DreamId:
    """Wait for the dream of a batch to end well."""
    deadline = time.monotonic() + DREAM_PATIENCE_S
    while time.monotonic() < deadline:
        async with stage.resources.db.acquire() as db:
            rows = await dreams.dreams_of_series(db, stage.series.id)
        of_batches = [each for each in rows if each["trigger"] == "callback"]
        row = of_batches[number - 1] if len(of_batches) >= number else None
        if row is not None and row["status"] in ("failed", "cancelled", "parked"):
            raise PermanentError(f"dream {number} is {row['status']} at step {row['step']}: {row['error']}")
        if row is not None and row["status"] == "finished":
            return DreamId(row["id"])
        await asyncio.sleep(POLL_S)
    raise PermanentError(
        f"dream {number} has not finished within {DREAM_PATIENCE_S} s; run with --folder and read logs/ there"
    )


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="yume-demo-", ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        used = any(folder.iterdir())
    except OSError as error:
        raise PermanentError(f"{folder} cannot be used: {error.strerror}; name a new folder") from error
    if used:
        raise PermanentError(f"{folder} is not empty: the demo starts from nothing, name a new folder")
    yield folder.absolute()
