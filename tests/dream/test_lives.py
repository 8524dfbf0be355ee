"""Random lives of a series against real servers: whatever happens in whatever order, the invariants hold.

The short run is five lives of twelve events, after some that once went wrong. A long one, with shrinking:
`python3 dev test tests/dream/test_lives.py --hypothesis-profile=long`; `--hypothesis-seed=N` repeats a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.dream.conftest import PLATFORM, SERIES, until
from tests.dream.lives import (
    MAX_WAIT,
    PARTS,
    Clock,
    Life,
    Record,
    check,
    check_nothing_left,
    life_in,
    recorded,
)
from yume import timer
from yume.acts import dreams as dream_acts
from yume.acts import releases, replays
from yume.acts import slot as slot_acts
from yume.domain import rounds
from yume.errors import PermanentError
from yume.events import ReplayRequested, event
from yume.ids import LessonId, new_id
from yume.resources import Resources
from yume.store import access, lessons
from yume.store import dreams as dream_store

LIVES, EVENTS, TURNS = 5, 12, 10
LONG = settings.get_current_profile_name() == "long"
RECORDS = 16
UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
BY, WHY = "owner", "a life"
PLACE = st.integers(0, 1000)
PLACES = st.lists(st.none() | PLACE, min_size=1, max_size=2)
RECORD = st.integers(0, RECORDS - 1)
MODES = ("auto", "auto", "auto", "gated", "report_only")
FATES = ("told", "told", "told", "twice", "late", "lost")


@dataclass(frozen=True, slots=True)
class Ground:
    """What all lives of the module share."""

    folder: Path
    postgres_url: str
    template: str
    nats_url: str
    records: list[Record]
    clock: Clock


class Lives(RuleBasedStateMachine):
    """One life; a rule is what the platform, the owner, an operator or chance may do next."""

    def __init__(self, ground: Ground) -> None:
        super().__init__()
        self.ground, self.broken, self.batches = ground, False, 0
        self.runner = asyncio.Runner()
        self.stack = contextlib.AsyncExitStack()
        self.living: asyncio.Task[None] | None = None
        self.database = f"life_{secrets.token_hex(6)}"
        self.life: Life = self.run(self.begin())

    def run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self.runner.run(doing)
        except BaseException:
            self.broken = True
            raise

    async def begin(self) -> Life:
        self.ground.clock.offset = timedelta()
        await self.execute(f"CREATE DATABASE {self.database} TEMPLATE {self.ground.template}")
        folder = self.ground.folder / self.database
        folder.mkdir()
        url = self.ground.postgres_url.removesuffix("postgres") + self.database
        born: asyncio.Future[Life] = asyncio.get_running_loop().create_future()
        self.dying = asyncio.Event()

        async def live() -> None:
            async with life_in(folder, url, self.ground.nats_url, self.ground.clock) as life:
                born.set_result(life)
                await self.dying.wait()

        self.living = asyncio.create_task(live())
        await asyncio.wait([self.living, born], return_when="FIRST_COMPLETED")
        if self.living.done():
            self.living.result()
        return await born

    async def execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.ground.postgres_url, ssl=False)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    def teardown(self) -> None:
        try:
            if not self.broken:
                self.run(self.last_day())
        finally:
            with self.runner:
                self.runner.run(self.end())

    async def last_day(self) -> None:
        """End what is open, review what is left: then no task may be missing."""
        await self.late_ones()
        self.ground.clock.offset += MAX_WAIT + timedelta(seconds=1)
        await dream_acts.start_now(PLATFORM, SERIES, self.resources, by=BY, why=WHY)
        await self.rest()
        await check_nothing_left(self.life, self.ground.clock.now())

    async def end(self) -> None:
        self.dying.set()
        if self.living is not None:
            await self.living
        await self.execute(f"DROP DATABASE {self.database} WITH (FORCE)")

    @property
    def resources(self) -> Resources:
        return self.life.world.resources

    def act(self, doing: Coroutine[Any, Any, Any], *, rests: bool) -> None:
        """Do something; then perhaps wait until all is quiet, and look."""

        async def all_of_it() -> None:
            await doing
            if rests:
                await self.rest()

        self.run(all_of_it())

    def ask(self, doing: Coroutine[Any, Any, Any], *, rests: bool) -> None:
        """Ask for something that Yume may refuse with a reason."""

        async def asked() -> None:
            with contextlib.suppress(PermanentError):
                await doing

        self.act(asked(), rests=rests)

    async def rest(self) -> None:
        await self.life.settled()
        await check(self.life)

    async def late_ones(self) -> None:
        late, self.life.late = self.life.late, []
        for callback in late:
            await self.life.call_back(callback)
        await self.life.learn_open()

    @initialize(
        mode=st.sampled_from(MODES),
        versions=st.integers(0, 3),
        which=st.lists(RECORD, min_size=4, max_size=6),
        rests=st.booleans(),
    )
    def life_begins(self, mode, versions, which, rests):
        """Give the series a past, so that a short life has something to go back to."""
        self.a_person_sets_the_mode("auto", rests=False)
        for number in range(versions):
            self.an_owner_writes_a_rule(number, rests=False)
            self.a_person_releases(rests=True)
        self.a_person_sets_the_mode(mode, rests=False)
        self.a_whole_batch_is_run(which, named=False, rests=rests)

    @rule(which=st.lists(RECORD, min_size=2, max_size=6), named=st.booleans(), rests=st.booleans())
    def a_whole_batch_is_run(self, which, named, rests):
        self.act(
            self.tasks(self.name(named=named), [(each, "told") for each in which], ends=True), rests=rests
        )

    @rule(which=st.lists(RECORD, min_size=1, max_size=3), rests=st.booleans())
    def a_batch_is_begun(self, which, rests):
        """Name a batch and leave it open."""
        told = [(each, "told") for each in which]
        self.act(self.tasks(self.name(named=True), told, ends=False), rests=rests)

    def name(self, *, named):
        """Return the name of a new batch, if it has one."""
        self.batches += 1
        return f"batch-{self.batches}" if named else None

    @rule(
        which=st.lists(st.tuples(RECORD, st.sampled_from(FATES)), min_size=1, max_size=6),
        named=st.booleans(),
        anew=st.booleans(),
        ends=st.booleans(),
        order=st.randoms(use_true_random=False),
        rests=st.booleans(),
    )
    def tasks_finish(self, *, which, named, anew, ends, order, rests):
        name = self.name(named=named)
        if named and not anew and self.life.open:
            name = min(self.life.open)
        self.act(self.tasks(name, which, ends=ends, order=order), rests=rests)

    async def tasks(self, name, which, *, ends, order=None):
        """Let tasks finish, each with what becomes of its callback."""
        records = [self.ground.records[number] for number, _ in which]
        callbacks = await self.life.finish(records, name, prefix=f"task-{self.batches:03d}")
        callbacks[-1] |= {"batch_finished": True} if ends else {}
        now: list[dict[str, Any]] = []
        for callback, (_, fate) in zip(callbacks, which, strict=True):
            now += {"told": [callback], "twice": [callback] * 2}.get(fate, [])
            self.life.late += [callback] if fate == "late" else []
        if order is not None:
            order.shuffle(now)
        for callback in now:
            await self.life.call_back(callback)
        await self.life.learn_open()

    @rule(rests=st.booleans())
    def callbacks_come_late(self, rests):
        self.act(self.late_ones(), rests=rests)

    @rule(place=PLACE, rests=st.booleans())
    def a_batch_ends(self, place, rests):
        async def doing() -> None:
            rows = await self.life.world.rows(
                "SELECT task_id, status, finished_at, batch_id FROM yume.runs WHERE announced_at IS NOT NULL"
                " ORDER BY (batch_id = ANY ($1)) DESC NULLS LAST, task_id",
                sorted(self.life.open),
            )
            if rows:
                row = rows[place % max(1, len(self.life.open))]
                about = {"platform": PLATFORM, "series": SERIES, "batch_finished": True}
                await self.life.call_back(dict(row) | about)
                await self.life.learn_open()

        self.act(doing(), rests=rests)

    @rule(rests=st.booleans())
    def a_person_starts_a_dream(self, rests):
        self.act(dream_acts.start_now(PLATFORM, SERIES, self.resources, by=BY, why=WHY), rests=rests)

    @rule(rests=st.booleans())
    def time_passes(self, rests):
        async def doing() -> None:
            await self.rest()
            before = self.ground.clock.now()
            self.ground.clock.offset += MAX_WAIT + timedelta(seconds=1)
            await self.looked_at(before)
            await self.rest()
            await check_nothing_left(self.life, before)

        self.act(doing(), rests=rests)

    async def looked_at(self, before):
        """Wait until a batch was closed since: by its age, or because nobody had looked for so long."""
        closed = "SELECT count(*) FROM yume.dream_runs WHERE closed_at > $1 AND trigger <> 'release'"

        async def found() -> bool:
            return bool(await self.life.world.value(closed, before))

        await until(found, what="the export is looked at", timeout_s=10)

    @rule(place=PLACE, rests=st.booleans())
    def a_person_approves(self, place, rests):
        self.act(self.move(place, "draft", "approved"), rests=rests)

    @rule(place=PLACE, rests=st.booleans())
    def a_person_retires(self, place, rests):
        self.act(self.move(place, "approved", "retired"), rests=rests)

    async def move(self, place, source, target):
        async with self.resources.db.acquire() as db:
            series = await access.series_named(db, PLATFORM, SERIES)
            there = await lessons.lessons_in(db, series.id, source)
            if there:
                lesson, now = there[place % len(there)].id, self.resources.now()
                await lessons.move(db, lesson, source, target, by=BY, why=WHY, now=now)

    @rule(place=PLACE, rests=st.booleans())
    def an_owner_writes_a_rule(self, place, rests):
        async def doing() -> None:
            async with self.resources.db.acquire() as db:
                series, now = await access.series_named(db, PLATFORM, SERIES), self.resources.now()
                rule = f"Keep the names of {place} files as they are."
                await lessons.add_owners_rule(
                    db, LessonId(new_id()), series.id, rule, by=BY, why=WHY, now=now
                )

        self.act(doing(), rests=rests)

    @rule(rests=st.booleans())
    def a_person_releases(self, rests):
        self.ask(releases.release_now(PLATFORM, SERIES, self.resources, by=BY, why=WHY), rests=rests)

    @rule(rests=st.booleans())
    def the_timer_releases(self, rests):
        self.act(timer.open_releases(self.resources, timedelta(0)), rests=rests)

    @rule(places=PLACES, rests=st.booleans())
    def a_person_rolls_back(self, places, rests):
        self.ask(self.back(places), rests=rests)

    @rule(places=PLACES, rests=st.booleans())
    def a_dream_follows_a_rollback(self, places, rests):
        self.ask(self.back(places), rests=True)
        self.a_person_starts_a_dream(rests=rests)

    async def back(self, places):
        """Ask for old versions, each before the one before can have been carried out."""
        held = await self.life.world.rows(
            "SELECT DISTINCT version FROM yume.lesson_sets JOIN yume.injections"
            " ON lesson_set_id = lesson_sets.id WHERE status = 'written' ORDER BY version"
        )
        for place in places if held else ():
            to = None if place is None else held[place % len(held)]["version"]
            await slot_acts.rollback(PLATFORM, SERIES, to, self.resources, by=BY, why=WHY)

    @rule(everything=st.booleans(), rests=st.booleans())
    def a_person_kills(self, everything, rests):
        self.ask(
            slot_acts.kill(PLATFORM, SERIES, self.resources, everything=everything, by=BY, why=WHY),
            rests=rests,
        )

    @rule(mode=st.sampled_from(MODES), rests=st.booleans())
    def a_person_sets_the_mode(self, mode, rests):
        async def doing() -> None:
            if mode != "report_only":
                self.life.mode = mode
            async with self.resources.db.acquire() as db:
                series, now = await access.series_named(db, PLATFORM, SERIES), self.resources.now()
                await access.promote(db, series, mode, by=BY, why=WHY, now=now)
            self.life.mode = mode

        self.act(doing(), rests=rests)

    @rule(place=PLACE, rests=st.booleans())
    def a_person_cancels(self, place, rests):
        async def doing() -> None:
            rows = await self.life.world.rows(
                "SELECT number FROM yume.dream_runs WHERE status IN ('queued', 'running', 'collecting')"
                " ORDER BY status DESC, number"
            )
            if rows:
                number = rows[place % len(rows)]["number"]
                await dream_acts.cancel(PLATFORM, SERIES, number, self.resources, by=BY, why=WHY)

        self.ask(doing(), rests=rests)

    @rule(
        place=PLACE,
        step=st.sampled_from(replays.STEPS),
        applies=st.booleans(),
        rests=st.booleans(),
    )
    def a_dream_is_replayed(self, place, step, applies, rests):
        async def doing() -> None:
            rows = await self.life.world.rows("SELECT number FROM yume.dream_runs ORDER BY number")
            if not rows:
                return
            async with self.resources.db.acquire() as db:
                series = await access.series_named(db, PLATFORM, SERIES)
                number = rows[place % len(rows)]["number"]
                original = await dream_store.dream_numbered(db, series.id, number)
                root = original.replay_of and await dream_store.dream_named(db, original.replay_of)
                replays.check(root or original, replays.step_named(step), applies=applies)
            asked = ReplayRequested(
                platform=PLATFORM,
                series=SERIES,
                dream_id=original.id,
                from_step=step,
                key=f"again-{place}",
                applies=applies,
            )
            key = f"replay {secrets.token_hex(8)}"
            told = event("dream.replay_requested", asked, key=key, at=self.resources.now())
            await self.life.world.js.store(told)

        self.ask(doing(), rests=rests)

    @rule(place=PLACE, rests=st.booleans())
    def a_message_comes_again(self, place, rests):
        async def doing() -> None:
            stored = await self.life.world.stored("dream")
            if stored:
                message, key = stored[place % len(stored)], f"copy {secrets.token_hex(8)}"
                await self.life.world.js.store_bytes(message.subject, message.data, stream="dream", key=key)

        self.act(doing(), rests=rests)

    @rule(part=st.sampled_from(PARTS), rests=st.booleans())
    def a_part_is_restarted(self, part, rests):
        async def doing() -> None:
            await self.life.parts[part].stop()
            await self.life.parts[part].start()

        self.act(doing(), rests=rests)


@pytest.fixture(scope="module")
def ground(postgres, template, nats_url, server_folder):
    """Records that are made once, a clock that tests move, and a dwell that a short life can see end."""
    clock = Clock()
    folder = server_folder / f"lives-{secrets.token_hex(4)}"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Resources, "now", lambda _: clock.now())
        patched.setattr(rounds, "DWELL_RUNS", 4)
        patched.setattr(rounds, "CAP_BATCHES", 2)
        records = asyncio.run(recorded(folder / "recorded", RECORDS))
        yield Ground(folder, postgres.url, template, nats_url, records, clock)


@pytest.mark.timeout(1800 if LONG else 180)
@pytest.mark.parametrize("turn", range(TURNS if LONG else 1))
def test_whatever_happens_to_a_series_its_invariants_hold(ground, turn):
    """Turns, because Hypothesis varies what it has found, and new lives find more."""
    of_profile = settings(database=None)
    short = settings(
        UNHURRIED,
        max_examples=LIVES,
        stateful_step_count=EVENTS,
        phases=[Phase.generate],
        database=None,
    )
    run_state_machine_as_test(partial(Lives, ground), settings=of_profile if LONG else short)


class Reversed:
    """Chance that lets the end of a batch be told first."""

    def shuffle(self, callbacks):
        callbacks.reverse()


def two_rollbacks_at_once(life: Lives) -> None:
    life.life_begins(mode="auto", versions=3, which=range(6), rests=True)
    life.a_dream_follows_a_rollback(places=[None, None], rests=True)


def all_is_retired_while_a_release_waits(life: Lives) -> None:
    life.life_begins(mode="auto", versions=1, which=range(6), rests=True)
    life.a_batch_is_begun(which=[6], rests=True)
    life.a_person_releases(rests=True)
    for _ in range(8):
        life.a_person_retires(place=0, rests=False)
    life.time_passes(rests=True)


def all_is_retired_before_anything_was_written(life: Lives) -> None:
    life.life_begins(mode="report_only", versions=0, which=range(6), rests=True)
    for _ in range(8):
        life.a_person_retires(place=0, rests=False)
    life.a_person_sets_the_mode("gated", rests=False)
    life.a_person_starts_a_dream(rests=True)


def a_batch_loses_its_tasks_to_the_dream_before(life: Lives) -> None:
    life.life_begins(mode="auto", versions=0, which=range(4), rests=True)
    which = [(number, "told") for number in range(6)]
    life.tasks_finish(which=which, named=False, anew=True, ends=True, order=Reversed(), rests=True)
    life.time_passes(rests=True)


@pytest.mark.parametrize(
    "lived",
    [
        two_rollbacks_at_once,
        all_is_retired_while_a_release_waits,
        all_is_retired_before_anything_was_written,
        a_batch_loses_its_tasks_to_the_dream_before,
    ],
)
def test_a_life_that_once_went_wrong_holds_them_too(ground, lived):
    life = Lives(ground)
    try:
        lived(life)
    finally:
        life.teardown()
