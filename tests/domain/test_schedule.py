from __future__ import annotations

import json
import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from yume.domain.schedule import CRON_LIMIT, Schedule, last_tick, next_tick, read_schedule
from yume.errors import PermanentError

NEW_YORK = "America/New_York"  # 2026: 2 to 3 on 8 March is skipped, 1 to 2 on 1 November comes twice
MINUTE = timedelta(minutes=1)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def ticks(cron, zone, start, end):
    """Walk forwards from one tick to the next, and check that walking backwards finds each again."""
    schedule = Schedule(cron, zone)
    found = []
    tick = next_tick(schedule, utc(start))
    while tick < utc(end):
        found.append(tick)
        tick = next_tick(schedule, tick)
    assert [last_tick(schedule, each) for each in found] == found
    assert [last_tick(schedule, each - MINUTE) for each in found[1:]] == [
        max(earlier for earlier in found if earlier <= each - MINUTE) for each in found[1:]
    ]
    return [f"{each:%d %H:%M}" for each in found]


def test_a_tick_is_at_the_hour_of_the_zone_and_told_in_utc():
    schedule = Schedule("0 3 * * *", "Asia/Shanghai")
    now = utc("2026-12-01 02:00")
    assert last_tick(schedule, now) == utc("2026-11-30 19:00")
    assert next_tick(schedule, now) == utc("2026-12-01 19:00")
    assert last_tick(schedule, now).tzinfo is UTC
    assert next_tick(schedule, now).tzinfo is UTC


def test_the_last_tick_may_be_now_and_the_next_may_not():
    schedule = Schedule("0 3 * * *", "UTC")
    now = utc("2026-12-01 03:00")
    a_moment = timedelta(microseconds=1)
    assert last_tick(schedule, now) == last_tick(schedule, now + a_moment) == now
    assert last_tick(schedule, now - a_moment) == utc("2026-11-30 03:00")
    assert next_tick(schedule, now - a_moment) == now
    assert next_tick(schedule, now) == utc("2026-12-02 03:00")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", NEW_YORK, "Pacific/Kiritimati"])
def test_the_zone_in_which_now_is_told_does_not_matter(zone):
    schedule = Schedule("30 4 * * MON", "Europe/Berlin")
    now = utc("2026-06-10 12:00")
    assert last_tick(schedule, now.astimezone(ZoneInfo(zone))) == utc("2026-06-08 02:30")
    assert next_tick(schedule, now.astimezone(ZoneInfo(zone))) == utc("2026-06-15 02:30")


def test_a_time_without_a_zone_is_refused():
    with pytest.raises(AssertionError, match="no moment"):
        last_tick(Schedule("0 3 * * *", "UTC"), datetime(2026, 1, 1))  # noqa: DTZ001  # that is the fault


@pytest.mark.parametrize(
    ("cron", "found"),
    [
        ("30 2 * * *", ["07 07:30", "08 07:00", "09 06:30"]),
        ("0,30 2 * * *", ["07 07:00", "07 07:30", "08 07:00", "09 06:00", "09 06:30"]),
        ("*/30 2 * * *", ["07 07:00", "07 07:30", "08 07:00", "09 06:00", "09 06:30"]),
        ("30 2 8 3 *", ["08 07:00"]),
        ("0 2,3 * * *", ["07 07:00", "07 08:00", "08 07:00", "09 06:00", "09 07:00"]),
        ("0 3 * * *", ["07 08:00", "08 07:00", "09 07:00"]),
        ("30 1 * * *", ["07 06:30", "08 06:30", "09 05:30"]),
    ],
)
def test_a_tick_in_the_hour_that_is_skipped_comes_once_right_after(cron, found):
    assert ticks(cron, NEW_YORK, "2026-03-07 05:30", "2026-03-10 00:00") == found


@pytest.mark.parametrize(
    ("cron", "found"),
    [
        ("30 1 * * *", ["31 05:30", "01 05:30", "02 06:30"]),
        ("*/30 1 * * *", ["31 05:00", "31 05:30", "01 05:00", "01 05:30", "02 06:00", "02 06:30"]),
        ("0 2 * * *", ["31 06:00", "01 07:00", "02 07:00"]),
        ("0 */13 * * *", ["31 17:00", "01 04:00", "01 18:00", "02 05:00", "02 18:00"]),
    ],
)
def test_a_tick_in_the_hour_that_comes_twice_comes_once(cron, found):
    assert ticks(cron, NEW_YORK, "2026-10-31 04:30", "2026-11-03 00:00") == found


