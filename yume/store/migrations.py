"""Applies `schemas/postgres/*.sql`: forward only, each file once, however many processes start together."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg

from yume.errors import PermanentError
from yume.store.database import translated

if TYPE_CHECKING:
    from yume.store.database import Db

_LOCK: Final = 0x79756D65  # "yume"
_POLL_S: Final = 0.05
_FILE: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_HEADER: Final = "-- migrate:up\n"

# The shape of dbmate's own table, so that its command line works on the same folder and database.
_BOOK: Final = """
CREATE SCHEMA IF NOT EXISTS yume;
CREATE TABLE IF NOT EXISTS yume.schema_migrations (
  version    varchar PRIMARY KEY,
  name       text,
  sha256     text,
  applied_at timestamptz NOT NULL DEFAULT now()
);
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the folder."""

    version: str
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        """The hash by which an edit of an applied file is noticed."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def read(folder: Path) -> list[Migration]:
    """Return the folder's migrations in order; a name or a start that does not fit is refused."""
    files = sorted(folder.glob("[0-9]*.sql"))
    if not files:
        raise PermanentError(f"no migrations in {folder}: the installation is incomplete")
    found: dict[str, Migration] = {}
    for file in files:
        match = _FILE.fullmatch(file.name)
        if match is None:
            raise PermanentError(f"{file.name}: a migration is named like 0001_what_it_does.sql")
        text = file.read_text(encoding="utf-8")
        if not text.startswith(_HEADER):
            raise PermanentError(f"{file.name}: a migration starts with the line {_HEADER.strip()!r}")
        if match[1] in found:
            raise PermanentError(
                f"{file.name} and {found[match[1]].name} have one number: renumber the newer one"
            )
        found[match[1]] = Migration(match[1], file.name, text)
    return list(found.values())


async def migrate(url: str, folder: Path) -> list[str]:
    """Apply what is missing, each file in its own transaction; return the files applied now."""
    migrations = read(folder)
    with translated():
        connection = await asyncpg.connect(url, timeout=10)
        try:
            await _lock(connection)
            return await _apply(connection, migrations)
        finally:
            await connection.close()  # and with it the lock


async def _lock(db: Db) -> None:
    # Polled: a session that waits inside pg_advisory_lock holds a snapshot, and CREATE INDEX CONCURRENTLY
    # waits for that.
    while not await db.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK):  # noqa: ASYNC110  # as said
        await asyncio.sleep(_POLL_S)


async def _apply(db: Db, migrations: Sequence[Migration]) -> list[str]:
    await db.execute(_BOOK)
    rows = await db.fetch("SELECT version, sha256 FROM yume.schema_migrations")
    applied: dict[str, str | None] = {row["version"]: row["sha256"] for row in rows}
    names = []
    for migration in migrations:
        if migration.version in applied:
            _check_unchanged(migration, applied[migration.version])
            continue
        async with db.transaction():
            await db.execute(migration.sql)
            await db.execute(
                "INSERT INTO yume.schema_migrations (version, name, sha256) VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.sha256,
            )
        names.append(migration.name)
    return names


def _check_unchanged(migration: Migration, sha256: str | None) -> None:
    if sha256 is not None and sha256 != migration.sha256:
        raise PermanentError(
            f"{migration.name} was edited after it was applied (sha256 {sha256[:12]} then, "
            f"{migration.sha256[:12]} now): restore the file and write a new migration"
        )
