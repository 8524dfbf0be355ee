from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from yume.domain.measurement.rates import VersionRate
from yume.ids import InjectionId, MeasurementId, new_id
from yume.store import effects, measured
from yume.store.measured import Look

HOUR = timedelta(hours=1)


@pytest.fixture
def written(db, rows, series, now):
    """A slot write that reached the slot some hours after the start."""

    async def make(version: str, lesson_set=None, *, hours: int = 0, kind="write") -> InjectionId:
        injection = await rows.injection(series, lesson_set, kind=kind)
        await effects.written(db, series.id, injection, version, now + hours * HOUR)
        return injection

    return make


async def test_a_write_is_pending_until_the_slot_answers(db, rows, series, dream, now):
    lesson_set = await rows.lesson_set(series, dream)
    injection = await rows.injection(series, lesson_set, dream=dream)
    found = await effects.injection_of(db, injection)
    assert (found.status, found.kind, found.lesson_set_id) == ("pending", "write", lesson_set)
    assert await effects.in_slot(db, series.id) is None
    await effects.written(db, series.id, injection, "5", now)
    found = await effects.in_slot(db, series.id)
    assert (found.id, found.status, found.platform_version, found.written_at) == (
        *(injection, "written", "5", now),
    )
    assert await effects.injection_of_dream(db, dream) == found


async def test_a_write_that_is_asked_for_twice_is_one_row(db, rows, series, dream, now):
    injection = await rows.injection(series, None, dream=dream)
    await effects.request(
        *(db, injection, series.id, None),
        kind="write",
        status="withheld",
        expected_version="9",
        by="another",
        why="again",
        dream=dream,
        now=now + HOUR,
    )
    found = await effects.injection_of(db, injection)
    assert (found.status, found.expected_version) == ("pending", None)
    assert await db.fetchval("SELECT count(*) FROM yume.injections") == 1


async def test_a_write_that_is_withheld_never_reaches_the_slot(db, rows, series, dream, now):
    injection = InjectionId(new_id())
    await effects.request(
        *(db, injection, series.id, None),
        kind="write",
        status="withheld",
        expected_version=None,
        by="yume:s8_write",
        why="dream 1",
        dream=dream,
        now=now,
    )
    await effects.written(db, series.id, injection, "5", now)
    assert (await effects.injection_of(db, injection)).status == "withheld"
    assert await effects.in_slot(db, series.id) is None


async def test_the_last_write_is_in_the_slot_and_replaces_those_before(db, written, series, now):
    first = await written("1")
    second = await written("2", hours=1)
    third = await written("3", hours=2)
    assert (await effects.in_slot(db, series.id)).id == third
    replaced = {row["id"]: row["replaced_at"] for row in await db.fetch("SELECT * FROM yume.injections")}
    assert replaced == {first: now + HOUR, second: now + 2 * HOUR, third: None}


async def test_a_write_that_is_settled_again_changes_nothing(db, written, series, now):
    injection = await written("1")
    before = await effects.injection_of(db, injection)
    await effects.written(db, series.id, injection, "2", now + HOUR)
    await effects.refused(db, injection, "failed", "late")
    assert await effects.injection_of(db, injection) == before


@pytest.mark.parametrize("status", ["conflict", "failed", "withheld"])
async def test_a_write_that_was_refused_says_why_and_leaves_the_slot(db, rows, written, series, status):
    standing = await written("1")
    injection = await rows.injection(series, None)
    await effects.refused(db, injection, status, "slot holds foreign text")
    assert (await effects.injection_of(db, injection)).status == status
    reason = await db.fetchval("SELECT error FROM yume.injections WHERE id = $1", injection)
    assert reason == "slot holds foreign text"
    assert (await effects.in_slot(db, series.id)).id == standing


async def test_only_a_pending_write_expects_another_version(db, rows, written, series):
    pending, done = await rows.injection(series, None), await written("1")
    for injection in (pending, done):
        await effects.expect(db, injection, "7")
    assert (await effects.injection_of(db, pending)).expected_version == "7"
    assert (await effects.injection_of(db, done)).expected_version is None


