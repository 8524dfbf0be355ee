"""What may happen to a row, whoever writes: the triggers of 0002, each in both directions."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from yume.ids import new_id

REFUSED = asyncpg.IntegrityConstraintViolationError
TABLES = {
    "platforms",
    "series",
    "taxonomies",
    "dream_runs",
    "runs",
    "signals",
    "lessons",
    "lesson_sets",
    "injections",
    "measurements",
}


async def test_the_schema_has_exactly_the_ten_tables(db):
    found = await db.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'yume'")
    assert {row["tablename"] for row in found} == TABLES | {"schema_migrations"}


@pytest.fixture
async def one_of_each(rows, series, dream, signal):
    """A row in every table."""
    await rows.lesson(series, [signal])
    lesson_set = await rows.lesson_set(series, dream)
    await rows.injection(series, lesson_set, dream=dream)
    await rows.measurement(series, dream)


@pytest.mark.parametrize("table", sorted(TABLES))
async def test_no_row_of_any_table_can_be_deleted(db, one_of_each, table):
    before = await db.fetchval(f"SELECT count(*) FROM yume.{table}")
    assert before > 0
    for statement in (
        f"DELETE FROM yume.{table}",
        f"DELETE FROM yume.{table} WHERE false",
        f"TRUNCATE yume.{table} CASCADE",
    ):
        with pytest.raises(REFUSED, match=f"of {table}: (nothing is ever deleted|rows of this table never)"):
            await db.execute(statement)
    assert await db.fetchval(f"SELECT count(*) FROM yume.{table}") == before


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("taxonomies", "name"),
        ("taxonomies", "classes"),
        ("lesson_sets", "text"),
        ("lesson_sets", "gate"),
        ("measurements", "verdict"),
        ("measurements", "details"),
    ],
)
async def test_taxonomies_lesson_sets_and_measurements_never_change(db, one_of_each, table, column):
    with pytest.raises(REFUSED, match=f"UPDATE of {table}: rows of this table never change"):
        await db.execute(f"UPDATE yume.{table} SET {column} = {column}")


async def test_the_policy_of_a_series_may_change(db, series):
    assert await db.execute("UPDATE yume.series SET batch_max_runs = 7") == "UPDATE 1"


async def test_no_column_of_a_signal_but_its_labels_ever_changes(db, columns_of, signal):
    columns = await columns_of("signals", but=("labels",))
    assert len(columns) > 10
    for column, other in columns.items():
        with pytest.raises(REFUSED, match="only labels may be added"):
            await db.execute(f"UPDATE yume.signals SET {column} = {other}")


async def test_a_label_may_be_added_to_a_signal_and_never_changed(db, signal):
    add = "UPDATE yume.signals SET labels = labels || $1"
    await db.execute(add, {"one": {"code": "state_rot"}})
    await db.execute(add, {"two": {"code": "token_burn"}})
    for change in ({"one": {"code": "token_burn"}}, {"one": None}):
        with pytest.raises(REFUSED, match="a label that was given never changes"):
            await db.execute(add, change)
    for change in ("'{}'", "labels - 'one'"):
        with pytest.raises(REFUSED, match="a label that was given never changes"):
            await db.execute(f"UPDATE yume.signals SET labels = {change}")
    assert await db.fetchval("SELECT labels FROM yume.signals") == {
        "one": {"code": "state_rot"},
        "two": {"code": "token_burn"},
    }


SETTLE = (
    "UPDATE yume.injections SET status = $2, platform_version = $3, written_at = $4, error = $5 WHERE id = $1"
)


@pytest.mark.parametrize("status", ["written", "conflict", "failed", "withheld"])
async def test_a_slot_write_is_settled_once(db, rows, series, now, status):
    injection = await rows.injection(series, None)
    written = ("5", now) if status == "written" else (None, None)
    await db.execute(SETTLE, injection, status, *written, "why")
    for change in (
        "error = 'another'",
        "status = 'pending', written_at = NULL",
        "requested_at = 'epoch'",
        "lesson_set_id = gen_random_uuid()",
        "expected_version = '9'",
        "\"by\" = 'another'",
    ):
        with pytest.raises(REFUSED, match=f"it is {status} and cannot change"):
            await db.execute(f"UPDATE yume.injections SET {change}")
    replaced = await db.execute("UPDATE yume.injections SET replaced_at = $1, announced = true", now)
    assert replaced == "UPDATE 1"


async def test_a_pending_slot_write_may_still_change(db, rows, series):
    await rows.injection(series, None)
    assert await db.execute("UPDATE yume.injections SET expected_version = '9'") == "UPDATE 1"


async def test_what_was_written_has_a_version_and_a_time(db, rows, series, now):
    injection = await rows.injection(series, None)
    for version, at in ((None, now), ("5", None)):
        with pytest.raises(asyncpg.CheckViolationError):
            await db.execute(SETTLE, injection, "written", version, at, None)


async def test_a_dream_writes_the_slot_once(rows, series, dream, now):
    await rows.injection(series, None, dream=dream)
    with pytest.raises(asyncpg.UniqueViolationError, match="injections_one_a_dream"):
        await rows.injection(series, None, dream=dream, now=now + timedelta(hours=1))


@pytest.mark.parametrize("kind", ["write", "adopted"])
async def test_one_version_of_a_slot_was_written_by_one_row(db, rows, series, now, kind):
    await db.execute(SETTLE, await rows.injection(series, None, kind="write"), "written", "5", now, None)
    second = await rows.injection(series, None, kind=kind)
    with pytest.raises(asyncpg.UniqueViolationError, match="injections_one_a_version"):
        await db.execute(SETTLE, second, "written", "5", now, None)


@pytest.mark.parametrize("kind", ["rollback", "kill", "experiment"])
async def test_a_platform_may_point_back_at_the_number_of_an_old_version(db, rows, series, now, kind):
    for each in ("write", kind, kind):
        injection = await rows.injection(series, None, kind=each)
        await db.execute(SETTLE, injection, "written", "5", now, None)
    assert await db.fetchval("SELECT count(*) FROM yume.injections WHERE platform_version = '5'") == 3


async def test_a_rate_lies_within_its_bounds(db, rows, series, dream, now):
    await rows.measurement(series, dream)
    for runs, failures, low, high in ((1, 2, 0, 1), (2, 1, 0.6, 0.5), (2, 1, 0.1, 1.1)):
        with pytest.raises(asyncpg.CheckViolationError):
            await db.execute(
                """INSERT INTO yume.measurements (
                     id, series_id, dream_id, scope, span, runs, failures, infrastructure, low, high, verdict,
                     why, method)
                   VALUES (
                     $1, $2, $3, 'version', tstzrange($4, $4, '[]'), $5, $6, 0, $7, $8, 'no_evidence',
                     '-', '-')""",
                *(new_id(), series.id, dream, now, runs, failures, low, high),
            )
