"""Which of Postgres' errors may pass, each met on a real server."""

from __future__ import annotations

import asyncio
import socket
from datetime import timedelta
from functools import partial

import pytest

from yume.errors import PermanentError, TransientError
from yume.store import database as module
from yume.store import evidence
from yume.store.database import open_database
from yume.store.evidence import Pulled


@pytest.mark.parametrize(
    ("query", "argument"),
    [
        ("SELECT $1::text", "a lone surrogate \ud800"),
        ("SELECT $1::text", "a NUL \x00"),
        ("SELECT $1::jsonb", ["a NUL \x00"]),
        ("SELECT $1::jsonb", ["a lone surrogate \ud800"]),
        ("SELECT $1::jsonb", [float("nan")]),
        ("SELECT $1::jsonb", [{1, 2}]),
        ("SELECT $1::integer", "a word"),
        ("SELECT $1::integer", 2**40),
        ("SELECT $1::uuid", "no uuid"),
        ("SELECT $1::text[]", [1]),
        ("SELECT 1", "one argument too many"),
        ("SELECT 1 / (1 - $1::integer)", 1),
        ("SELECT nothing FROM nowhere WHERE $1", True),
    ],
    ids=str,
)
async def test_what_can_never_be_stored_is_permanent(database, query, argument):
    with pytest.raises(PermanentError) as refusal:
        async with database.acquire() as db:
            await db.fetchval(query, argument)
    assert str(refusal.value).startswith("Postgres ")
    assert refusal.value.__cause__ is not None
    async with database.acquire() as db:  # and the connection is as good as before
        assert await db.fetchval("SELECT 1") == 1


async def test_one_dirty_row_of_a_batch_is_permanent_and_leaves_nothing(database, series, dream, now):
    dirty = [Pulled("task-1"), Pulled("task-2", status="\x00"), Pulled("task-3", task_kind="\udfff")]
    for pulled in (dirty[:2], dirty[::2]):
        with pytest.raises(PermanentError):
            async with database.acquire() as db, db.transaction():
                await evidence.save_pulled_runs(db, series.id, dream, pulled, now)
    async with database.acquire() as db:
        assert await db.fetchval("SELECT count(*) FROM yume.runs") == 0


async def test_a_check_that_fails_is_permanent_and_named(database):
    with pytest.raises(PermanentError, match=r"23514.*platforms_id_check"):
        async with database.acquire() as db:
            await db.execute("INSERT INTO yume.platforms (id, base_url) VALUES ('A b', 'x')")


async def test_a_connection_that_the_server_ended_is_transient(database):
    with pytest.raises(TransientError) as passing:
        async with database.acquire() as db:
            await db.fetchval("SELECT pg_terminate_backend(pg_backend_pid())")
    assert passing.value.retry_in == timedelta(seconds=2)
    async with database.acquire() as db:  # and the pool makes another
        assert await db.fetchval("SELECT 1") == 1


async def test_a_connection_that_was_lost_between_two_queries_is_transient(database, eventually):
    with pytest.raises(TransientError, match="released back to the pool"):  # noqa: PT012  # one use of one connection
        async with database.acquire() as db, database.acquire() as other:
            process = await db.fetchval("SELECT pg_backend_pid()")
            await other.execute("SELECT pg_terminate_backend($1)", process)
            await eventually(lambda: database.pool.get_size() == 1)  # the pool has noticed
            await db.fetchval("SELECT 1")


@pytest.mark.parametrize(
    ("setting", "query"),
    [
        ("SET LOCAL statement_timeout = '10ms'", "SELECT pg_sleep(60)"),
        ("SET LOCAL transaction_read_only = on", "UPDATE yume.series SET paused_at = NULL"),
        ("SELECT 1", "DO $$ BEGIN RAISE deadlock_detected; END $$"),
        ("SELECT 1", "DO $$ BEGIN RAISE serialization_failure; END $$"),
        ("SELECT 1", "DO $$ BEGIN RAISE too_many_connections; END $$"),
    ],
)
async def test_what_another_try_may_not_meet_is_transient(database, setting, query):
    with pytest.raises(TransientError):  # noqa: PT012  # one transaction
        async with database.acquire() as db, db.transaction():
            await db.execute(setting)
            await db.execute(query)


async def test_a_lock_that_somebody_holds_is_transient(database, series):
    async with database.acquire() as holder, holder.transaction():
        await holder.execute("SELECT FROM yume.series FOR UPDATE")
        with pytest.raises(TransientError, match="LockNotAvailableError"):
            async with database.acquire() as db:
                await db.execute("SELECT FROM yume.series FOR UPDATE NOWAIT")


async def test_a_migration_under_a_prepared_statement_is_transient(database):
    query = "SELECT * FROM yume.series"
    with pytest.raises(TransientError, match="InvalidCachedStatementError"):  # noqa: PT012  # one transaction
        async with database.acquire() as db, db.transaction():
            await db.fetch(query)
            await db.execute("ALTER TABLE yume.series ADD extra text")
            await db.fetch(query)


async def test_a_pool_without_a_free_connection_answers_soon(migrated_url, monkeypatch):
    monkeypatch.setattr(module, "_ACQUIRE_TIMEOUT_S", 0.05)
    async with open_database(migrated_url, size=1) as small:
        async with small.acquire():
            with pytest.raises(TransientError, match="TimeoutError"):
                async with small.acquire():
                    pass
        async with small.acquire() as db:
            assert await db.fetchval("SELECT 1") == 1


async def test_a_server_that_is_not_there_is_transient():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free_port = taken.getsockname()[1]
    with pytest.raises(TransientError):
        async with open_database(f"postgresql://postgres@127.0.0.1:{free_port}/postgres", size=1):
            pass


async def test_an_address_that_is_none_is_permanent():
    with pytest.raises(PermanentError, match="asked wrongly"):
        async with open_database("mysql://root@127.0.0.1/yume", size=1):
            pass


async def test_a_database_that_does_not_exist_is_permanent(postgres):
    with pytest.raises(PermanentError, match="3D000"):
        async with open_database(postgres.url.removesuffix("postgres") + "nowhere", size=1):
            pass


async def test_an_error_of_the_caller_passes_as_it_is(database):
    with pytest.raises(KeyError):
        async with database.acquire():
            raise KeyError("mine")


async def test_cancelling_a_query_gives_the_connection_back(database, eventually):
    async def sleep():
        async with database.acquire() as db:
            await db.execute("SELECT pg_sleep(60)")

    task = asyncio.create_task(sleep())
    await eventually(partial(_sleeping, database))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await _sleeping(database)


async def _sleeping(database) -> bool:
    async with database.acquire() as db:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND state = 'active'"
        return await db.fetchval(f"{query} AND pid <> pg_backend_pid() AND datname = current_database()") > 0


async def test_json_goes_in_and_out_as_values(db):
    value = {"text": 'quote " and \\ and 夢', "list": [1, 2.5, None, True]}
    assert await db.fetchval("SELECT $1::jsonb", value) == value


async def test_times_come_back_in_utc_whatever_the_servers_zone(migrated_url, db, now):
    name = await db.fetchval("SELECT current_database()")
    await db.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Shanghai'")
    async with open_database(migrated_url, size=1) as opened, opened.acquire() as fresh:
        assert await fresh.fetchval("SELECT current_setting('timezone')") == "UTC"
        assert await fresh.fetchval("SELECT $1::timestamptz", now) == now


async def test_a_closed_pool_is_transient(migrated_url):
    async with open_database(migrated_url, size=1) as opened:
        pass
    with pytest.raises(TransientError, match="clos"):
        async with opened.acquire():
            pass
