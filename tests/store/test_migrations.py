from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import asyncpg
import pytest

from yume.errors import PermanentError
from yume.settings import contracts
from yume.store import migrations
from yume.store.migrations import migrate

SCHEMAS = contracts("schemas") / "postgres"
FILES = [path.name for path in sorted(SCHEMAS.glob("[0-9]*.sql"))]
HEADER = "-- migrate:up\n"

# Waits for a line on its standard input, so that all processes begin at once.
MIGRATE = """
import asyncio, json, sys
from pathlib import Path
from yume.store.migrations import migrate
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(asyncio.run(migrate(sys.argv[1], Path(sys.argv[2])))))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the migrations, for a test to spoil."""
    return Path(shutil.copytree(SCHEMAS, tmp_path / "postgres"))


async def _rows(url: str, query: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(query))
    finally:
        await connection.close()


async def test_eight_processes_that_start_together_apply_each_file_once(database_url):
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", MIGRATE, database_url, str(SCHEMAS)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(8)
    ]
    for process in processes:
        assert await process.stdout.readline() == b"ready\n"
    ends = await asyncio.gather(*(process.communicate(b"\n") for process in processes))

    assert [(process.returncode, err) for process, (_, err) in zip(processes, ends, strict=True)] == [
        (0, b"")
    ] * 8
    applied = [json.loads(out) for out, _ in ends]
    assert sorted(applied) == [[]] * 7 + [FILES]
    booked = await _rows(database_url, "SELECT name FROM yume.schema_migrations ORDER BY version")
    assert [row["name"] for row in booked] == FILES


async def test_a_second_run_applies_nothing(database_url):
    assert await migrate(database_url, SCHEMAS) == FILES
    before = await _rows(database_url, "SELECT * FROM yume.schema_migrations ORDER BY version")
    assert await migrate(database_url, SCHEMAS) == []
    assert await _rows(database_url, "SELECT * FROM yume.schema_migrations ORDER BY version") == before


async def test_a_new_file_is_applied_alone(database_url, folder):
    await migrate(database_url, folder)
    (folder / "0900_adds_a_column.sql").write_text(HEADER + "ALTER TABLE yume.series ADD extra text;")
    assert await migrate(database_url, folder) == ["0900_adds_a_column.sql"]
    assert await _rows(database_url, "SELECT extra FROM yume.series") == []


async def test_an_applied_file_that_was_edited_is_refused_with_its_name_and_both_hashes(database_url, folder):
    await migrate(database_url, folder)
    file = folder / FILES[0]
    before = migrations.read(folder)[0].sha256
    file.write_text(file.read_text() + "-- harmless\n")
    after = migrations.read(folder)[0].sha256
    with pytest.raises(PermanentError, match=f"{FILES[0]} was edited") as refusal:
        await migrate(database_url, folder)
    assert before[:12] in str(refusal.value)
    assert after[:12] in str(refusal.value)
    assert before != after


async def test_a_file_that_another_tool_applied_has_no_hash_and_passes(database_url):
    await migrate(database_url, SCHEMAS)
    await _rows(database_url, "UPDATE yume.schema_migrations SET sha256 = NULL")
    assert await migrate(database_url, SCHEMAS) == []


async def test_a_migration_that_fails_leaves_nothing_of_itself_behind(database_url, folder):
    (folder / "0900_breaks.sql").write_text(HEADER + "CREATE TABLE yume.half (id int);\nSELECT 1 / 0;")
    (folder / "0901_never_reached.sql").write_text(HEADER + "CREATE TABLE yume.later (id int);")
    with pytest.raises(PermanentError, match="22012 DivisionByZeroError"):
        await migrate(database_url, folder)

    tables = await _rows(
        database_url, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'yume'"
    )
    assert {"half", "later"}.isdisjoint(row["table_name"] for row in tables)
    booked = await _rows(database_url, "SELECT name FROM yume.schema_migrations ORDER BY version")
    assert [row["name"] for row in booked] == FILES  # those before it stay

    (folder / "0900_breaks.sql").write_text(HEADER + "CREATE TABLE yume.half (id int);")
    assert await migrate(database_url, folder) == ["0900_breaks.sql", "0901_never_reached.sql"]


async def test_a_migration_that_cannot_be_booked_is_not_applied(database_url, folder):
    file = folder / "0900_breaks_the_book.sql"
    file.write_text(HEADER + "ALTER TABLE yume.schema_migrations DROP COLUMN name;")
    with pytest.raises(PermanentError, match='column "name"'):
        await migrate(database_url, folder)
    booked = await _rows(database_url, "SELECT name FROM yume.schema_migrations ORDER BY version")
    assert [row["name"] for row in booked] == FILES


async def test_the_lock_is_free_after_a_migration_that_failed(database_url, folder):
    (folder / "0900_breaks.sql").write_text(HEADER + "SELECT 1 / 0;")
    with pytest.raises(PermanentError):
        await migrate(database_url, folder)
    async with asyncio.timeout(10):
        assert await migrate(database_url, SCHEMAS) == []


async def test_the_book_has_the_shape_that_dbmate_reads(migrated_url):
    columns = await _rows(
        migrated_url,
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'yume' AND table_name = 'schema_migrations'",
    )
    assert {row["column_name"]: row["data_type"] for row in columns}["version"] == "character varying"
    key = await _rows(
        migrated_url,
        "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey) "
        "WHERE indrelid = 'yume.schema_migrations'::regclass AND indisprimary",
    )
    assert [row["attname"] for row in key] == ["version"]
    versions = await _rows(migrated_url, "SELECT version FROM yume.schema_migrations ORDER BY version")
    assert [row["version"] for row in versions] == [name[:4] for name in FILES]


def test_two_files_with_one_number_are_refused_with_both_names(folder):
    (folder / "0001_also_first.sql").write_text(HEADER)
    with pytest.raises(
        PermanentError, match=r"0001_also_first\.sql.*0001_tables\.sql|0001_tables.*0001_also"
    ):
        migrations.read(folder)


@pytest.mark.parametrize("name", ["12_short.sql", "0900-dashes.sql", "0900_Capitals.sql", "09000_long.sql"])
def test_a_name_that_is_no_migrations_is_refused(folder, name):
    (folder / name).write_text(HEADER)
    with pytest.raises(PermanentError, match=name):
        migrations.read(folder)


def test_a_file_without_the_header_is_refused(folder):
    (folder / "0900_no_header.sql").write_text("SELECT 1;")
    with pytest.raises(PermanentError, match=r"0900_no_header\.sql.*migrate:up"):
        migrations.read(folder)


def test_an_empty_folder_is_an_incomplete_installation(tmp_path):
    with pytest.raises(PermanentError, match="incomplete"):
        migrations.read(tmp_path)


def test_other_files_of_the_folder_are_no_migrations(folder):
    (folder / "schema.sql").write_text("-- for reading")
    assert [each.name for each in migrations.read(folder)] == FILES
