"""A whole Yume in the test's own process: every zone, real servers, and a platform that really runs tasks."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import sqlite3
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import nats.js.errors
import pytest
import pytest_asyncio
from pydantic import SecretStr

from tests.dream.tasks import FEW
from yume import jetstream, operate, orchestrator, worker
from yume.acts import releases, replays, slot
from yume.clients.answers import Remembering
from yume.clients.rules import Rules
from yume.events import Event, ReplayRequested, TaskFinished, event
from yume.ids import LessonId, new_id
from yume.jetstream import JetStream
from yume.local.postgres import Postgres
from yume.local.practice import Faults, Habits, Pitfall, Practice
from yume.orchestrator import RELEASE_AFTER_S, orchestrating
from yume.pipeline import STAGES, Run, Stage
from yume.resources import Resources, Zone, open_resources
from yume.settings import Settings
from yume.store import access, lessons
from yume.store.effects import Command
from yume.topology import of_deployment

PLATFORM = "practice"
SERIES = "kamila"
ENDED = {"finished", "failed", "cancelled", "parked"}
STALL_AFTER_S = 30.0
POLL_S = 0.02
STREAMS = ("tasks", "dream", "lessons")
PERSON = "a person"

# Nearly every task has its trap, nobody is asked and no disk is full: what fails is the plan's.
KEEN = Habits(plain=0.1, knows=0.1, discovers=0.35, slips=0.0, answers=0.0, proposes=0.0, trouble=0.0)


async def until(found: Callable[[], Awaitable[Any]], *, what: str, timeout_s: float = 30) -> Any:
    """Wait for something to become true and return it."""
    deadline = time.monotonic() + timeout_s
    while not (value := await found()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(POLL_S)
    return value


@dataclass
class Counting:
    """The rules, and how often they were asked what."""

    asked: list[Any] = field(default_factory=list)
    inner: Rules = field(default_factory=Rules)
    name: str = "rules"

    async def answer(self, question: Any, shape: Any, /) -> Any:
        self.asked.append(question)
        return await self.inner.answer(question, shape)


class Standstill:
    """A call that stands still the first time, before it is made or after, until it is let go."""

    def __init__(self, *, after: bool = False) -> None:
        self.after = after
        self.calls = 0
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, call: Callable[..., Awaitable[Any]], /, *given: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls > 1:
            return await call(*given, **named)
        answer = await call(*given, **named) if self.after else None
        self.reached.set()
        await self.go.wait()
        return answer if self.after else await call(*given, **named)


Around = Callable[[Run, Any, Resources], Awaitable[None]]


@dataclass
class World:
    """What a test sees: the platform on one side, Yume's tables, streams and archive on the other.

    `around` puts something around a step's work wherever it is served; each zone has `copies` workers.
    """

    practice: Practice
    settings: Settings
    resources: Resources
    js: JetStream
    model: Counting
    copies: int = 1
    around: dict[str, Around] = field(default_factory=dict)

    def _surrounded(self, stage: Stage) -> Stage:
        async def run(batch: Any, resources: Resources, /) -> None:
            around = self.around.get(stage.name)
            await (stage.run(batch, resources) if around is None else around(stage.run, batch, resources))

        return replace(stage, run=run)

    @asynccontextmanager
    async def serving(self, *steps: str) -> AsyncIterator[None]:
        """Serve steps, each zone with resources of its own; all of them start and stop together."""
        stop = asyncio.Event()

        async def serve(zone: Zone, stages: list[Stage], up: asyncio.Event) -> None:
            async with open_resources(self.settings, zone) as held:
                mine = held
                if zone == "dream":  # counted is what reaches the model, not what lay in the archive
                    mine = replace(held, held_model=Remembering(self.model, held.archive))
                url = self.settings.nats_url.get_secret_value()
                async with worker.serving(
                    stages, resources=mine, nats_url=url, ack_wait_s=self.settings.ack_wait_s
                ):
                    up.set()
                    await stop.wait()

        zones: defaultdict[Zone, list[Stage]] = defaultdict(list)
        for stage in STAGES:
            if stage.name in steps:
                zones[stage.zone].append(self._surrounded(stage))
        async with asyncio.TaskGroup() as group:
            ready = []
            for zone, stages in zones.items():
                for _ in range(self.copies):
                    ready.append(asyncio.Event())
                    group.create_task(serve(zone, stages, ready[-1]))
            await asyncio.gather(*(up.wait() for up in ready))
            try:
                yield
            finally:
                stop.set()

    async def run_batch(self, size: int) -> list[dict[str, Any]]:
        """Let the platform run a batch; its callbacks are published as they come."""
        return await self.practice.run_batch(SERIES, size)

    async def run_quietly(self, size: int) -> list[dict[str, Any]]:
        """Let the platform run a batch of which nobody hears until `tell_all`."""
        self.practice.callbacks = None
        tasks = await self.run_batch(size)
        self.practice.callbacks = self.tell
        return tasks

    async def tell_all(self, tasks: list[dict[str, Any]]) -> None:
        """Publish the callbacks of a whole batch."""
        for number, task in enumerate(tasks, start=1):
            await self.tell(
                {
                    "platform": PLATFORM,
                    "series": SERIES,
                    "task_id": task["id"],
                    "status": task["status"],
                    "finished_at": task["finished_at"],
                    "batch_id": task["batch_id"],
                    "batch_finished": number == len(tasks),
                }
            )

    async def until_row(self, number: int, holds: Callable[[asyncpg.Record], bool]) -> asyncpg.Record:
        """Wait until a dream's row is as wanted."""

        async def found() -> asyncpg.Record | None:
            row = await self.row_of(number)
            return row if row is not None and holds(row) else None

        row: asyncpg.Record = await until(found, what=f"dream {number} is as wanted")
        return row

    async def one_call_meets(self, faults: Faults) -> None:
        """Switch faults on, wait until a call has met them, and switch them off again."""
        met = asyncio.Event()

        class Noticed(Faults):
            @property
            def refuses(self) -> bool:
                met.set()
                return True

        self.practice.faults = Noticed(**{each.name: getattr(faults, each.name) for each in fields(faults)})
        await asyncio.wait_for(met.wait(), 10)
        self.practice.faults = Faults()

    async def dream(self, size: int) -> asyncpg.Record:
        """Run a batch and wait for the dream about it."""
        number = await self.value(
            "SELECT coalesce(max(number), 0) FROM yume.dream_runs WHERE status <> 'collecting'"
        )
        await self.run_batch(size)
        return await self.dreamt(number + 1)

    async def dreamt(self, number: int, *, timeout_s: float = 30) -> asyncpg.Record:
        """Wait until a dream has ended and its last event is stored."""

        async def ended() -> asyncpg.Record | None:
            row = await self.row_of(number)
            over = row is not None and row["status"] in ENDED
            return row if over and row["announced"] == STAGES[-1].name else None

        try:
            row: asyncpg.Record = await until(ended, what=f"dream {number} ends", timeout_s=timeout_s)
        except AssertionError as late:
            raise AssertionError(f"{late}: {dict(await self.row_of(number) or {})}") from None
        return row

    async def ended(self, dream: Any, *, timeout_s: float = 30) -> asyncpg.Record:
        """Wait until a dream named by its id has ended and its last event is stored."""
        number = await self.until_true("SELECT number FROM yume.dream_runs WHERE id = $1", dream)
        return await self.dreamt(number, timeout_s=timeout_s)

    async def row_of(self, number: int) -> asyncpg.Record | None:
        rows = await self.rows("SELECT * FROM yume.dream_runs WHERE number = $1", number)
        return rows[0] if rows else None

    async def rows(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self.resources.db.acquire() as db:
            return list(await db.fetch(query, *arguments))

    async def value(self, query: str, *arguments: Any) -> Any:
        async with self.resources.db.acquire() as db:
            return await db.fetchval(query, *arguments)

    async def until_true(self, query: str, *arguments: Any) -> Any:
        """Wait until a query's first value is true in Python's sense, and return it."""
        return await until(lambda: self.value(query, *arguments), what=f"{query} {arguments}")

    async def add_owners_rule(self, rule: str) -> None:
        """Write a person's own rule, which makes the next compiled text another one."""
        await self.rows(
            "INSERT INTO yume.lessons (id, series_id, lineage_id, revision, symptom, root_cause, rule,"
            " category, scope, confidence, evidence, origin, state, written_by)"
            " VALUES ($1, $2, $1, 1, '', '', $3, 'other', 'all', 1, '{}', 'owner', 'approved', 'a person')",
            new_id(),
            await self.series_id(),
            rule,
        )

    async def move(self, lesson: Any, source: Any, target: Any) -> None:
        """Move a lesson to another state, as a person would."""
        async with self.resources.db.acquire() as db:
            await lessons.move(
                db, LessonId(lesson), source, target, by=PERSON, why="a test", now=self.resources.now()
            )

    async def release(self) -> asyncpg.Record:
        """Release what is approved without waiting for the dwell, and wait for the short dream."""
        return await self.ended(
            await releases.release_now(PLATFORM, SERIES, self.resources, by=PERSON, why="a test")
        )

    async def rollback(self, to: int | None = None) -> Command:
        """Have the slot go back to an old version; return what became of that."""
        command, _ = await slot.rollback(PLATFORM, SERIES, to, self.resources, by=PERSON, why="a test")
        return await self.done(command)

    async def kill(self, *, everything: bool = False) -> Command:
        """Switch off what is Yume's, or everything; return what became of that."""
        where = (PLATFORM, SERIES, self.resources)
        return await self.done(await slot.kill(*where, everything=everything, by=PERSON, why="a test"))

    async def done(self, command: Any, *, patience_s: float = 30) -> Command:
        """Wait until a command is dealt with and told of."""
        found = await slot.outcome(command, self.resources, patience_s=patience_s)
        await self.until_true("SELECT announced FROM yume.injections WHERE id = $1", command)
        return found

    async def replay(
        self, number: int, step: str, *, applies: bool = False, key: str = "k"
    ) -> asyncpg.Record:
        """Have a dream replayed from a step on, as an operator does by an event, and wait for its end."""
        row = await self.row_of(number)
        assert row is not None
        asked = ReplayRequested(
            platform=PLATFORM,
            series=SERIES,
            dream_id=row["id"],
            from_step=step,
            key=key,
            applies=applies,
            by=PERSON,
            why="a test",
        )
        name = new_id().hex
        await self.js.store(event("dream.replay_requested", asked, key=name, at=self.resources.now()))
        original = row["replay_of"] or row["id"]
        return await self.ended(replays.replay_id(original, replays.step_named(step), key))

    async def told(self, kind: str) -> list[Event]:
        """Return the events of one type that other services can read, in order."""
        stored = [*await self.events("lessons"), *await self.events("dream")]
        return [each for each in stored if each.type == f"yume.{kind}"]

    def on_write(self, hook: Callable[[Callable[[], Any], Mapping[str, Any]], Any]) -> None:
        """Have a hook around each of the platform's own slot writes: it is given the write and its body."""
        book = self.practice.book.slot
        real = book.write

        def write(series: str, key: str | None, body: Mapping[str, Any], *, now: str) -> Any:
            return hook(lambda: real(series, key, body, now=now), body)

        book.write = write  # type: ignore[method-assign]  # the platform is the test's own

    async def promote(self, mode: str = "auto") -> None:
        """Let the series write, as a person would."""
        async with self.resources.db.acquire() as db:
            series = await access.series_named(db, PLATFORM, SERIES)
            await access.promote(db, series, mode, by="test", why="a test", now=self.resources.now())

    async def series_id(self):
        async with self.resources.db.acquire() as db:
            return (await access.series_named(db, PLATFORM, SERIES)).id

    async def tell(self, data: dict[str, Any]) -> None:
        """Publish a finished task as a platform does."""
        await self.announce(data, key=f"{data['task_id']}:{data['status']}")

    async def announce(self, data: dict[str, Any], *, key: str) -> None:
        """Publish a finished task under any message id."""
        task = TaskFinished.model_validate(data)
        await self.js.store(event("task.finished", task, key=key, at=task.finished_at))

    async def stored(self, stream: str) -> list[Any]:
        """Return every message of a stream, in order."""
        context = self.js.client.jetstream()
        last = (await context.stream_info(stream)).state.last_seq
        found = []
        for sequence in range(1, last + 1):
            try:
                found.append(await context.get_msg(stream, sequence))
            except nats.js.errors.NotFoundError:
                continue
        return found

    async def events(self, stream: str) -> list[Event]:
        """Return every event of a stream, in order."""
        return [Event.model_validate_json(message.data) for message in await self.stored(stream)]

    def archived(self, key: str) -> Path:
        """Return the archive's file of a key."""
        return self.settings.data_dir / "archive" / key

    async def report(self, row: asyncpg.Record) -> dict[str, Any]:
        """Return a dream's report for programs."""
        key = row["report_key"].removesuffix(".md") + ".json"
        return dict(json.loads(await self.resources.archive.get(key)))

    def slot(self) -> Any:
        """Return what the platform's own book says of the slot."""
        return self.practice.book.slot.current(SERIES)

    def write_slot(self, text: str) -> None:
        """Put somebody else's text into the slot."""
        self.practice.book.slot.write(SERIES, None, {"text": text}, now="2026-01-01T00:00:00Z")

    def judge(self, task_id: str, verdict: str | None) -> None:
        """Change what the verifier said of a task's last attempt."""
        self.rewrite("run", task_id, lambda runs: runs[-1].update(verdict=verdict))
        self.rewrite_task(task_id, verdict=verdict)

    def rewrite_task(self, task_id: str, **changes: Any) -> None:
        """Change what the platform shows of a task itself."""
        with closing(sqlite3.connect(self.settings.data_dir / "platform" / "practice.sqlite")) as book, book:
            ((body,),) = book.execute("SELECT body FROM tasks WHERE id = ?", (task_id,))
            task = json.dumps(json.loads(body) | changes)
            book.execute("UPDATE tasks SET body = ? WHERE id = ?", (task, task_id))

    def rewrite(self, kind: str, task_id: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
        """Change what the platform recorded of a task, behind its back: `kind` is run, event or inquiry."""
        path = self.settings.data_dir / "platform" / "practice.sqlite"
        where = "FROM parts WHERE kind = ? AND task_id = ? ORDER BY number"
        with closing(sqlite3.connect(path)) as book, book:
            items = [json.loads(body) for (body,) in book.execute(f"SELECT body {where}", (kind, task_id))]
            change(items)
            book.execute("DELETE FROM parts WHERE kind = ? AND task_id = ?", (kind, task_id))
            book.executemany(
                "INSERT INTO parts VALUES (?, ?, ?, ?)",
                [(kind, task_id, number, json.dumps(item)) for number, item in enumerate(items, start=1)],
            )

    async def settled(self) -> None:
        """Wait until every consumer has had every message and none is under way."""
        context = self.js.client.jetstream()

        async def idle() -> bool:
            infos = [info for stream in STREAMS for info in await context.consumers_info(stream)]
            return not any(info.num_pending or info.num_ack_pending for info in infos)

        await until(idle, what="every message is dealt with")

    async def check_oracle(self) -> None:
        """Assert what has to hold after every fault."""
        open_ = await self.rows(
            "SELECT number, status FROM yume.dream_runs WHERE status IN ('queued', 'running')"
        )
        assert not open_
        assert await self.value(
            "SELECT count(*) = count(DISTINCT (lineage_id, revision)) FROM yume.lessons"
        ), "a lesson is there twice"
        written = await self.rows(
            "SELECT platform_version FROM yume.injections WHERE status = 'written' ORDER BY written_at"
        )
        versions = [int(row["platform_version"]) for row in written]
        assert versions == sorted(set(versions)), versions
        assert not await self.rows("SELECT id FROM yume.injections WHERE status = 'pending'")
        drafts = await self.rows(
            "SELECT lessons.id FROM yume.lessons JOIN yume.lesson_sets ON lessons.id = ANY (lesson_ids)"
            " WHERE lessons.state = 'draft'"
        )
        assert not drafts, "a draft stands in a lesson set"
        for row in await self.rows("SELECT raw_key, raw_sha256 FROM yume.runs WHERE raw_key IS NOT NULL"):
            assert hashlib.sha256(self.archived(row["raw_key"]).read_bytes()).hexdigest() == row["raw_sha256"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a world is made; `without` are steps that nobody serves until the test does.

    `copies` is how many orchestrators and workers a zone there are.
    """

    habits: Habits = KEEN
    seed: int = 1
    pitfalls: tuple[Pitfall, ...] = FEW
    ack_wait_s: float = 2
    without: tuple[str, ...] = ()
    copies: int = 1
    heal_every_s: float = 1
    stall_after_s: float = STALL_AFTER_S
    release_after_s: float = RELEASE_AFTER_S


MakeWorld = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def standstill() -> type[Standstill]:
    """Make calls that stand still the first time, until the test lets them go."""
    return Standstill


@pytest.fixture
async def auto(world: World) -> World:
    """A world whose series may write from its first dream on."""
    await world.promote()
    return world


@pytest.fixture
def told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an end that no worker tells, as that of a cancelled dream, told after one second, not five."""
    monkeypatch.setattr(orchestrator, "UNTOLD_AFTER", timedelta(seconds=1))


@pytest.fixture
def keen() -> Habits:
    """The habits of the platform where a test says nothing else."""
    return KEEN


@pytest.fixture
def spotless() -> Habits:
    """The habits of a platform on which nothing goes wrong."""
    return Habits(plain=1.0, slips=0.0, trouble=0.0)


@pytest.fixture
def open_world(tmp_path: Path, migrated_url: str, nats_url: str) -> MakeWorld:
    """Open a world that is made otherwise than usual."""

    def opened(**changes: Any) -> AbstractAsyncContextManager[World]:
        return world_in(tmp_path, migrated_url, nats_url, Plan(**changes))

    return opened


@pytest.fixture
async def world(open_world: MakeWorld) -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class Story:
    """A series' life: a dream that only reports, one that publishes, one that sees the effect."""

    world: World
    rows: tuple[asyncpg.Record, ...]
    slots: tuple[Any, ...]
    """What the platform's book said of the slot after each dream."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(
    postgres: Postgres, template: str, nats_url: str, server_folder: Path
) -> AsyncIterator[Story]:
    """Live the story once for all tests of the module that only look at it."""
    async with _world_apart(postgres, template, nats_url, server_folder, Plan()) as world:
        rows, slots = [], []
        for number in (1, 2, 3):
            rows.append(await world.dream(20))
            slots.append(world.slot())
            if number == 1:
                await world.promote()
        yield Story(world, tuple(rows), tuple(slots))


@pytest.fixture
def open_apart(postgres: Postgres, template: str, nats_url: str, server_folder: Path) -> MakeWorld:
    """Open a world with a database and a folder of its own: a test may open several, one after another."""

    def opened(**changes: Any) -> AbstractAsyncContextManager[World]:
        return _world_apart(postgres, template, nats_url, server_folder, Plan(**changes))

    return opened


@asynccontextmanager
async def _world_apart(
    postgres: Postgres, template: str, nats_url: str, server_folder: Path, plan: Plan
) -> AsyncIterator[World]:
    name = f"story_{secrets.token_hex(6)}"
    await _execute(postgres, f"CREATE DATABASE {name} TEMPLATE {template}")
    folder = server_folder / name
    folder.mkdir()
    async with world_in(folder, postgres.url.removesuffix("postgres") + name, nats_url, plan) as world:
        yield world
    await _execute(postgres, f"DROP DATABASE {name} WITH (FORCE)")


async def _execute(postgres: Postgres, statement: str) -> None:
    connection = await asyncpg.connect(postgres.url, ssl=False)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@asynccontextmanager
async def world_in(folder: Path, database_url: str, nats_url: str, plan: Plan) -> AsyncIterator[World]:
    settings = Settings(
        data_dir=folder,
        database_url=SecretStr(database_url),
        nats_url=SecretStr(nats_url),
        platform_allow_http=True,
        ack_wait_s=plan.ack_wait_s,
    )
    practice = Practice(
        folder / "platform", habits=plan.habits, seed=plan.seed, pitfalls=plan.pitfalls, name=PLATFORM
    )
    practice.add_series(SERIES)
    async with AsyncExitStack() as stack:
        stack.enter_context(closing(practice))
        base_url = await stack.enter_async_context(practice.serving())
        js = await stack.enter_async_context(jetstream.connect(nats_url, name="test"))
        resources = await stack.enter_async_context(open_resources(settings, "cli"))
        world = World(practice, settings, resources, js, Counting(), plan.copies)
        await clear(js)
        await operate.add_platform(
            settings,
            PLATFORM,
            base_url=base_url,
            export_token=SecretStr(practice.export_token),
            slot_token=SecretStr(practice.slot_token),
        )
        practice.callbacks = world.tell
        for _ in range(plan.copies):
            await stack.enter_async_context(orchestrating_on(settings, plan))
        steps = [stage.name for stage in STAGES if stage.name not in plan.without]
        await stack.enter_async_context(world.serving(*steps))
        yield world


async def clear(js: JetStream) -> None:
    context = js.client.jetstream()
    for info in await context.streams_info():
        await context.delete_stream(info.config.name)


@asynccontextmanager
async def orchestrating_on(settings: Settings, plan: Plan) -> AsyncIterator[None]:
    """Orchestrate as a plan says, in resources of its own."""
    async with (
        open_resources(settings, "orchestrator") as resources,
        orchestrating(
            resources=resources,
            nats_url=settings.nats_url.get_secret_value(),
            topology=of_deployment(settings),
            ack_wait_s=settings.ack_wait_s,
            sweep_every_s=0.1,
            heal_every_s=plan.heal_every_s,
            stall_after_s=plan.stall_after_s,
            release_after_s=plan.release_after_s,
        ),
    ):
        yield
