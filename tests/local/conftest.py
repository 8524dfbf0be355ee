"""Folders for servers of a test's own, and another user to run them as."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PATHS = f"{_ROOT}{os.pathsep}{sysconfig.get_path('purelib')}"


@pytest.fixture
def folder(server_folder: Path) -> Path:
    """A place for one server's data."""
    return server_folder / f"own-{secrets.token_hex(4)}"


@pytest.fixture
def wait_until() -> Callable[[Callable[[], object]], None]:
    """Wait for a state, at most 20 s."""

    def wait(reached: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20
        while not reached():
            assert time.monotonic() < deadline, "the state was not reached in 20 s"
            time.sleep(0.01)

    return wait


@pytest.fixture
def in_another_process() -> Callable[..., subprocess.Popen[str]]:
    """Start Python code that can import yume, in a process of its own."""

    def start(
        code: str, *words: str, python: str = sys.executable, **options: object
    ) -> subprocess.Popen[str]:
        path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.defpath}"
        return subprocess.Popen(
            [python, "-c", code, *words],
            env={"PATH": path, "PYTHONPATH": _PATHS, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


@pytest.fixture
def as_ordinary_user(in_another_process, server_folder: Path) -> Callable[[str], str]:
    """Run Python code as `nobody` with a folder of its own as its only argument; return what it printed."""
    if os.geteuid() != 0:
        pytest.skip("the whole session runs as an ordinary user")
    account = pwd.getpwnam("nobody")
    owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    python = next(
        (path for path in (sys.executable, shutil.which("python3", path="/usr/bin")) if _opens(path, owner)),
        None,
    )
    if python is None:
        pytest.skip("no Python 3.11 that `nobody` may run, or a checkout that it may not read")
    folder = server_folder / f"nobody-{secrets.token_hex(4)}"
    folder.mkdir()
    os.chown(folder, account.pw_uid, account.pw_gid)

    def run(code: str) -> str:
        process = in_another_process(code, str(folder), python=python, **owner)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out

    return run


def _opens(python: str | None, owner: dict[str, object]) -> bool:
    code = "import sys, yume.errors; sys.exit(sys.version_info < (3, 11))"
    try:
        return python is not None and not subprocess.call(
            [python, "-c", code], env={"PYTHONPATH": _PATHS}, cwd="/", stderr=subprocess.DEVNULL, **owner
        )
    except PermissionError:
        return False
