"""A real PostgreSQL from the wheel or from the system, on the loopback interface."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from yume.errors import PermanentError
from yume.local.child import Child, User, spawn, wait_for_predecessor
from yume.local.pginstall import find_binaries, reachable_by
from yume.local.ports import LOOPBACK, free_port, is_free, remember_port, remembered_port

_PATIENCE_S = 60.0
_PORT_PATIENCE_S = 5.0
_ORPHANS = "pre-existing shared memory block"  # backends of a killed server that have not noticed yet

_SETTINGS = MappingProxyType(
    {
        "listen_addresses": LOOPBACK,
        "unix_socket_directories": "",
        "logging_collector": "off",
        "max_connections": "100",
        "shared_buffers": "64MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
)


class Postgres(Child):
    """One PostgreSQL on a folder, at the same port on every start, durable.

    As root it runs as the data's owner, `postgres` or `nobody`. `settings` override the server's own.
    Blocking; start it from the main thread.
    """

    stop_signal = signal.SIGINT  # a fast shutdown: SIGTERM would wait for the last client
    grace_s = 15.0

    def __init__(
        self, folder: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder / "postgres.log")
        self.folder = folder
        self.data = folder / "data"
        self.settings = {**_SETTINGS, **(settings or {})}
        self._port = port

    @property
    def url(self) -> str:
        """The address of the database `postgres` as its superuser, once started."""
        return f"postgresql://postgres@{LOOPBACK}:{self._port}/postgres"

    def start(self) -> Self:
        """Start it, on first use make its data, and return when it takes connections.

        A PermanentError carries what the server said.
        """
        if self.running:
            return self
        self.folder.mkdir(parents=True, exist_ok=True)
        user = _account(self.data)
        binaries = reachable_by(user, find_binaries())
        if not (self.data / "PG_VERSION").exists():
            self._make_data(binaries, user)
        self._let_predecessor_go()
        self._port = self._port or remembered_port(self.folder) or free_port()
        _wait_until_free(self._port)
        self._launch(binaries, user)
        self._wait_until_ready(binaries, user)
        remember_port(self.folder, self._port)
        return self

    def _make_data(self, binaries: Path, user: User | None) -> None:
        """Make it under another name first: an interrupted start leaves no half-made data behind."""
        new = self.folder / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if user is not None:
            os.chown(new, user.uid, user.gid)
        choices = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        with self.log.open("ab") as log:
            start = log.tell()
            argv = [str(binaries / "initdb"), f"--pgdata={_place(new, user)}", *choices]
            code = spawn(argv, log=log.fileno(), cwd=new, user=user).wait()
        if code != 0:
            said = self.log.read_bytes()[start:].decode(errors="replace").strip()
            raise PermanentError(f"initdb in {self.folder} ended with {code}: {said}")
        new.rename(self.data)

    def _let_predecessor_go(self) -> None:
        pid_file = self.data / "postmaster.pid"
        try:
            first, *rest = pid_file.read_text().splitlines()
            pid = int(first)
        except (FileNotFoundError, ValueError):
            return
        wait_for_predecessor(pid, self.data)
        # After kill -9 or in a restarted container the number may belong to a stranger, and PostgreSQL would
        # refuse to start. It takes the pid of its parent for stale, and still looks for orphaned backends.
        pid_file.write_text("\n".join([str(os.getpid()), *rest, ""]))

    def _launch(self, binaries: Path, user: User | None) -> None:
        settings = {**self.settings, "port": str(self._port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        program = binaries / "postgres"
        self._spawn([program, "-D", _place(self.data, user), *options], cwd=self.data, user=user)

    def _wait_until_ready(self, binaries: Path, user: User | None) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._ready():
            if time.monotonic() > deadline:
                self.kill()
                raise PermanentError(
                    f"PostgreSQL on {self.folder} was not ready after {_PATIENCE_S:.0f} s: {self.output()}"
                )
            if not self.running:
                if _ORPHANS not in self.output():
                    raise PermanentError(f"PostgreSQL on {self.folder} did not start: {self.output()}")
                self._launch(binaries, user)
            time.sleep(0.01)

    def _ready(self) -> bool:
        """Read the server's own word; a killed predecessor's file says `ready` too, under another pid."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return self.running and lines[:1] == [str(self.pid)] and lines[-1].strip() == "ready"


def _account(data: Path) -> User | None:
    """Choose whom the server runs as when we are root, which PostgreSQL refuses to be; None: as we are."""
    owner = data.stat() if data.exists() else None
    if os.geteuid() != 0:
        if owner is not None and owner.st_uid != os.geteuid():
            raise PermanentError(f"{data} belongs to user id {owner.st_uid}: start as that user or as root")
        return None
    if owner is not None and owner.st_uid != 0:
        return User(owner.st_uid, owner.st_gid)
    accounts = {entry.pw_name: entry for entry in pwd.getpwall()}
    for name in ("postgres", "nobody"):
        if name in accounts:
            return User(accounts[name].pw_uid, accounts[name].pw_gid)
    raise PermanentError("PostgreSQL refuses to run as root and there is no user postgres or nobody: add one")


def _place(folder: Path, user: User | None) -> str:
    """Name the working directory so that a user who may not walk down to it, as under /root, can open it."""
    return "/proc/self/cwd" if user is not None and sys.platform == "linux" else str(folder.resolve())


def _wait_until_free(port: int) -> None:
    deadline = time.monotonic() + _PORT_PATIENCE_S  # a killed server's children hold the port for an instant
    while not is_free(port):
        if time.monotonic() > deadline:
            raise PermanentError(f"port {port} of {LOOPBACK} is taken by another process: choose another one")
        time.sleep(0.02)