@pytest.mark.parametrize("moment", ["05:29", "05:30", "05:59", "06:10", "06:30", "06:59"])
def test_in_the_hour_that_comes_twice_the_last_tick_is_the_first_of_the_two(moment):
    schedule = Schedule("30 1 * * *", NEW_YORK)
    now = utc(f"2026-11-01 {moment}")
    first = utc("2026-11-01 05:30")
    last, following = last_tick(schedule, now), next_tick(schedule, now)
    assert (last, following) == (
        (first, utc("2026-11-02 06:30")) if now >= first else (utc("2026-10-31 05:30"), first)
    )


def test_a_tick_every_other_hour_is_neither_lost_nor_doubled():
    cron, berlin = "0 */2 * * *", "Europe/Berlin"
    spring = ticks(cron, berlin, "2026-03-28 22:00", "2026-03-29 03:00")
    autumn = ticks(cron, berlin, "2026-10-24 21:00", "2026-10-25 04:00")
    assert spring == ["28 23:00", "29 01:00", "29 02:00"]
    assert autumn == ["24 22:00", "25 00:00", "25 03:00"]


@pytest.mark.parametrize("cron", ["30 * * * *", "30 */1 * * *", "30 0-23 * * *"])
def test_a_schedule_for_every_hour_goes_on_hour_by_hour(cron):
    spring = ticks(cron, NEW_YORK, "2026-03-08 05:00", "2026-03-08 09:00")
    autumn = ticks(cron, NEW_YORK, "2026-11-01 04:00", "2026-11-01 08:00")
    assert spring == ["08 05:30", "08 06:30", "08 07:30", "08 08:30"]
    assert autumn == ["01 04:30", "01 05:30", "01 06:30", "01 07:30"]


def test_a_leap_day_comes_in_leap_years_alone():
    schedule = Schedule("0 0 29 2 *", "UTC")
    assert last_tick(schedule, utc("2026-12-01 00:00")) == utc("2024-02-29 00:00")
    assert next_tick(schedule, utc("2026-12-01 00:00")) == utc("2028-02-29 00:00")


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "0 0 30 FEB *", "15 4 31 4,6,9,11 *", "* * */20 * 1L"])
def test_a_day_that_never_comes_is_refused(cron):
    with pytest.raises(PermanentError, match="never comes"):
        Schedule(cron, "UTC")


@pytest.mark.parametrize("cron", ["0 0 29 2 *", "0 0 31 1,2 *", "0 0 31 2 MON", "0 0 L 2 *", "0 0 29 2 */7"])
def test_a_day_that_comes_seldom_is_not_refused(cron):
    assert next_tick(Schedule(cron, "UTC"), utc("2026-12-01 00:00")) is not None


@pytest.mark.parametrize(
    ("cron", "why"),
    [
        ("60 3 * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 3 32 * *", "bad day-of-month"),
        ("0 3 * 13 *", "bad month"),
        ("0 3 * * 8", "bad day-of-week"),
        ("*/0 3 * * *", "bad minute"),
        ("0 3 * *", "4 fields, 5 are wanted"),
        ("0 0 3 * * *", "6 fields, 5 are wanted: minute hour .* there are no seconds"),
        ("@daily", "1 fields"),
        ("", "0 fields"),
        ("9" * 5000 + " 3 * * *", f"5008 characters, {CRON_LIMIT} are allowed"),
    ],
)
def test_what_is_wrong_with_a_cron_expression_is_named(cron, why):
    with pytest.raises(PermanentError, match=why):
        read_schedule({"cron": cron, "zone": "UTC"})


