"""kill -9 of every single process in the middle of a dream, and of all of them together."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.dream.tasks import FEW
from yume import jetstream, operate
from yume.domain.dreams import REQUESTED
from yume.errors import YumeError
from yume.events import Event, TaskFinished, event
from yume.jetstream import JetStream
from yume.local import up
from yume.local.ports import LOOPBACK
from yume.local.practice import Habits, Practice
from yume.local.processes import Supervisor
from yume.local.zones import ZONES
from yume.pipeline import STAGES
from yume.resources import Resources, open_resources
from yume.settings import Settings, inherited
from yume.store import access

PLATFORM = "practice"
PROCESSES = ("nats", "postgres", *ZONES)
MOMENTS = 3
SIZE = 4
PATIENCE_S = 60
OF_SERIES = "FROM yume.dream_runs JOIN yume.series ON series.id = series_id WHERE external_id = $1"
SEED = 20_261_130
TIMES = {"ack_wait_s": 2, "stall_after_s": 5, "sweep_every_s": 1, "heal_every_s": 2}

# Every task fails first and nearly every one comes through: each series' first dream has lessons to write.
HABITS = Habits(plain=0, knows=0, discovers=0.9, slips=0, answers=0, proposes=0, trouble=0)


@dataclass
class System:
    """A Yume of real processes as its operator and its platform see it."""

    practice: Practice
    settings: Settings
    resources: Resources
    js: JetStream
    series: list[str] = field(default_factory=list)

    async def batch(self) -> str:
        """Have the platform run a batch of a series that may write, and tell Yume about it."""
        name = f"series-{len(self.series) + 1:02}"
        self.series.append(name)
        told: list[dict[str, Any]] = []

        async def keep(data: dict[str, Any]) -> None:
            told.append(data)

        self.practice.add_series(name)
        self.practice.callbacks = keep
        await self.practice.run_batch(name, SIZE)
        await patiently(lambda: self._let_write(name))
        for data in told:
            task = TaskFinished.model_validate(data)
            told_event = event(
                "task.finished", task, key=f"{task.task_id}:{task.status}", at=task.finished_at
            )
            await patiently(lambda told_event=told_event: self.js.store(told_event))
        return name

    async def _let_write(self, name: str) -> None:
        async with self.resources.db.acquire() as db:
            series = await access.series_named(db, PLATFORM, name)
            await access.promote(db, series, "auto", by="test", why="a test", now=self.resources.now())

    async def rows(self, query: str, *arguments: Any) -> list[Any]:
        async def ask() -> list[Any]:
            async with self.resources.db.acquire() as db:
                return list(await db.fetch(query, *arguments))

        return await patiently(ask)

    async def reached(self, name: str, step: str) -> str | None:
        """Wait until the series' dream has done a step, and return how far it really is."""
        found = f"SELECT step {OF_SERIES}"
        deadline = time.monotonic() + PATIENCE_S
        while not (rows := await self.rows(found, name)) or (rows[0]["step"] or REQUESTED) < step:
            assert time.monotonic() < deadline, f"{name} has not reached {step}"
            await asyncio.sleep(0.005)
        return rows[0]["step"]

    async def dreamt(self, name: str) -> float:
        """Wait until the series' dream has ended and that is told; return how long it took."""
        started = time.monotonic()
        while True:
            rows = await self.rows(
                f"SELECT number, status, step, announced, attempt, error {OF_SERIES}",
                name,
            )
            if [(row["status"], row["announced"]) for row in rows] == [("finished", "s9_measure")]:
                return time.monotonic() - started
            assert time.monotonic() < started + PATIENCE_S, f"{name}: {[dict(row) for row in rows]}"
            assert not [row for row in rows if row["status"] in ("failed", "cancelled")], dict(rows[0])
            await asyncio.sleep(0.05)

    async def check(self) -> None:
        """Assert what has to hold after every kill."""
        await self._check_dreams()
        await self._check_slots()
        lessons = await self.rows("SELECT id, lineage_id, revision FROM yume.lessons")
        assert len({(row["lineage_id"], row["revision"]) for row in lessons}) == len(lessons)
        drafts = "SELECT id FROM yume.lessons WHERE state = 'draft' AND id = ANY ("
        sets = "SELECT unnest(lesson_ids) FROM yume.lesson_sets"
        assert not await self.rows(f"{drafts}ARRAY({sets}))")

    async def _check_dreams(self) -> None:
        dreams = await self.rows(
            "SELECT external_id, number, status, counters FROM yume.dream_runs"
            " JOIN yume.series ON series.id = series_id ORDER BY 1, 2"
        )
        assert [(row["external_id"], row["number"], row["status"]) for row in dreams] == [
            (name, 1, "finished") for name in self.series
        ]
        assert {row["counters"]["tasks"] for row in dreams} == {SIZE}
        ended = [
            each.data["series"] for each in await self.events("dream") if each.type == "yume.dream.finished"
        ]
        assert sorted(ended) == self.series

    async def _check_slots(self) -> None:
        published = [each for each in await self.events("lessons") if each.type == "yume.lesson.published"]
        assert len({each.data["series"] for each in published}) == len(published)
        for name in self.series:
            slot = self.practice.book.slot.current(name)
            written = await self.rows(
                "SELECT platform_version, text FROM yume.injections"
                " JOIN yume.series ON series.id = injections.series_id"
                " LEFT JOIN yume.lesson_sets ON lesson_sets.id = lesson_set_id"
                " WHERE external_id = $1 AND status = 'written'",
                name,
            )
            assert [int(row["platform_version"]) for row in written] == list(range(1, slot.version + 1)), name
            assert not written or written[-1]["text"] == slot.text
            told = [each.data["platform_version"] for each in published if each.data["series"] == name]
            assert told == [row["platform_version"] for row in written]
        assert len(published) > len(self.series) / 2, "too few dreams had anything to write"

    async def events(self, stream: str) -> list[Event]:
        context = self.js.client.jetstream()
        last = (await context.stream_info(stream)).state.last_seq
        messages = [await context.get_msg(stream, number) for number in range(1, last + 1)]
        return [Event.model_validate_json(message.data) for message in messages]


