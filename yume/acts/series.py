"""A series as a person names it, its policy, and who may change it: whoever does is recorded on its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from yume.acts.overview import SeriesNow, overview_of
from yume.domain.dreams import Language, Series
from yume.domain.measurement.cells import Boundary
from yume.domain.schedule import Schedule, next_tick, read_schedule
from yume.errors import PermanentError
from yume.resources import Resources
from yume.store import access, dreams, effects, lessons

if TYPE_CHECKING:
    from yume.store.database import Db

# What the tables allow, but for the longest wait: an instant that far away has to be one that can be written.
SERIES_LIMIT: Final = 512
RUNS: Final = range(1, 10_001)
BUDGET: Final = range(50, 100_001)
INSTRUCTIONS_LIMIT: Final = 4_096
SHORTEST_WAIT: Final = timedelta(seconds=1)
LONGEST_WAIT: Final = timedelta(days=366)
LAST_DREAMS: Final = 5
BOUNDARIES: Final = get_args(Boundary)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be another in a series' policy; None stays as it is.

    Raises PermanentError where a value is beyond what a series may have, with the value and the limit.
    """

    batch_max_runs: int | None = None
    batch_max_wait: timedelta | None = None
    schedule: Schedule | None = None
    no_schedule: bool = False
    budget_tokens: int | None = None
    language: Language | None = None
    instructions: str | None = None
    auto_rollback: bool | None = None
    boundary: Boundary | None = None

    def __post_init__(self) -> None:
        """Refuse before the table does."""
        _check_range("a batch of", self.batch_max_runs, RUNS, "tasks")
        _check_range("a budget of", self.budget_tokens, BUDGET, "tokens")
        wait = self.batch_max_wait
        if wait is not None and not SHORTEST_WAIT <= wait <= LONGEST_WAIT:
            raise PermanentError(f"a wait of {wait}: 1 second to {LONGEST_WAIT.days} days are allowed")
        if self.instructions is not None and len(self.instructions) > INSTRUCTIONS_LIMIT:
            raise PermanentError(
                f"the instructions have {len(self.instructions)} characters, {INSTRUCTIONS_LIMIT} are allowed"
            )
        if self.instructions is not None and "\0" in self.instructions:
            raise PermanentError("the instructions hold a NUL character, which no text in the tables may")
        if self.schedule is not None and self.no_schedule:
            raise PermanentError("a schedule and no schedule: only one of them can be set")
        if self.boundary is not None and self.boundary not in BOUNDARIES:
            raise PermanentError(f"a boundary {self.boundary!r}: {' and '.join(BOUNDARIES)} are allowed")

    @property
    def empty(self) -> bool:
        """Whether it changes nothing."""
        return self == Change()


@dataclass(frozen=True, slots=True)
class Act:
    """Something that was done to a series: `what` is the mode it was set to, or the act's name."""

    what: str
    by: str
    why: str
    at: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A series with its policy, how it is now, and its last dreams, newest first; `next_tick` is in UTC.

    `mode_set` is None where the mode was never changed. `waiting` are the approved rules that the slot lacks.
    """

    policy: Mapping[str, Any]
    next_tick: datetime | None
    mode_set: Act | None
    paused: Act | None
    now: SeriesNow
    dreams: Sequence[Mapping[str, Any]]
    waiting: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the series for programs."""
        return asdict(self)


async def find(db: Db, platform: str, series: str) -> Series:
    """Return a series that is known."""
    found = await access.find_series(db, platform, series)
    if found is None:
        raise PermanentError(
            f"platform {platform!r} has no series {series!r}: `yume series list` shows those that there are"
        )
    return found


async def add(
    platform: str, series: str, change: Change, resources: Resources, *, by: str, why: str
) -> tuple[Series, bool]:
    """Make a series, in report_only, or change a known one; say whether it is new."""
    if not 0 < len(series) <= SERIES_LIMIT or "\0" in series:
        raise PermanentError(f"a series' name has 1 to {SERIES_LIMIT} characters, this one {len(series)}")
    async with resources.db.acquire() as db, db.transaction():
        known = await access.find_series(db, platform, series)
        made = known or await access.series_named(db, platform, series)
        await _carry_out(db, made, change, by=by, why=why, now=resources.now())
        return await find(db, platform, series), known is None


async def change(
    platform: str, series: str, wanted: Change, resources: Resources, *, by: str, why: str
) -> Series:
    """Change what is given of a known series' policy."""
    async with resources.db.acquire() as db, db.transaction():
        await _carry_out(db, await find(db, platform, series), wanted, by=by, why=why, now=resources.now())
        return await find(db, platform, series)


async def pause(platform: str, series: str, resources: Resources, *, by: str, why: str) -> bool:
    """Let no dream start any more; one that runs goes on to its end. False if it is paused already."""
    async with resources.db.acquire() as db, db.transaction():
        found = await find(db, platform, series)
        return await access.pause(db, found.id, by=by, why=why, now=resources.now())


async def resume(platform: str, series: str, resources: Resources, *, by: str, why: str) -> bool:
    """Let dreams start again; False if the series is not paused."""
    async with resources.db.acquire() as db, db.transaction():
        found = await find(db, platform, series)
        return await access.unpause(db, found.id, by=by, why=why, now=resources.now())


async def shown(platform: str, series: str, resources: Resources) -> Shown:
    """Return all that there is to see of a series."""
    async with resources.db.acquire() as db:
        found = await find(db, platform, series)
        policy = dict(await access.policy_of(db, found.id))
        current = await effects.in_slot(db, found.id)
        held = None
        if current is not None and current.lesson_set_id is not None:
            held = await lessons.set_by_id(db, current.lesson_set_id)
        approved = await lessons.lessons_in(db, found.id, "approved")
        known = await dreams.dreams_of_series(db, found.id)
    every = (await overview_of(resources)).series
    acts = policy.pop("promotions")
    schedule = read_schedule(policy["schedule"])
    return Shown(
        policy,
        None if schedule is None else next_tick(schedule, resources.now()),
        _last(acts, "mode"),
        None if policy["paused_at"] is None else _last(acts, "pause"),
        next(each for each in every if (each.platform, each.series) == (platform, series)),
        [dict(row) for row in reversed(known[-LAST_DREAMS:])],
        [each.rule for each in approved if held is None or each.id not in held.lesson_ids],
    )


async def _carry_out(db: Db, series: Series, wanted: Change, *, by: str, why: str, now: datetime) -> None:
    if wanted.empty:
        return
    await access.set_policy(
        db,
        series.id,
        batch_max_runs=wanted.batch_max_runs,
        batch_max_wait=wanted.batch_max_wait,
        budget_tokens=wanted.budget_tokens,
        language=wanted.language,
        instructions=wanted.instructions,
        schedule=wanted.schedule,
        no_schedule=wanted.no_schedule,
        auto_rollback=wanted.auto_rollback,
        boundary=wanted.boundary,
        by=by,
        why=why,
        now=now,
    )


def _last(acts: Sequence[Mapping[str, Any]], kind: Literal["mode", "pause"]) -> Act | None:
    """Return the last act of a kind: a change of the mode says to which one, every other names itself."""
    for each in reversed(acts):
        if each.get("act", "mode") == kind:
            return Act(each.get("to", kind), each["by"], each["why"], each["at"])
    return None


def _check_range(what: str, value: int | None, allowed: range, unit: str) -> None:
    if value is not None and value not in allowed:
        raise PermanentError(f"{what} {value} {unit}: {allowed.start} to {allowed.stop - 1} are allowed")
