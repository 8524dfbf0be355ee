"""One migrated database for all queries: preparing one changes nothing."""

from __future__ import annotations

import asyncpg
import pytest


@pytest.fixture
def prepared(postgres, template):
    """Prepare a query on the migrated schema; a failure names what Postgres said."""

    async def prepare(query: str) -> None:
        connection = await asyncpg.connect(postgres.url.removesuffix("postgres") + template)
        try:
            await connection.prepare(query)
        except asyncpg.PostgresError as error:
            raise AssertionError(f"{error.sqlstate} {error}") from error
        finally:
            await connection.close()

    return prepare
