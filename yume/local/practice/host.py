"""The practice platform as one thing: opened on a folder, served on loopback, worked batch by batch."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import uvicorn

from yume.local.practice.app import Door, make_app
from yume.local.practice.book import Batch, Book
from yume.local.practice.faults import Faults, Faulty
from yume.local.practice.habits import Habits
from yume.local.practice.pitfalls import Pitfall, load, load_troubles
from yume.local.practice.transcript import Clock, Item, timestamp
from yume.local.practice.worker import Worker

_LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 128
_PATIENCE_S: Final = 5  # for calls and batches that are under way when serving ends

Callback = Callable[[dict[str, Any]], Awaitable[None]]


def wall_clock() -> datetime:
    """Return the time: this platform stands outside Yume, and keeps its own clock."""
    return datetime.now(UTC)  # noqa: TID251  # not Yume's time, the platform's


class Practice:
    """A task platform that really runs its tasks, with everything it knows in one folder.

    `callbacks`, where set, is awaited with the data of `yume.task.finished` for each task, after the export
    shows it. `faults` may be replaced at any time. `book` is the platform's own view, without tokens.
    """

    def __init__(
        self,
        folder: Path,
        *,
        habits: Habits | None = None,
        seed: int = 0,
        pitfalls: tuple[Pitfall, ...] | None = None,
        name: str = "practice",
        clock: Clock = wall_clock,
    ) -> None:
        scratch = folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        self.name = name
        self.callbacks: Callback | None = None
        self.faults = Faults()
        self._clock = clock
        self.book = Book(folder / "practice.sqlite")
        self.book.cancel_running(self._now())
        pitfalls = pitfalls or load()
        self._kinds = tuple(sorted({pitfall.kind for pitfall in pitfalls}))
        self._worker = Worker(self.book, pitfalls, habits or Habits(), seed, scratch, clock, load_troubles())
        self.export_token = self.book.token("export")
        self.slot_token = self.book.token("slot")

    def close(self) -> None:
        """Close the platform's file; what it holds is there again when the folder is opened next."""
        self.book.close()

    def add_series(self, series: str) -> None:
        """Open a series with an empty slot; `run_batch` does it by itself."""
        self.book.add_series(series)

    async def run_batch(
        self, series: str, size: int, *, on_task: Callable[[Item], None] | None = None
    ) -> list[Item]:
        """Run the next batch of a series to its end, and return its tasks as the export shows them."""
        return await self._work(self.book.add_batch(series, size), on_task)

    @contextlib.asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[str]:
        """Serve both interfaces on 127.0.0.1, on a free port unless one is named; gives the base URL."""
        with _listening(port) as door:
            server = _Server(
                uvicorn.Config(
                    self._app(),
                    log_level="warning",
                    access_log=False,
                    lifespan="off",
                    ws="none",
                    timeout_graceful_shutdown=_PATIENCE_S,
                )
            )
            running = asyncio.create_task(server.serve(sockets=[door]))
            try:
                yield f"http://{_LOOPBACK}:{door.getsockname()[1]}"
            finally:
                server.should_exit = True
                await running

    async def _work(self, batch: Batch, on_task: Callable[[Item], None] | None = None) -> list[Item]:
        async def told(task: Item, left: int) -> None:
            if on_task:
                on_task(task)
            if self.callbacks:
                await self.callbacks(self._ended(task, last=left == 0))

        return await self._worker.work(batch, told)

    def _ended(self, task: Item, *, last: bool) -> dict[str, Any]:
        data = {
            "platform": self.name,
            "series": task["series_id"],
            "task_id": task["id"],
            "status": task["status"],
            "finished_at": task["finished_at"],
            "batch_id": task["batch_id"],
        }
        return data | {"batch_finished": True} if last else data

    def _app(self) -> Faulty:
        door = Door(self.book, self._kinds, self._now, self._work)
        app = make_app(door, export_token=self.export_token, slot_token=self.slot_token)
        return Faulty(app, lambda: self.faults)

    def _now(self) -> str:
        return timestamp(self._clock())


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program around it."""
        yield


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    """Listen at once, so that a call made before the server is up waits for it and is not refused."""
    with socket.socket() as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((_LOOPBACK, port))
        door.listen(_BACKLOG)
        yield door
