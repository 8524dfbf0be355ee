"""What the platform remembers, in one SQLite file: it survives kill -9 of its process, not a power cut."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from yume.local.practice.slot import Slot
from yume.local.practice.transcript import Item, Transcript

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tokens (name TEXT PRIMARY KEY, token TEXT);
CREATE TABLE IF NOT EXISTS series (id TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS batches (
    id TEXT PRIMARY KEY, series_id TEXT, number INTEGER, size INTEGER, UNIQUE (series_id, number)
);
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY, series_id TEXT, batch_id TEXT, finished_at TEXT, body TEXT
);
CREATE INDEX IF NOT EXISTS tasks_by_end ON tasks (series_id, finished_at, id);
CREATE TABLE IF NOT EXISTS parts (
    kind TEXT, task_id TEXT, number INTEGER, body TEXT, PRIMARY KEY (kind, task_id, number)
);
CREATE TABLE IF NOT EXISTS proposals (
    number INTEGER PRIMARY KEY AUTOINCREMENT, series_id TEXT, status TEXT, body TEXT
);
"""

_TASKS: Final = """
SELECT coalesce(finished_at, '~'), id, body FROM tasks
WHERE (:series_id IS NULL OR series_id = :series_id)
  AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
  AND (:terminal IS NULL OR (finished_at IS NOT NULL) = :terminal)
  AND (:finished_after IS NULL OR finished_at >= :finished_after)
  AND (:finished_before IS NULL OR finished_at < :finished_before)
  AND (coalesce(finished_at, '~'), id) > (:time, :id)
ORDER BY 1, 2 LIMIT :limit
"""  # '~' sorts after every time: what still runs comes last

_PARTS: Final = """
SELECT task_id, number, body FROM parts
WHERE kind = :kind AND task_id IN (SELECT value FROM json_each(:ids))
  AND (task_id, number) > (:task_id, :number)
ORDER BY 1, 2 LIMIT :limit
"""

_PROPOSALS: Final = """
SELECT number, body FROM proposals
WHERE series_id = :series_id AND (:status IS NULL OR status = :status) AND number > :number
ORDER BY 1 LIMIT :limit
"""

Key = tuple[str | int, ...]
Row = tuple[Key, Item]


@dataclass(frozen=True, slots=True)
class Batch:
    """A number of tasks that are set together; batches of a series are numbered from 1."""

    id: str
    series: str
    number: int
    size: int


class Book:
    """The platform's database. Listings take the key after which to go on, and return keys with items."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)
        self.slot = Slot(self._db)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def token(self, name: str) -> str:
        """Return the token of that name, drawn when it is first asked for."""
        self._db.execute("INSERT OR IGNORE INTO tokens VALUES (?, ?)", (name, secrets.token_urlsafe(24)))
        token: str = self._db.execute("SELECT token FROM tokens WHERE name = ?", (name,)).fetchone()[0]
        return token

    def add_series(self, series: str) -> None:
        """Open a series with an empty slot; an existing one stays as it is."""
        self._db.execute("INSERT OR IGNORE INTO series VALUES (?)", (series,))

    def has_series(self, series: str) -> bool:
        """Tell whether there is such a series."""
        return self._db.execute("SELECT 1 FROM series WHERE id = ?", (series,)).fetchone() is not None

    def has_task(self, task_id: str) -> bool:
        """Tell whether there is such a task."""
        return self._db.execute("SELECT 1 FROM tasks WHERE id = ?", (task_id,)).fetchone() is not None

    def add_batch(self, series: str, size: int) -> Batch:
        """Open the next batch of a series."""
        self.add_series(series)
        (number,) = self._db.execute(
            "SELECT coalesce(max(number), 0) + 1 FROM batches WHERE series_id = ?", (series,)
        ).fetchone()
        batch = Batch(f"{series}-{number:04d}", series, number, size)
        self._db.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (batch.id, series, number, size))
        return batch

    def start(self, task: Item) -> None:
        """Show a task as running."""
        self._db.execute(
            "INSERT INTO tasks VALUES (?, ?, ?, NULL, ?)",
            (task["id"], task["series_id"], task["batch_id"], json.dumps(task)),
        )

    def finish(self, transcript: Transcript) -> None:
        """Show a task with all that belongs to it in its terminal state, at once."""
        task = transcript.task
        parts = {"run": transcript.runs, "event": transcript.events, "inquiry": transcript.inquiries}
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            self._end(task)
            self._db.executemany(
                "INSERT INTO parts VALUES (?, ?, ?, ?)",
                [
                    (kind, task["id"], number, json.dumps(item))
                    for kind, items in parts.items()
                    for number, item in enumerate(items, start=1)
                ],
            )
            self._db.executemany(
                "INSERT INTO proposals (series_id, status, body) VALUES (?, 'pending', ?)",
                [(task["series_id"], json.dumps(item)) for item in transcript.proposals],
            )

    def cancel_running(self, now: str) -> None:
        """Cancel every task that a process which is gone had left running."""
        for (body,) in self._db.execute("SELECT body FROM tasks WHERE finished_at IS NULL").fetchall():
            self._end(json.loads(body) | {"status": "cancelled", "finished_at": now})

    def _end(self, task: Item) -> None:
        self._db.execute(
            "UPDATE tasks SET finished_at = ?, body = ? WHERE id = ?",
            (task["finished_at"], json.dumps(task), task["id"]),
        )

    def tasks(self, wanted: Mapping[str, Any], after: Key, limit: int) -> list[Row]:
        """List tasks by (finished_at, id); `wanted` holds the filters of GET /tasks, None where not given."""
        time, task_id = after or ("", "")
        rows = self._db.execute(_TASKS, {**wanted, "time": time, "id": task_id, "limit": limit})
        return [((time, task_id), json.loads(body)) for time, task_id, body in rows]

    def parts(self, kind: str, task_ids: Sequence[str], after: Key, limit: int) -> list[Row]:
        """List the runs, events or inquiries of tasks, by task id and their order in it."""
        task_id, number = after or ("", 0)
        place = {"task_id": task_id, "number": number, "limit": limit}
        rows = self._db.execute(_PARTS, {"kind": kind, "ids": json.dumps(task_ids), **place})
        return [((task_id, number), json.loads(body)) for task_id, number, body in rows]

    def proposals(self, series: str, status: str | None, after: Key, limit: int) -> list[Row]:
        """List the proposals of a series, oldest first."""
        (number,) = after or (0,)
        rows = self._db.execute(
            _PROPOSALS, {"series_id": series, "status": status, "number": number, "limit": limit}
        )
        return [((number,), json.loads(body)) for number, body in rows]
