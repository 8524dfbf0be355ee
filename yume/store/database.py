"""The pool of connections, and the one place where Postgres' errors become Yume's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

import asyncpg

from yume.errors import PermanentError, TransientError

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Db: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]

_ACQUIRE_TIMEOUT_S: Final = 10
_COMMAND_TIMEOUT_S: Final = 60
_SERVER_SETTINGS: Final = {
    "application_name": "yume",
    "timezone": "UTC",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "60s",
}

# Another try may find Postgres back, the lock free or the other transaction gone.
_PASSING: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InvalidCachedStatementError,  # a migration ran: the next try prepares anew
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)

# An InterfaceError has no code: it is a mistake in the call, unless it says that what was called is gone.
_GONE: Final = ("closed", "closing", "released back to the pool")


@dataclass(frozen=True, slots=True)
class Database:
    """A pool whose errors are already Yume's."""

    pool: Pool

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Db]:
        """Lend a connection: for as long as queries take, never while a model or a platform answers."""
        with translated():
            async with self.pool.acquire(timeout=_ACQUIRE_TIMEOUT_S) as connection:
                yield connection


@contextmanager
def translated() -> Generator[None]:
    """Turn Postgres' errors into one that may pass and one that cannot."""
    try:
        yield
    except _PASSING as error:
        raise _passing(error) from error
    except asyncpg.InterfaceError as error:
        if any(word in str(error) for word in _GONE):
            raise _passing(error) from error
        raise PermanentError(f"Postgres was asked wrongly: {type(error).__name__}: {error}") from error
    except asyncpg.PostgresError as error:
        raise PermanentError(f"Postgres refused: {error.sqlstate} {_words(error)}") from error


def _words(error: asyncpg.PostgresError) -> str:
    """Say what was refused, not in which row: details quote the row, data errors quote the value."""
    if isinstance(error, asyncpg.DataError):
        return type(error).__name__
    return str(error.args[0]).partition("\n")[0] if error.args else type(error).__name__


def _passing(error: Exception) -> TransientError:
    return TransientError(f"Postgres: {type(error).__name__}: {error}", retry_in=timedelta(seconds=2))


@asynccontextmanager
async def open_database(url: str, *, size: int) -> AsyncGenerator[Database]:
    """Open a pool of at most `size` connections and close it again."""
    with translated():
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=size,
            command_timeout=_COMMAND_TIMEOUT_S,
            server_settings=_SERVER_SETTINGS,
            init=_read_json,
        )
    try:
        yield Database(pool)
    finally:
        await _close(pool)


async def _close(pool: Pool) -> None:
    """Close politely, then for good: a connection that hangs must not hold up the process."""
    try:
        async with asyncio.timeout(5):
            await pool.close()
    except TimeoutError:
        pool.terminate()


async def _read_json(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
