"""A Yume whose parts stop and start at any moment, on a clock that a test moves, and what it has to obey."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from tests.dream.conftest import KEEN, PLATFORM, SERIES, Counting, Plan, World, clear, orchestrating_on, until
from tests.dream.tasks import FEW
from yume import jetstream, operate
from yume.local.practice import Practice
from yume.local.practice.transcript import timestamp
from yume.pipeline import STAGES
from yume.resources import open_resources
from yume.settings import Settings
from yume.store import access

MAX_WAIT = timedelta(hours=1)
LOOK_AGAIN = timedelta(minutes=2)
CALM = Plan(heal_every_s=3600)  # streams are lost elsewhere
DURABLES = ("tasks", "dream", "lessons")
ZONES = {zone: tuple(each.name for each in STAGES if each.zone == zone) for zone in {s.zone for s in STAGES}}
PARTS = ("orchestrator", *sorted(ZONES))
MOMENT = timedelta(seconds=1)  # what a person does while a write is on its way may come too late for it
BY_COMMAND = ("rolled_back: ", "killed: ")

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Clock:
    """The one clock of Yume and of its platform: a test moves it on, never back."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.offset  # noqa: TID251  # what everybody's time is made from


@dataclass
class Record:
    """All that the platform shows of one task; what a Book takes for a transcript."""

    task: dict[str, Any]
    runs: list[dict[str, Any]]
    events: list[dict[str, Any]]
    inquiries: list[dict[str, Any]]
    proposals: list[dict[str, Any]] = field(default_factory=list)

    def retold(self, task_id: str, batch_id: str | None, *, version: int, text: str, now: datetime) -> Record:
        """Return the same course of another task that has ended just now, started with this version."""
        shift = now - _moment(self.task["finished_at"])
        whole = json.dumps([self.task, self.runs, self.events, self.inquiries])
        whole = whole.replace(self.task["id"], task_id)
        whole = _TIME.sub(lambda found: timestamp(_moment(found[0]) + shift), whole)
        task, runs, events, inquiries = json.loads(whole)
        task |= {"batch_id": batch_id, "series_id": SERIES}
        for run in runs:
            run["memory_version"] = version
        if text:
            note = {"kind": "memory", "run_id": None, "text": text, "data": {"version": version}}
            events.insert(1, {"at": task["started_at"], **note})
        return Record(task, runs, events, inquiries)


async def recorded(folder: Path, size: int) -> list[Record]:
    """Let a platform really run a batch once, and return what it shows of each task."""
    with closing(Practice(folder, habits=KEEN, seed=3, pitfalls=FEW)) as practice:
        tasks = await practice.run_batch(SERIES, size)

        def parts(kind: str, task: dict[str, Any]) -> list[dict[str, Any]]:
            return [item for _, item in practice.book.parts(kind, [task["id"]], (), 1000)]

        return [Record(each, *(parts(kind, each) for kind in ("run", "event", "inquiry"))) for each in tasks]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


class Part:
    """A part of Yume in a task of its own: whoever stops it need not be who started it."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._opened = opened
        self._stopping = asyncio.Event()
        self._living: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when it is up."""
        self._stopping.clear()
        up = asyncio.Event()
        self._living = asyncio.create_task(self._live(up))
        await asyncio.wait(
            [self._living, waiting := asyncio.ensure_future(up.wait())], return_when="FIRST_COMPLETED"
        )
        waiting.cancel()
        if self._living.done():
            self._living.result()

    async def stop(self) -> None:
        """Return when it is gone; what it had under way is finished."""
        self._stopping.set()
        if self._living is not None:
            await self._living

    async def _live(self, up: asyncio.Event) -> None:
        async with self._opened():
            up.set()
            await self._stopping.wait()


@dataclass(frozen=True, slots=True)
class Seen:
    """What was so, as far as the test knows for sure, when the slot was last read before a write of it."""

    mode: str
    open: frozenset[str]
    at: datetime


