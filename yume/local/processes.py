"""Keeps a set of processes running, as an init system would on a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import structlog

from yume.errors import PermanentError
from yume.local.child import Child

_FIRST_DELAY_S = 0.2
_LONGEST_DELAY_S = 5.0
_SETTLED_AFTER_S = 30.0
_LOOK_EVERY_S = 0.05
_WORDS = 300  # of the log's last line

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class State:
    """How one process fares; `pid` is None while it waits for its next start."""

    name: str
    pid: int | None
    restarts: int


class Kept(Protocol):
    """What can be kept running: a program here, or a server that its owner stops."""

    @property
    def running(self) -> bool:
        """Whether it is alive now."""

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""

    @property
    def log(self) -> Path:
        """The file that it writes to."""

    def output(self) -> str:
        """Return the end of what it wrote since its last start."""

    def start(self) -> object:
        """Start it, and return when it is of use."""


class Program(Child):
    """A command line; `env` None means the environment of this process, else the whole one of the program."""

    def __init__(
        self, name: str, argv: Sequence[str], *, logs: Path, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(logs / f"{name}.log")
        self.name = name
        self.argv = tuple(argv)
        self.env = env

    def start(self) -> Self:
        """Start it; its output is appended to its log."""
        self._spawn(self.argv, env=self.env)
        return self


class Supervisor:
    """Runs programs from entry to exit, and starts again what died, after a growing delay.

    `servers` are watched in the same way but belong to whoever started them: the exit leaves them running.
    Enter it in the main thread: a child ends when the thread that started it does. A restart of a server
    blocks the event loop until that server is ready.
    """

    def __init__(
        self,
        programs: Iterable[Program],
        *,
        servers: Mapping[str, Kept] | None = None,
        grace_s: float = 20.0,
    ) -> None:
        self._programs = tuple(programs)
        named = {program.name: program for program in self._programs}
        self._kept: dict[str, Kept] = {**(servers or {}), **named}
        if len(self._kept) < len(self._programs) + len(servers or {}):
            raise PermanentError("two supervised processes have one name: give each its own")
        self._grace_s = grace_s
        self._restarts = dict.fromkeys(self._kept, 0)
        self._watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start what does not run yet, and keep it all running."""
        self._watching = [
            asyncio.create_task(self._keep(name, kept), name=f"keep {name}")
            for name, kept in self._kept.items()
        ]
        await asyncio.sleep(0)  # each task starts its process in its first step
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask all programs to stop, wait `grace_s` for them together, then kill what is left."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        await asyncio.gather(*(self._end(program) for program in self._programs))

    async def wait(self) -> None:
        """Wait until cancelled; raise what made the watching itself fail."""
        await asyncio.gather(*self._watching)

    def state(self) -> tuple[State, ...]:
        """Return one line a process: servers first, then programs in the order given."""
        return tuple(State(name, kept.pid, self._restarts[name]) for name, kept in self._kept.items())

    async def _keep(self, name: str, kept: Kept) -> None:
        delay_s = 0.0
        while True:
            up = kept.running or _start(name, kept)
            started = time.monotonic()
            await _end_of(kept)
            lived_s = time.monotonic() - started
            delay_s = next_delay(delay_s, lived_s=lived_s)
            if up:
                _tell_end(name, kept, lived_s, delay_s)
            await asyncio.sleep(delay_s)
            self._restarts[name] += 1

    async def _end(self, program: Program) -> None:
        program.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                await _end_of(program)
        program.kill()


def next_delay(previous_s: float, *, lived_s: float) -> float:
    """Return how long to wait before the next start: doubled each time, short again after a long life."""
    if previous_s == 0.0 or lived_s >= _SETTLED_AFTER_S:
        return _FIRST_DELAY_S
    return min(previous_s * 2, _LONGEST_DELAY_S)


async def _end_of(kept: Kept) -> None:
    while kept.running:  # noqa: ASYNC110  # nobody sets an event when a process dies
        await asyncio.sleep(_LOOK_EVERY_S)


def _tell_end(name: str, kept: Kept, lived_s: float, delay_s: float) -> None:
    log.warning(
        "process_ended",
        process=name,
        lived_s=round(lived_s, 1),
        restart_in_s=delay_s,
        last_words=kept.output().rpartition("\n")[2][-_WORDS:],
        log=str(kept.log),
    )


def _start(name: str, kept: Kept) -> bool:
    """Say whether it could be started."""
    try:
        kept.start()
    except (PermanentError, OSError) as error:  # the next try follows, after the delay
        log.error("process_not_started", process=name, error=str(error))  # noqa: TRY400  # its own words suffice
        return False
    return True
