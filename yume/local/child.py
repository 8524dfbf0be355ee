"""A child process that writes to a log and does not outlive the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yume.errors import PermanentError

_PREDECESSOR_PATIENCE_S = 15.0
_TAIL_CHARACTERS = 2_000

# Runs in a fresh interpreter that then becomes the program: `preexec_fn` may deadlock beside threads.
# A change of user clears the death signal, so the signal is asked for last.
_GUARD = """\
import ctypes, os, sys
parent, death_signal, uid, gid = map(int, sys.argv[1:5])
if uid:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal)
if os.getppid() != parent:
    sys.exit("the process that started this one is already gone")
try:
    os.execvp(sys.argv[5], sys.argv[5:])
except OSError as error:
    sys.exit(f"{sys.argv[5]}: {error.strerror}")
"""


@dataclass(frozen=True, slots=True)
class User:
    """The account that a child of root changes to."""

    uid: int
    gid: int


def spawn(
    argv: Sequence[str | Path],
    *,
    log: int,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    user: User | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own; on Linux it gets `death_signal` when the calling thread ends.

    Call it from a thread that lives as long as the program should: the main thread. `env` None means
    inherited, else it is the whole environment.
    """
    account = user or User(0, 0)
    guard = [sys.executable, "-I", "-S", "-c", _GUARD]
    facts = [os.getpid(), int(death_signal), account.uid, account.gid]
    guarded = sys.platform == "linux"
    dropped = user is not None and not guarded
    return subprocess.Popen(  # noqa: S603  # runs what its caller names, never a shell
        [*guard, *map(str, facts), *map(str, argv)] if guarded else [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=cwd,
        env=env,
        user=account.uid if dropped else None,
        group=account.gid if dropped else None,
        extra_groups=[] if dropped else None,
        start_new_session=True,  # Ctrl-C reaches the parent only, which stops its children in order
    )


class Child:
    """What a server and a worker have in common once they run."""

    stop_signal = signal.SIGTERM
    grace_s = 20.0

    def __init__(self, log: Path) -> None:
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def running(self) -> bool:
        """Whether the process is alive now."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id, None when it does not run."""
        return self.process.pid if self.process is not None and self.running else None

    def terminate(self) -> None:
        """Ask it to stop and return at once."""
        if self.process is not None and self.running:
            self.process.send_signal(self.stop_signal)

    def stop(self) -> None:
        """Ask it to stop, wait `grace_s`, then kill it."""
        self.terminate()
        if self.process is not None:
            try:
                self.process.wait(self.grace_s)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it without a chance to clean up, as a crash or an operator's `kill -9` would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def output(self) -> str:
        """Return the last 2,000 characters that it wrote since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")[-_TAIL_CHARACTERS:].strip()

    def _spawn(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        user: User | None = None,
    ) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self.process = spawn(
                argv, log=log.fileno(), cwd=cwd, env=env, user=user, death_signal=self.stop_signal
            )


def works_in(pid: int, folder: Path) -> bool:
    """Say whether this process lives and has the folder as its working directory; Linux only, else False."""
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()
    except OSError:
        return False


def wait_for_predecessor(pid: int, folder: Path) -> None:
    """Wait while a server whose parent died is still closing the folder that the next one will open."""
    deadline = time.monotonic() + _PREDECESSOR_PATIENCE_S
    while works_in(pid, folder):
        if time.monotonic() > deadline:
            raise PermanentError(
                f"{folder} is in use by process {pid} for {_PREDECESSOR_PATIENCE_S:.0f} s: stop that process"
            )
        time.sleep(0.02)
