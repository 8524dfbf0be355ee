"""When a series is looked at by the clock: a cron expression in a time zone, right across clock changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from yume.errors import PermanentError

CRON_LIMIT: Final = 200  # characters; thousands of digits would not even parse as a number

_FIELDS: Final = "minute hour day-of-month month day-of-week"
_KEYS: Final = frozenset({"cron", "zone"})
_HOURS: Final = 24
_ANY_DAY: Final = datetime(2000, 1, 1, tzinfo=UTC)  # the fifty years that are searched from here have it all


@dataclass(frozen=True, slots=True)
class Schedule:
    """Five cron fields by the wall clock of an IANA zone; PermanentError where it is none or never comes.

    What the clock skips in spring comes once, right after; what it repeats in autumn comes once, the first
    time. A schedule for every hour goes on hour by hour through both.
    """

    cron: str
    zone: str

    def __post_init__(self) -> None:
        """Refuse what would fail, or stay silent, only later."""
        _check_cron(self.cron)
        _zone(self.zone)

    def to_json(self) -> dict[str, str]:
        """Return what `series.schedule` keeps."""
        return {"cron": self.cron, "zone": self.zone}


def read_schedule(value: Mapping[str, Any] | None) -> Schedule | None:
    """Read what `series.schedule` keeps, or what a person wrote; raises PermanentError with what is wrong."""
    if value is None:
        return None
    if set(value) != _KEYS or not all(isinstance(each, str) for each in value.values()):
        names = ", ".join(sorted(map(repr, value))) or "nothing"
        raise PermanentError(
            f"schedule: it holds {names}; two texts are wanted, 'cron' and 'zone', "
            "such as '0 3 * * *' and 'Asia/Shanghai'"
        )
    return Schedule(value["cron"], value["zone"])


def last_tick(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the latest tick that is not after `now`, in UTC; None if fifty years before had none."""
    # Backwards, a skipped or repeated hour can hide a tick: that only finds where to start going forwards.
    last = next(_ticks(schedule, now, backwards=True), None)
    if last is None:
        return None
    for tick in _ticks(schedule, last):
        if tick > now:
            break
        last = tick
    return last


def next_tick(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the first tick after `now`, in UTC; None if the fifty years after have none."""
    return next((tick for tick in _ticks(schedule, now) if tick > now), None)


def look_is_due(
    schedule: Schedule | None, looked_at: datetime, max_wait: timedelta, now: datetime, *, collecting: bool
) -> bool:
    """Say whether the export is to be looked at without a callback: by the schedule, or after `max_wait`.

    While a batch is `collecting` the wait is that batch's own.
    """
    tick = None if schedule is None else last_tick(schedule, now)
    if tick is not None and tick > looked_at:
        return True
    return not collecting and looked_at + max_wait <= now


def _ticks(schedule: Schedule, start: datetime, *, backwards: bool = False) -> Iterator[datetime]:
    """Yield ticks in order; forwards, those of a repeated hour may begin before `start`."""
    assert start.tzinfo is not None, "a time without a zone is no moment"
    local = start.astimezone(_zone(schedule.zone))
    for tick in CronSim(_by_local_time(schedule.cron), local, reverse=backwards):
        yield tick.astimezone(UTC)


def _by_local_time(cron: str) -> str:
    """Say the same without a leading `*` in minute and hour, unless it is for every hour.

    To cronsim, as to Debian's cron, the star asks for elapsed time: `*/30 2 * * *` would not come at all on
    the day that skips the hour, and twice as often on the day that repeats it.
    """
    minute, hour, *days = cron.split()
    every_hour = len(CronSim(cron, _ANY_DAY).hours) == _HOURS
    return " ".join([minute.replace("*", "0-59"), "*" if every_hour else hour.replace("*", "0-23"), *days])


def _check_cron(cron: str) -> None:
    if len(cron) > CRON_LIMIT:
        raise PermanentError(f"schedule: cron has {len(cron)} characters, {CRON_LIMIT} are allowed")
    fields = cron.split()
    if len(fields) != len(_FIELDS.split()):
        raise PermanentError(
            f"schedule: cron {cron!r} has {len(fields)} fields, 5 are wanted: {_FIELDS}; there are no seconds"
        )
    minute, hour, day, month, weekday = fields
    try:
        CronSim(f"{minute} {hour} {day} * {weekday}", _ANY_DAY)  # with the month, 31 February is "a bad day"
        CronSim(f"0 0 * {month} *", _ANY_DAY)
    except CronSimError as error:
        raise PermanentError(
            f"schedule: cron {cron!r}: {str(error).lower()}; the fields are {_FIELDS}"
        ) from error
    if not _ever_comes(cron):
        raise PermanentError(f"schedule: cron {cron!r} never comes: no year has such a day")


def _ever_comes(cron: str) -> bool:
    try:
        return next(CronSim(cron, _ANY_DAY), None) is not None
    except CronSimError:
        return False


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PermanentError(
            f"schedule: no time zone is called {name[:64]!r}; try 'Asia/Shanghai' or 'UTC'"
        ) from error
