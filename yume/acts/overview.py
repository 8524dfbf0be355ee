"""The whole at a glance: what every series holds, does and waits for, and whether anybody is at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from yume.domain.dreams import REQUESTED, Mode
from yume.errors import PermanentError
from yume.ids import SeriesId
from yume.jetstream import JetStream
from yume.pipeline import STAGES
from yume.resources import Resources
from yume.store import overview
from yume.store.overview import Row
from yume.topology import Topology

DEAD: Final = "dead"
COUNTED: Final = 100  # dead letters; each is one request to the server
QUIET: Final = timedelta(minutes=2)  # longer than a sweep, a heartbeat or a call takes


@dataclass(frozen=True, slots=True)
class Held:
    """What stands in a slot as far as Yume's own writes tell: which set, since when, and how."""

    version: int | None
    platform_version: str
    since: datetime
    kind: str
    how: str | None
    by: str


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """The batch that is being collected."""

    number: int
    tasks: int
    since: datetime


@dataclass(frozen=True, slots=True)
class OpenDream:
    """A dream that is queued, running or parked; `step` comes next, and is due since `step_since`."""

    number: int
    trigger: str
    status: str
    step: str
    attempt: int
    reason: str | None
    since: datetime
    step_since: datetime | None
    heartbeat_at: datetime | None
    not_before: datetime | None


@dataclass(frozen=True, slots=True)
class OpenCommand:
    """What a person asked of the slot and nobody has done yet."""

    kind: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """The dream that ended last."""

    number: int
    trigger: str
    status: str
    result: str | None
    reason: str | None
    error: str | None
    finished_at: datetime


@dataclass(frozen=True, slots=True)
class SeriesNow:
    """One series as it is now; `drafts` wait for a person."""

    platform: str
    series: str
    mode: Mode
    mode_reason: str | None
    paused_at: datetime | None
    switched_off: bool
    slot: Held | None
    batch: OpenBatch | None
    dreams: Sequence[OpenDream]
    commands: Sequence[OpenCommand]
    drafts: int
    last: Ended | None

    @property
    def running(self) -> OpenDream | None:
        """The dream in progress."""
        return next((each for each in self.dreams if each.status == "running"), None)

    def numbers(self, status: str) -> list[int]:
        """Return the numbers of the dreams in one status."""
        return [each.number for each in self.dreams if each.status == status]


@dataclass(frozen=True, slots=True)
class Overview:
    """Every series, and what its rows tell of who has fallen silent."""

    at: datetime
    series: Sequence[SeriesNow]
    silent: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the overview for programs."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What lies in NATS: `dead` letters, counted up to `COUNTED`, and what each consumer has not settled.

    `missing` are the consumers that the server lacks; `dead` is None where it lacks that stream.
    """

    dead: int | None
    backlog: Mapping[str, int]
    missing: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return the traffic for programs."""
        return {"dead": self.dead, "dead_counted_to": COUNTED, **asdict(self)}


async def overview_of(resources: Resources) -> Overview:
    """Read all series, one query a fact."""
    now = resources.now()
    async with resources.db.acquire() as db, db.transaction(isolation="repeatable_read", readonly=True):
        every = await overview.every_series(db)
        slots = await overview.slots(db)
        batches = await overview.open_batches(db)
        dreams = _grouped(await overview.open_dreams(db))
        commands = _grouped(await overview.open_commands(db))
        drafts = await overview.drafts(db)
        ended = await overview.last_ended(db)
    found = [
        SeriesNow(
            **_values(row),
            slot=Held(**_values(slots[row["id"]])) if row["id"] in slots else None,
            batch=OpenBatch(**_values(batches[row["id"]])) if row["id"] in batches else None,
            dreams=[_dream(each) for each in dreams.get(row["id"], ())],
            commands=[
                OpenCommand(each["kind"], each["requested_at"]) for each in commands.get(row["id"], ())
            ],
            drafts=drafts.get(row["id"], 0),
            last=Ended(**_values(ended[row["id"]])) if row["id"] in ended else None,
        )
        for row in every
    ]
    return Overview(now, found, [line for each in found for line in silence(each, now)])


async def traffic_of(js: JetStream, topology: Topology) -> Traffic:
    """Read what lies in NATS."""
    backlog = await js.backlog(topology)
    missing = sorted(set(topology.consumers) - set(backlog))
    return Traffic(await _dead(js), {name: backlog[name] for name in sorted(backlog)}, missing)


def silence(series: SeriesNow, now: datetime) -> list[str]:
    """Say who seems not to be at work, told by what has been due for longer than anybody at work takes."""
    if series.switched_off:
        return []
    where, found = f"{series.platform}/{series.series}", []
    running = series.running
    queued = [each for each in series.dreams if each.status == "queued"]
    if queued and running is None and series.paused_at is None and not series.commands:
        free = [queued[0].since] if series.last is None else [queued[0].since, series.last.finished_at]
        waited = now - max(free)
        if waited > QUIET:
            found.append(f"{where}: dream {queued[0].number} could start, {_minutes(waited)}: orchestrator?")
    if running is not None and _quiet_since(running) + QUIET < now:
        quiet = _minutes(now - _quiet_since(running))
        found.append(f"{where}: dream {running.number} shows no sign of life, {quiet}: {_worker(running)}?")
    if series.commands and series.commands[0].since + QUIET < now:
        waited = now - series.commands[0].since
        asked = f"{series.commands[0].kind} is not carried out, {_minutes(waited)}"
        found.append(f"{where}: {asked}: orchestrator, worker of zone slot, platform?")
    return found


def _quiet_since(dream: OpenDream) -> datetime:
    """Return the last sign of life; one that is put off owes none before its time."""
    return max(each for each in (dream.since, dream.heartbeat_at, dream.not_before) if each is not None)


def _worker(dream: OpenDream) -> str:
    zones = {stage.name: stage.zone for stage in STAGES}
    return f"orchestrator, worker of {dream.step} (zone {zones[dream.step]})"


def _minutes(time: timedelta) -> str:
    return f"for {time // timedelta(minutes=1)} min"


def _dream(row: Row) -> OpenDream:
    """Say what is to be done next; a dream whose last step is done has only its end to be told."""
    following = [stage.name for stage in STAGES if stage.name > (row["step"] or REQUESTED)]
    return OpenDream(
        number=row["number"],
        trigger=row["trigger"],
        status=row["status"],
        step=following[0] if following else STAGES[-1].name,
        attempt=row["attempt"],
        reason=row["reason"],
        since=(row["closed_at"] if row["status"] == "queued" else row["started_at"]) or row["closed_at"],
        step_since=row["announced_at"] or row["started_at"],
        heartbeat_at=row["heartbeat_at"],
        not_before=row["not_before"],
    )


def _values(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("id", "series_id")}


def _grouped(rows: Sequence[Row]) -> dict[SeriesId, list[Row]]:
    found: dict[SeriesId, list[Row]] = {}
    for row in rows:
        found.setdefault(SeriesId(row["series_id"]), []).append(row)
    return found


async def _dead(js: JetStream) -> int | None:
    count = 0
    try:
        async for _ in js.stored(DEAD):
            count += 1
            if count == COUNTED:
                break
    except PermanentError:
        return None
    return count