async def patiently(act: Callable[[], Awaitable[Any]]) -> Any:
    """Do something that a server which is just being killed may refuse."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await act()
        except YumeError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


@asynccontextmanager
async def system_on(folder: Path, settings: Settings) -> AsyncIterator[System]:
    """Open the platform and the operator's view beside a Yume that runs."""
    async with AsyncExitStack() as stack:
        practice = Practice(folder / "platform", habits=HABITS, seed=3, pitfalls=FEW, name=PLATFORM)
        stack.enter_context(contextlib.closing(practice))
        base_url = await stack.enter_async_context(practice.serving())
        await operate.add_platform(
            settings,
            PLATFORM,
            base_url=base_url,
            export_token=SecretStr(practice.export_token),
            slot_token=SecretStr(practice.slot_token),
        )
        url = settings.nats_url.get_secret_value()
        js = await stack.enter_async_context(jetstream.connect(url, name="test"))
        resources = await stack.enter_async_context(open_resources(settings, "cli"))
        yield System(practice, settings, resources, js)


def pid_of(supervisor: Supervisor, name: str) -> int | None:
    return next(state.pid for state in supervisor.state() if state.name == name)


@pytest.fixture
def folder(server_folder: Path, request: pytest.FixtureRequest) -> Path:
    """A short path of this test's own: the servers live in it."""
    made = server_folder / request.node.name[:24]
    made.mkdir()
    return made


@dataclass(frozen=True, slots=True)
class Moment:
    """When a process is killed: so long after the dream has come so far."""

    process: str
    after: str
    delay_s: float


def moments(dice: random.Random) -> list[Moment]:
    """Draw for each process one moment at which the dream is in its hands, and others anywhere."""
    steps = [REQUESTED, *(stage.name for stage in STAGES)]
    own = {stage.zone: [] for stage in STAGES}
    for before, stage in zip(steps, STAGES, strict=False):
        own[stage.zone].append(before)
    drawn = [
        Moment(
            name, dice.choice(own.get(name, steps[:-1]) if number == 0 else steps[:-1]), dice.uniform(0, 0.05)
        )
        for name in PROCESSES
        for number in range(MOMENTS)
    ]
    dice.shuffle(drawn)
    return drawn