@pytest.mark.parametrize(
    "zone", ["", "Asia", "Asia/Nowhere", "../../etc/passwd", "/etc/localtime", "Z\0", "zone.tab", "x" * 5000]
)
def test_a_zone_that_there_is_not_is_named_and_refused(zone):
    with pytest.raises(PermanentError, match="no time zone is called"):
        read_schedule({"cron": "0 3 * * *", "zone": zone})


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"cron": "0 3 * * *"},
        {"zone": "UTC"},
        {"cron": "0 3 * * *", "timezone": "UTC"},
        {"cron": "0 3 * * *", "zone": "UTC", "enabled": False},
        {"cron": "0 3 * * *", "zone": None},
        {"cron": 3, "zone": "UTC"},
    ],
)
def test_anything_but_a_cron_and_a_zone_is_refused_with_what_it_holds(value):
    held = ", ".join(sorted(map(repr, value))) or "nothing"
    with pytest.raises(PermanentError, match=f"it holds {held}; two texts are wanted"):
        read_schedule(value)


def test_a_schedule_is_read_as_it_was_kept_and_none_is_none():
    schedule = Schedule("0 3 * * MON-FRI", "Asia/Shanghai")
    assert read_schedule(json.loads(json.dumps(schedule.to_json()))) == schedule
    assert read_schedule(None) is None


@pytest.fixture
def no_zones_on_this_machine():
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=before)
    ZoneInfo.clear_cache()


def test_a_machine_without_a_zone_database_has_zones_too(no_zones_on_this_machine):
    assert next_tick(Schedule("0 3 * * *", "Asia/Shanghai"), utc("2026-12-01 02:00")) == utc(
        "2026-12-01 19:00"
    )


# Where clocks do odd things: at midnight, by half an hour, twice a year, over a whole day, not at all.
ODD_DAYS = {
    NEW_YORK: ["2026-03-08", "2026-11-01"],
    "Europe/Dublin": ["2026-03-29", "2026-10-25"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
    "America/Santiago": ["2026-04-05", "2026-09-06"],
    "America/Havana": ["2026-03-08", "2026-11-01"],
    "Pacific/Apia": ["2011-12-30", "2011-04-02"],
    "Africa/Casablanca": ["2026-02-15", "2026-03-22"],
    "Asia/Shanghai": ["2026-12-01"],
}


@cache
def moment_of(local, zone):
    """Tell when the clocks of a zone first show a time, or first show a later one if they skip it."""
    while local.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
        local += MINUTE
    return local.replace(tzinfo=zone).astimezone(UTC)


some_days = st.sampled_from([(zone, day) for zone, days in ODD_DAYS.items() for day in days])


@settings(deadline=None)  # the walk looks at each minute of a day that is skipped
@given(
    some_days,
    st.sets(st.sampled_from([0, 1, 15, 30, 45, 59]), min_size=1),
    st.sets(st.integers(0, 23), min_size=1, max_size=23),
    st.integers(-36 * 60, 60 * 60),
    st.sampled_from([timedelta(0), timedelta(seconds=30), timedelta(microseconds=1)]),
)
@example((NEW_YORK, "2026-03-08"), {30}, {2}, 7 * 60, timedelta(0))
@example((NEW_YORK, "2026-11-01"), {30}, {1}, 6 * 60 + 10, timedelta(0))
@example(("Pacific/Apia", "2011-12-30"), {0}, {3}, 12 * 60, timedelta(0))
def test_last_and_next_are_what_a_walk_through_every_local_time_finds(place, minutes, hours, shift, more):
    zone, day = place
    midnight = datetime.fromisoformat(day)
    now = utc(day) + timedelta(minutes=shift) + more
    walked = {
        moment_of(midnight + timedelta(days=days, hours=hour, minutes=minute), ZoneInfo(zone))
        for days in range(-4, 6)
        for hour in hours
        for minute in minutes
    }
    cron = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    schedule = Schedule(cron, zone)
    assert last_tick(schedule, now) == max(each for each in walked if each <= now)
    assert next_tick(schedule, now) == min(each for each in walked if each > now)


@given(
    some_days,
    st.sampled_from(["*/7 * * * *", "30 * 5 * *", "*/20 * * * SUN", "0 */2 * * *", "1 0-23/5 L * *"]),
    st.integers(-48 * 60, 48 * 60),
)
def test_the_next_tick_is_the_last_one_once_it_has_come(place, cron, shift):
    zone, day = place
    schedule = Schedule(cron, zone)
    now = utc(day) + timedelta(minutes=shift)
    following = next_tick(schedule, now)
    assert last_tick(schedule, now) <= now < following
    assert last_tick(schedule, following) == following
    assert last_tick(schedule, following - timedelta(microseconds=1)) == last_tick(schedule, now)