@dataclass
class Life:
    """One series' life as its platform and its owner know it, beside the Yume that has to keep up."""

    world: World
    clock: Clock
    parts: dict[str, Part]
    mode: str = "report_only"
    open: dict[str, datetime] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    late: list[dict[str, Any]] = field(default_factory=list)
    writes: dict[int, Seen] = field(default_factory=dict)
    copies: int = 0

    def open_now(self) -> frozenset[str]:
        """Return the named batches that Yume is known to know of, and that still forbid a write."""
        now = self.clock.now()
        return frozenset(name for name, since in self.open.items() if now < since + MAX_WAIT)

    def watch_slot(self) -> None:
        """Keep with each new version of the slot what was so when the slot was read before."""
        slot = self.world.practice.book.slot
        read, write = slot.current, slot.write
        seen = Seen(self.mode, frozenset(), self.clock.now())

        def reading(series: str) -> Any:
            nonlocal seen
            seen = Seen(self.mode, self.open_now(), self.clock.now())
            return read(series)

        def writing(series: str, key: str | None, body: Any, *, now: str) -> dict[str, Any]:
            before = seen
            answer: dict[str, Any] = write(series, key, body, now=now)
            self.writes.setdefault(answer["version"], before)
            return answer

        slot.current, slot.write = reading, writing

    async def finish(
        self, records: Sequence[Record], batch_id: str | None, *, prefix: str
    ) -> list[dict[str, Any]]:
        """Let the platform run tasks to their end, and return the callbacks that it has to make."""
        slot, told = self.world.slot(), []
        for number, course in enumerate(records):
            name = f"{prefix}-{number:02d}"
            record = course.retold(name, batch_id, version=slot.version, text=slot.text, now=self.clock.now())
            self.world.practice.book.start(record.task | {"status": "running", "finished_at": None})
            self.world.practice.book.finish(record)
            callback = {name: record.task[name] for name in ("status", "finished_at", "batch_id")}
            told.append({"platform": PLATFORM, "series": SERIES, "task_id": name, **callback})
        return told

    async def call_back(self, callback: dict[str, Any]) -> None:
        """Publish a callback; the same one again is a copy that NATS cannot know as one."""
        if callback.get("batch_finished"):
            self.open.pop(callback["batch_id"], None)
        self.copies += 1
        self.told.add(callback["task_id"])
        await self.world.announce(callback, key=f"{callback['task_id']}:{self.copies}")

    async def learn_open(self) -> None:
        """Wait until every callback is noted, and learn which batches Yume knows to be open."""
        await until(self._all_noted, what="every callback is noted")
        rows = await self.world.rows(
            "SELECT batch_id, min(announced_at) AS since FROM yume.runs WHERE announced_at IS NOT NULL"
            " AND batch_id IS NOT NULL GROUP BY batch_id HAVING NOT bool_or(ends_batch)"
        )
        self.open = {row["batch_id"]: row["since"] for row in rows}

    async def _all_noted(self) -> bool:
        noted = await self.world.value("SELECT count(*) FROM yume.runs WHERE task_id = ANY ($1)", self.told)
        return bool(noted == len(self.told)) and await self._idle("tasks")

    async def _idle(self, *streams: str) -> bool:
        context = self.world.js.client.jetstream()
        infos = [info for stream in streams for info in await context.consumers_info(stream)]
        return not any(info.num_pending or info.num_ack_pending for info in infos)

    async def settled(self) -> None:
        """Wait until nothing is left to do but what waits for an open batch."""
        try:
            await until(self._settled, what="everything is dealt with", timeout_s=40)
        except AssertionError as late:
            raise AssertionError(f"{late}: {await self._state()}") from None
        await self.learn_open()
        self.mode = await self.world.value("SELECT mode FROM yume.series")

    async def _settled(self) -> bool:
        if await self._due() or not await self._idle(*DURABLES) or await self._due():
            return False
        if await self._waits() and not self.open_now():
            self.clock.offset += LOOK_AGAIN + timedelta(seconds=1)  # its end came while the wait was noted
            return False
        return True

    async def _due(self) -> bool:
        """Say whether anything is under way but a dream that waits to write, and those behind it."""
        waits = await self._waits()
        open_dreams = await self.world.rows(
            "SELECT status FROM yume.dream_runs WHERE status IN ('queued', 'running')"
        )
        busy = [row for row in open_dreams if row["status"] == "running" or not waits]
        untold = await self.world.value(
            "SELECT count(*) FROM yume.dream_runs WHERE status IN ('finished', 'failed', 'cancelled')"
            " AND announced IS DISTINCT FROM 's9_measure'"
        )
        commands = await self.world.value(
            "SELECT count(*) FROM yume.injections WHERE kind <> 'write' AND NOT announced"
        )
        return bool(len(busy) > (1 if waits else 0) or untold or commands or await self._pending())

    async def _pending(self) -> int:
        return int(await self.world.value("SELECT count(*) FROM yume.injections WHERE status = 'pending'"))

    async def _waits(self) -> bool:
        """Say whether a dream stands before its write, put off by a good while."""
        now = self.clock.now()
        return bool(
            await self.world.value(
                "SELECT count(*) FROM yume.dream_runs WHERE status = 'running' AND step = 's7_compile'"
                " AND not_before > $1",
                now + timedelta(seconds=30),
            )
        )

    async def _state(self) -> str:
        dreams = await self.world.rows(
            "SELECT number, trigger, status, step, announced, attempt, not_before, result, reason, error"
            " FROM yume.dream_runs ORDER BY number"
        )
        slot = await self.world.rows("SELECT kind, status, announced, error FROM yume.injections")
        open_ = sorted(self.open_now())
        return "\n".join(map(str, [*map(dict, dreams), *map(dict, slot), open_, self.clock.now()]))