@pytest.mark.timeout(240)
async def test_a_dream_outlives_the_kill_of_any_process_at_any_moment(folder, capsys):
    settings = Settings(data_dir=folder, platform_allow_http=True, log_format="json", api_port=0, **TIMES)
    lines, hit = [f"seed {SEED}"], 0
    with up.ground(settings) as standing:
        async with up.up(standing) as supervisor, system_on(folder, standing.settings) as system:
            lines.append(f"start and first dream: {await system.dreamt(await system.batch()):.1f} s")
            for moment in moments(random.Random(SEED)):
                series = await system.batch()
                reached = await system.reached(series, moment.after)
                await asyncio.sleep(moment.delay_s)
                killed = await kill(supervisor, moment.process)
                waited = await system.dreamt(series)
                hit += waited > 0.1
                lines.append(f"{moment.process:12} killed at {reached or '-':12} over {waited:4.1f} s later")
                await running_again(supervisor, moment.process, killed)
            await system.check()
            restarts = {state.name: state.restarts for state in supervisor.state()}
    with capsys.disabled():
        print("", *lines, sep="\n")  # noqa: T201  # how long each recovery took
    assert all(restarts[name] >= MOMENTS for name in PROCESSES), restarts
    assert hit > len(PROCESSES) * MOMENTS / 2, "most kills came after the dream was over"


async def kill(supervisor: Supervisor, name: str) -> int:
    pid = pid_of(supervisor, name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


async def running_again(supervisor: Supervisor, name: str, killed: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while pid_of(supervisor, name) in (None, killed):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_everything_killed_at_once_goes_on_where_it_was_on_the_same_folder(folder, capsys):
    async with AsyncExitStack() as stack:
        operator = stack.enter_context(running_up(folder))
        system = await stack.enter_async_context(system_on(folder, settings_of(folder)))
        series = await system.batch()
        reached = await system.reached(series, "s2_extract")
        operator.kill()
        operator.wait()
        killed = time.monotonic()
        await nobody_left(folder)
        gone = time.monotonic()
        stack.enter_context(running_up(folder))
        await system.dreamt(series)
        over = time.monotonic()
        await system.check()
    with capsys.disabled():
        print(f"\nall killed at {reached}: gone after {gone - killed:.1f} s")  # noqa: T201  # a figure to keep
        print(f"started again: the dream was over {over - gone:.1f} s later")  # noqa: T201  # as above


@contextlib.contextmanager
def running_up(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `yume up` and wait until it says that everything runs; stop it at the end."""
    values = {"data_dir": folder, "platform_allow_http": "true", "log_format": "json", "api_port": 0} | TIMES
    env = dict(inherited()) | {f"YUME_{name.upper()}": str(value) for name, value in values.items()}
    command = [sys.executable, "-m", "yume.cli", "up"]
    with (folder / "up.log").open("a") as log:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    with process.stdout:
        while not (line := process.stdout.readline()).startswith("logs in"):
            assert line, (folder / "up.log").read_text()[-2000:]
        yield process
        process.terminate()
        process.wait(30)


def settings_of(folder: Path) -> Settings:
    """Return what the processes of an embedded Yume were given."""
    postgres = (
        f"postgresql://postgres@{LOOPBACK}:{(folder / 'postgres' / 'port').read_text().strip()}/postgres"
    )
    nats = f"nats://{LOOPBACK}:{(folder / 'nats' / 'port').read_text().strip()}"
    return Settings(
        data_dir=folder, database_url=SecretStr(postgres), nats_url=SecretStr(nats), platform_allow_http=True
    )


async def nobody_left(folder: Path) -> None:
    """Wait until no process of that folder lives: neither a zone nor a server."""

    def those() -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                told = (process / "environ").read_bytes() + str((process / "cwd").readlink()).encode()
                if str(folder).encode() in told and process.name != str(os.getpid()):
                    found.append(process.name)
        return found

    deadline = time.monotonic() + PATIENCE_S
    while alive := those():
        assert time.monotonic() < deadline, f"still alive: {alive}"
        await asyncio.sleep(0.05)
