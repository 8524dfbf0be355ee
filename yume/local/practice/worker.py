"""The scripted worker: does each task of a batch with real commands, and minds the slot when it starts one.

It never runs a word of a lesson: a lesson only makes it choose between the two commands of a pitfall.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from yume.local.practice import shell
from yume.local.practice.book import Batch, Book
from yume.local.practice.dice import Dice
from yume.local.practice.habits import (
    Habits,
    Order,
    Way,
    first_way,
    harmed,
    in_trouble,
    next_way,
    order,
    proposes,
    rescue,
)
from yume.local.practice.pitfalls import Pitfall, Trouble
from yume.local.practice.transcript import Clock, Item, Transcript, timestamp

_AT_ONCE: Final = 2
_LIMIT_S: Final = 10.0

Told = Callable[[Item, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Worker:
    """Works on batches with its habits; what it draws depends on seed, series, batch and task alone."""

    book: Book
    pitfalls: tuple[Pitfall, ...]
    habits: Habits
    seed: int
    scratch: Path
    clock: Clock
    troubles: tuple[Trouble, ...]

    async def work(self, batch: Batch, told: Told) -> list[Item]:
        """Do all tasks of the batch, two at once; `told` hears of each as it ends, and how many are left."""
        created_at = timestamp(self.clock())
        gate = asyncio.Semaphore(_AT_ONCE)
        left = batch.size

        async def one(number: int) -> Item:
            nonlocal left
            async with gate:
                task = await self._task(self._order(batch, number), created_at)
                left -= 1
                await told(task, left)
                return task

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(1, batch.size + 1)]
        return [task.result() for task in tasks]

    def _order(self, batch: Batch, number: int) -> Order:
        return order(
            Dice.of(self.seed, batch.series, batch.number, number),
            self.pitfalls,
            self.habits,
            series=batch.series,
            batch_id=batch.id,
            number=number,
        )

    async def _task(self, order: Order, created_at: str) -> Item:
        slot = self.book.slot.injected(order.series, order.task_id)
        transcript = Transcript(order, slot, created_at=created_at, clock=self.clock)
        self.book.start(transcript.task)
        with TemporaryDirectory(dir=self.scratch) as name:
            await self._attempts(transcript, Path(name))
        transcript.close()
        self.book.finish(transcript)
        return transcript.task

    async def _attempts(self, transcript: Transcript, folder: Path) -> None:
        order, habits = transcript.order, self.habits
        await shell.run(order.text(order.pitfall.setup), folder, limit_s=_LIMIT_S)
        way = first_way(order, habits, transcript.lessons)
        for number in range(1, habits.attempts + 1):
            way = way if number == 1 else next_way(order, habits, number)
            await self._attempt(transcript, folder, way)
            if transcript.passed:
                break
        if transcript.passed and len(transcript.runs) > 1 and proposes(order, habits):
            transcript.propose()
        if not transcript.passed and in_trouble(order, habits, self.troubles) is None:
            await self._ask(transcript, folder)

    async def _ask(self, transcript: Transcript, folder: Path) -> None:
        effect = rescue(transcript.order, self.habits)
        transcript.ask(effect)
        if effect == "resumed":
            await self._attempt(transcript, folder, "remedy")

    async def _attempt(self, transcript: Transcript, folder: Path, way: Way) -> None:
        order = transcript.order
        artifact = folder / order.text(order.pitfall.output)
        artifact.unlink(missing_ok=True)
        command = order.command(way)
        run = transcript.begin(command)
        done = await shell.run(self._really_run(transcript, command), folder, limit_s=_LIMIT_S)
        check = f"[ -f {artifact.name} ] || {{ echo \"'{artifact.name}' is missing\"; exit 1; }}\n"
        verdict = await shell.run(check + order.text(order.pitfall.check), folder, limit_s=_LIMIT_S)
        transcript.end(run, done, verdict, artifact)

    def _really_run(self, transcript: Transcript, command: str) -> str:
        """Return what becomes of a command where the environment fails or a harmful lesson is followed."""
        order = transcript.order
        if trouble := in_trouble(order, self.habits, self.troubles):
            return trouble.command
        if harm := harmed(order, self.habits, transcript.lessons):
            return harm.spoiled(command, order.text(order.pitfall.output))
        return command