@asynccontextmanager
async def life_in(folder: Path, database_url: str, nats_url: str, clock: Clock) -> AsyncIterator[Life]:
    """Open a life from its first day: empty tables, no streams, a platform that has run nothing."""
    settings = Settings(
        data_dir=folder,
        database_url=SecretStr(database_url),
        nats_url=SecretStr(nats_url),
        platform_allow_http=True,
        ack_wait_s=2,
    )
    async with AsyncExitStack() as stack:
        practice = Practice(folder / "platform", pitfalls=FEW, name=PLATFORM, clock=clock.now)
        stack.enter_context(closing(practice))
        practice.add_series(SERIES)
        base_url = await stack.enter_async_context(practice.serving())
        js = await stack.enter_async_context(jetstream.connect(nats_url, name="test"))
        resources = await stack.enter_async_context(open_resources(settings, "cli"))
        await clear(js)
        await operate.add_platform(
            settings,
            PLATFORM,
            base_url=base_url,
            export_token=SecretStr(practice.export_token),
            slot_token=SecretStr(practice.slot_token),
        )
        world = World(practice, settings, resources, js, Counting())
        async with resources.db.acquire() as db:
            series = await access.series_named(db, PLATFORM, SERIES)
            await db.execute("UPDATE yume.series SET batch_max_wait = $2 WHERE id = $1", series.id, MAX_WAIT)
        parts = {"orchestrator": Part(lambda: orchestrating_on(settings, CALM))}
        for zone, steps in ZONES.items():
            parts[zone] = Part(lambda steps=steps: world.serving(*steps))
        life = Life(world, clock, parts)
        life.watch_slot()
        await parts["orchestrator"].start()
        stack.push_async_callback(_stop, parts)
        await asyncio.gather(*(parts[zone].start() for zone in ZONES))
        yield life


async def _stop(parts: dict[str, Part]) -> None:
    await asyncio.gather(*(part.stop() for part in parts.values()))


async def check(life: Life) -> None:
    """Assert all that has to hold whenever a life has come to rest."""
    await _check_batches(life)
    await _check_versions(life)
    await _check_lessons(life)
    await _check_stickiness(life)
    await _check_commands(life)
    for version, seen in life.writes.items():
        if await _kind_of(life, version) == "write":
            assert not seen.open, f"version {version} was written while {sorted(seen.open)} was open"
            assert seen.mode != "report_only", f"version {version} was written in report_only"
    assert not await life.world.stored("dead"), [m.headers for m in await life.world.stored("dead")]
    assert await life.world.value("SELECT count(*) FROM yume.injections WHERE status = 'pending'") == 0
    for status in ("running", "collecting"):
        count = "SELECT count(*) FROM yume.dream_runs WHERE status = $1"
        assert await life.world.value(count, status) <= 1


async def _check_batches(life: Life) -> None:
    """A task that was told has a row with a dream, and a dream that has ended had each task once."""
    rows = await life.world.rows(
        "SELECT task_id, dream_id, pulled_at, dream_runs.status, replay_of, batch_id IS NOT NULL AS named"
        " FROM (SELECT task_id, dream_id, pulled_at FROM yume.runs) AS runs"
        " LEFT JOIN yume.dream_runs ON dream_runs.id = dream_id"
    )
    found = {row["task_id"]: row for row in rows}
    assert len(found) == len(rows)
    lost = sorted(life.told - found.keys())
    assert not lost, f"nobody knows of the tasks {lost}"
    for name, row in found.items():
        assert row["dream_id"] is not None, f"task {name} has no dream"
        assert row["replay_of"] is None, f"task {name} is a replay's"
        assert row["status"] != "queued" or life.open_now(), f"task {name} waits for nothing"
    pulled = await life.world.rows(
        "SELECT number, status, dream_runs.id FROM yume.dream_runs WHERE status = 'finished'"
        " AND EXISTS (SELECT FROM yume.runs WHERE dream_id = dream_runs.id AND pulled_at IS NULL)"
    )
    assert not pulled, f"dream {pulled[0]['number']} has finished without some of its tasks"


async def check_nothing_left(life: Life, before: datetime) -> None:
    """Assert that every task which the platform ended before an instant was pulled by a dream that ended."""
    rows = await life.world.rows(
        "SELECT task_id FROM yume.runs JOIN yume.dream_runs ON dream_runs.id = dream_id"
        " WHERE pulled_at IS NOT NULL AND dream_runs.status IN ('finished', 'failed', 'cancelled')"
    )
    wanted = {"series_id": SERIES, "ids": None, "terminal": True, "finished_after": None}
    wanted |= {"finished_before": timestamp(before)}
    tasks = {item["id"] for _, item in life.world.practice.book.tasks(wanted, (), 10_000)}
    left = sorted(tasks - {row["task_id"] for row in rows})
    assert not left, f"{len(left)} tasks were never reviewed: {left}; {await life._state()}"  # noqa: SLF001


