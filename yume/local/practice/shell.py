"""Runs one command of a task as a real subprocess, in the task's own folder and for a limited time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: `exit_code` and `signal` (its name) exclude each other."""

    exit_code: int | None
    signal: str | None
    stdout: str
    stderr: str
    timed_out: bool = False


async def run(command: str, folder: Path, *, limit_s: float) -> Ended:
    """Run the command with /bin/sh in the folder; past its limit it is killed with all that it started.

    Nothing of Yume's own environment reaches it.
    """
    process = await _started(command, folder)
    reading = asyncio.ensure_future(process.communicate())
    try:
        done, _ = await asyncio.wait({reading}, timeout=limit_s)
    finally:
        if not reading.done():
            _kill_group(process)
            await asyncio.wait({reading})
    out, err = reading.result()
    return _ended(process.returncode, out, err, timed_out=not done)


async def _started(command: str, folder: Path) -> Process:
    env = {"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C", "TZ": "UTC0"}
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command),
            cwd=folder,
            env=env,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # asyncio would kill the shell alone and then wait for its children to close the pipes.
        process = await starting
        _kill_group(process)
        await process.communicate()
        raise


def _kill_group(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ended(returncode: int | None, out: bytes, err: bytes, *, timed_out: bool) -> Ended:
    assert returncode is not None
    killed = returncode < 0
    return Ended(
        exit_code=None if killed else returncode,
        signal=signal.Signals(-returncode).name if killed else None,
        stdout=out.decode("utf-8", "replace"),
        stderr=err.decode("utf-8", "replace"),
        timed_out=timed_out,
    )