async def test_a_write_knows_the_one_that_it_replaced(db, rows, written, series):
    first = await written("10")
    second = await written("9", hours=1)
    await effects.refused(db, await rows.injection(series, None), "failed", "no answer")
    third = await written("11", hours=2)
    before = [await effects.written_before(db, series.id, each) for each in (first, second, third)]
    assert [each and each.platform_version for each in before] == [None, "10", "9"]


async def test_the_slot_of_one_series_is_not_that_of_another(db, rows, written, series):
    await written("1")
    other = await rows.series("another")
    assert await effects.in_slot(db, other.id) is None
    assert await effects.texts_by_version(db, other.id) == {}


async def test_the_text_of_each_version_is_known(db, rows, written, series, dream):
    sets = [await rows.lesson_set(series, dream, version, f"text {version}") for version in (1, 2)]
    await written("5", sets[0])
    await written("6", sets[1], hours=1)
    await written("7", sets[0], hours=2, kind="rollback")
    await rows.injection(series, sets[1])
    assert await effects.texts_by_version(db, series.id) == {"5": "text 1", "6": "text 2", "7": "text 1"}


async def test_two_writes_cannot_both_be_one_version(written):
    await written("5")
    with pytest.raises(asyncpg.UniqueViolationError):
        await written("5", hours=1)


# Measurements


def _rate(version: str | None, **other) -> VersionRate:
    told = {"runs": 10, "failures": 4, "infrastructure": 1, "excluded": {"cancelled": 2}, "rate": 0.4}
    return VersionRate(version, None, **(told | {"low": 0.17, "high": 0.69} | other))


async def test_a_look_that_is_recorded_twice_is_one_row_and_stays(db, series, dream, now):
    name = MeasurementId(new_id())
    for rate in (_rate("3"), _rate("3", failures=9)):
        look = Look(name, rate, "batch", now - HOUR, now)
        await measured.save_measurements(db, series.id, dream, [look], "wilson", now)
    (found,) = await measured.measurements_of(db, dream)
    assert (found["runs"], found["failures"], found["infrastructure"]) == (10, 4, 1)
    assert (found["rate"], found["low"], found["high"]) == (0.4, 0.17, 0.69)
    assert (found["excluded"], found["method"], found["verdict"]) == (
        *({"cancelled": 2}, "wilson", "no_evidence"),
    )
    assert (found["since"], found["until"]) == (now - HOUR, now)
    assert found["details"] == {"window": "batch", "memory_version": "3"}


async def test_a_look_over_one_run_has_a_span_of_one_instant(db, series, dream, now):
    look = Look(MeasurementId(new_id()), _rate("3"), "batch", now, now)
    await measured.save_measurements(db, series.id, dream, [look], "wilson", now)
    (found,) = await measured.measurements_of(db, dream)
    assert (found["since"], found["until"]) == (now, now)


async def test_a_version_without_runs_has_no_rate(db, series, dream, now):
    rate = _rate(None, runs=0, failures=0, rate=None, low=0.0, high=1.0)
    look = Look(MeasurementId(new_id()), rate, "batch", now, now)
    await measured.save_measurements(db, series.id, dream, [look], "wilson", now)
    (found,) = await measured.measurements_of(db, dream)
    assert (found["rate"], found["low"], found["high"]) == (None, 0.0, 1.0)


async def test_measurements_come_window_by_window(db, series, dream, now):
    looks = [
        Look(MeasurementId(new_id()), _rate(version), window, now, now)
        for window, version in (("cumulative", "1"), ("batch", "2"), ("batch", "1"))
    ]
    await measured.save_measurements(db, series.id, dream, looks, "wilson", now)
    found = [each["details"] for each in await measured.measurements_of(db, dream)]
    assert [(each["window"], each["memory_version"]) for each in found] == [
        *(("batch", "1"), ("batch", "2"), ("cumulative", "1")),
    ]


async def test_nothing_to_measure_is_no_error(db, series, dream, now):
    await measured.save_measurements(db, series.id, dream, [], "wilson", now)
    assert await measured.measurements_of(db, dream) == []
