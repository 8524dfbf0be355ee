"""The file that a person names for what a command makes: whole or not there, and never one that is read."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from yume.errors import PermanentError

PART: Final = ".part"
READ_AS_RUNS: Final = frozenset({".json", ".jsonl", ".ndjson", ".xml", ".log", ".txt", ".eval"})
_FIRST_MODE: Final = 0o666  # less what the umask takes

Write = Callable[[bytes], object]


def refuse_source(path: Path, source: Path) -> None:
    """Refuse to write what is read: the file itself, or one that would be taken for runs the next time."""
    target, read = path.resolve(), source.resolve()
    same = target == read or (target.exists() and read.exists() and target.samefile(read))
    if same and read.is_file():
        raise PermanentError(f"{path} is the file that is read: name another one for --output")
    if read.is_dir() and target.is_relative_to(read) and target.suffix.lower() in READ_AS_RUNS:
        raise PermanentError(
            f"{path} lies in the folder that is read and would be taken for runs itself: "
            "name a place outside of it for --output"
        )


@contextmanager
def written(path: Path) -> Generator[Write]:
    """Write a file beside its place and put it there when it is whole.

    A link is followed; what is no file, such as a pipe, is written as it is.
    """
    target = path.resolve()
    with _told(path):
        special = target.exists() and not target.is_file()
    opened = _as_it_is(path, target) if special else _beside(path, target)
    with opened as stream:

        def write(data: bytes) -> None:
            with _told(path):
                stream.write(data)

        yield write


@contextmanager
def _as_it_is(path: Path, target: Path) -> Generator[BinaryIO]:
    with _told(path):
        stream = target.open("wb")
    try:
        yield stream
    finally:
        with _told(path):
            stream.close()


@contextmanager
def _beside(path: Path, target: Path) -> Generator[BinaryIO]:
    part = target.with_name(f".{secrets.token_hex(8)}{PART}")
    with _told(path):
        stream = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FIRST_MODE), "wb")
    try:
        yield stream
        with _told(path):
            if target.exists():
                os.fchmod(stream.fileno(), stat.S_IMODE(target.stat().st_mode))
            stream.close()
            part.replace(target)
    finally:
        with suppress(OSError):  # whoever left early is told why, not that the disk is full once more
            stream.close()
        part.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # whoever reads the pipe has seen enough
    except OSError as error:
        raise PermanentError(f"{path} cannot be written: {error.strerror}") from error
