"""The run archive as a folder: for one machine, and for tests."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yume.clients.objects import checked_key, missing, taken
from yume.errors import PermanentError, TransientError

_MAY_PASS: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EBUSY,
        errno.ESTALE,
    }
)


@dataclass(frozen=True, slots=True)
class FolderArchive:
    """Write-once files under `root`, which has to lie on a file system with hard links."""

    root: Path

    async def put(self, key: str, data: bytes, /) -> None:
        """Store the bytes durably; the same again is fine, others under a taken key are refused."""
        with self._translated(key):
            await asyncio.to_thread(self._put, key, data)

    async def get(self, key: str, /) -> bytes:
        """Return the bytes, or raise LostEvidence."""
        data = await self.find(key)
        if data is None:
            raise missing(key, place=str(self.root))
        return data

    async def find(self, key: str, /) -> bytes | None:
        """Return the bytes, or None; a root that is not there is an error, since it cannot say which."""
        with self._translated(key):
            return await asyncio.to_thread(self._find, key)

    def _put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        _make_durably(path.parent)
        descriptor, temporary = tempfile.mkstemp(prefix=".put-", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # Unlike a rename it never replaces: of several writers exactly one succeeds.
            os.link(temporary, path)
        except FileExistsError:
            there = path.read_bytes()
            if there != data:
                raise taken(key, there=there, data=data, place=str(self.root)) from None
        finally:
            Path(temporary).unlink()
        _sync(path.parent)

    def _find(self, key: str) -> bytes | None:
        path = self._path(key)
        if not self.root.is_dir():
            raise PermanentError(f"the archive's folder {self.root} is not there: is its volume mounted?")
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def _path(self, key: str) -> Path:
        root = self.root.resolve()
        path = (root / checked_key(key)).resolve()
        if not path.is_relative_to(root):
            raise PermanentError(f"the archive key {key!r} leads out of {root} through a symbolic link")
        return path

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{self.root}, key {key!r}: {error.strerror or error}"
            if error.errno in _MAY_PASS:
                raise TransientError(message) from error
            raise PermanentError(message) from error


def _make_durably(folder: Path) -> None:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)
        _sync(place.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