async def _versions(life: Life) -> list[Any]:
    """Return what Yume's rows say was written, in order."""
    return await life.world.rows(
        "SELECT injections.id, kind, how, platform_version, requested_at, written_at, lesson_ids,"
        " lesson_sets.text, lesson_sets.text_sha256 AS digest FROM yume.injections"
        " JOIN yume.lesson_sets ON lesson_sets.id = lesson_set_id"
        " WHERE status = 'written' ORDER BY written_at, injections.id"
    )


async def _kind_of(life: Life, version: int) -> str:
    made = [
        each
        for each in await _versions(life)
        if each["platform_version"] == str(version) and each["how"] != "current"
    ]
    return made[0]["kind"] if made else "nobody"


async def _check_versions(life: Life) -> None:
    """Each version of the platform's is one row of Yume's with the same text, and they only grow."""
    rows = await _versions(life)
    made = Counter(row["platform_version"] for row in rows if row["how"] != "current")
    there = {str(each) for each in range(1, life.world.slot().version + 1)}
    assert made == Counter(there), f"the platform has {sorted(there)}, Yume wrote {dict(made)}"
    numbers = [int(row["platform_version"]) for row in rows]
    assert numbers == sorted(numbers), numbers
    for row in rows:
        version = life.world.practice.book.slot._version(SERIES, int(row["platform_version"]))  # noqa: SLF001
        assert version.text == row["text"], f"version {version.version} is not the text that Yume wrote"
        assert hashlib.sha256(version.text.encode()).hexdigest() == row["digest"] == version.sha256


async def _check_lessons(life: Life) -> None:
    """Nothing stood in a slot that was not approved when it got there; what left since was a person's act."""
    lessons = {
        row["id"]: row for row in await life.world.rows("SELECT id, state, origin, history FROM yume.lessons")
    }
    rows = await _versions(life)
    for row in rows:
        seen = life.writes.get(int(row["platform_version"]))
        since = seen.at - MOMENT if row["kind"] == "write" and seen else row["written_at"]
        for each in row["lesson_ids"]:
            history = lessons[each]["history"]
            assert _approved(history, since, row["written_at"]), (
                f"lesson {each} was not approved when version {row['platform_version']} was written by a"
                f" {row['kind']} at {row['written_at']}: {history}"
            )
    for each in rows[-1]["lesson_ids"] if rows else ():
        moves = [move for move in lessons[each]["history"] if _moment(move["at"]) > rows[-1]["written_at"]]
        by_person = any(move["by"] == "owner" for move in moves)
        assert lessons[each]["state"] == "approved" or by_person, f"lesson {each}: {moves}"


def _approved(history: Sequence[dict[str, Any]], since: datetime, until_: datetime) -> bool:
    """Say whether a lesson was approved at any instant between the two."""
    state = "draft"
    for move in history:
        at = _moment(move["at"])
        if at > until_:
            break
        if at > since and state == "approved":
            return True
        state = move["to"]
    return state == "approved"


async def _check_stickiness(life: Life) -> None:
    """What a person went back to stays until a lesson is approved or retired by something else than that."""
    rows = await _versions(life)
    histories = await life.world.rows("SELECT history FROM yume.lessons")
    moves = [move for row in histories for move in row["history"]]
    for before, after in pairwise(rows):
        if before["kind"] not in ("rollback", "kill") or after["kind"] != "write":
            continue
        new = [
            move
            for move in moves
            if before["requested_at"] < _moment(move["at"]) <= after["written_at"]
            and not move["why"].startswith(BY_COMMAND)
            and "approved" in (move["to"], move["from"])
        ]
        assert new, (
            f"nothing new was learnt, and version {after['platform_version']} took the place of"
            f" version {before['platform_version']}, a {before['kind']}"
        )


async def _check_commands(life: Life) -> None:
    """No dream starts while a person's command waits, and none goes on that it has found at work."""
    crossed = await life.world.rows(
        "SELECT number, dream_runs.status, kind FROM yume.injections JOIN yume.dream_runs USING (series_id)"
        " WHERE kind IN ('rollback', 'kill') AND injections.status = 'written'"
        " AND started_at < written_at AND (started_at > requested_at OR finished_at IS NULL"
        " OR finished_at > written_at)"
    )
    assert not crossed, f"dreams that went on beside a command: {[dict(each) for each in crossed]}"
