"""Reading files piece by piece: however large a file is, one piece of it is in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import ijson

from yume.domain.reading import LAST_YEAR
from yume.errors import PermanentError
from yume.importers.records import Imported, Json, NotOfFormatError, Piece, Unread

BROKEN: Final = (ijson.JSONError, ValueError, RecursionError)  # of a document that cannot be read on
PIECE_BYTES: Final = 32 << 20  # the longest line, and the longest item of a JSON document
_CHUNK: Final = 1 << 16
_SHOWN: Final = 60
_LAST_SECOND: Final = datetime(LAST_YEAR, 12, 31, tzinfo=UTC).timestamp()

Make = Callable[["File", str, Json], Imported]


@dataclass(frozen=True, slots=True)
class File:
    """A file that is read, and how places in it name it: by its path below what was asked about."""

    path: Path
    name: str

    @property
    def modified(self) -> str:
        """When it was written, by RFC 3339; a clock beyond the contract's years is brought back to them."""
        return datetime.fromtimestamp(min(max(self.path.stat().st_mtime, 0), _LAST_SECOND), UTC).isoformat()


def files(root: Path, *patterns: str) -> list[File]:
    """Return the file, or the folder's files that fit the patterns, by path; PermanentError if none does."""
    if root.is_file():
        return [File(root, root.name)]
    if not root.exists():
        raise PermanentError(f"{root}: no such file or folder")
    found = sorted({path for pattern in patterns for path in root.rglob(pattern) if path.is_file()})
    if not found:
        raise PermanentError(f"{root}: no file named {' or '.join(patterns)} in it")
    return [File(path, str(path.relative_to(root))) for path in found]


def json_pieces(file: File, make: Make, *, items: str = "item") -> Iterator[Piece]:
    """Read JSON a line each, or the items of one document at an ijson prefix such as `results.item`."""
    if is_document(file):
        yield from _document(file, make, "item" if _starts_with(file, b"[") else items)
    else:
        yield from _lines(file, make)


def is_document(file: File) -> bool:
    """Tell one JSON document from JSON lines: by its first sign, its name, and whether line one is whole."""
    if file.path.suffix in {".jsonl", ".ndjson"}:
        return False
    return _starts_with(file, b"[") or file.path.suffix == ".json" or not _has_whole_first_line(file)


def members(file: File, prefix: str) -> Iterator[tuple[str, Any] | Unread]:
    """Read the members of a JSON object one by one; "" is the whole document."""
    number = 0
    with file.path.open("rb") as stream:
        bounded = Bounded(stream)
        try:
            for name, value in ijson.kvitems(bounded, prefix, use_float=True):
                bounded.taken = 0
                number += 1
                yield name, value
        except BROKEN as error:
            yield rest_unread(file, number, error)


def rest_unread(file: File, number: int, error: Exception) -> Unread:
    """Say that a document breaks off behind so many of its items."""
    why = " ".join(str(error).split())[:200]
    return Unread(f"{file.name} after item {number}", f"the rest cannot be read: {why}")


def table(path: Path, key: str) -> dict[str, Json]:
    """Read a small table of JSON lines beside the runs, by one of its fields; without it, nothing."""
    if not path.is_file():
        return {}
    pieces = json_pieces(File(path, path.name), lambda _, place, item: Imported(place, item))
    rows = (each.record for each in pieces if isinstance(each, Imported))
    return {str(row[key]): row for row in rows if row.get(key)}


def lines(file: File) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that are not blank with their numbers from 1; None for one longer than PIECE_BYTES."""
    with file.path.open("rb") as stream:
        number = 0
        while line := stream.readline(PIECE_BYTES + 1):
            number += 1
            if len(line) > PIECE_BYTES:
                _skip_line(stream)
                yield number, None
            elif line.strip():
                yield number, line


def _lines(file: File, make: Make) -> Iterator[Piece]:
    for number, line in lines(file):
        place = f"{file.name} line {number}"
        if line is None:
            yield Unread(place, f"longer than {PIECE_BYTES >> 20} MiB")
            continue
        try:
            yield _made(file, place, json.loads(line.decode("utf-8-sig", "replace")), make)
        except RecursionError:
            yield Unread(place, "nested too deeply to be read")
        except ValueError as error:
            yield Unread(place, f"no JSON: {error}")


def _document(file: File, make: Make, prefix: str) -> Iterator[Piece]:
    number = 0
    with file.path.open("rb") as stream:
        bounded = Bounded(stream)
        try:
            for item in ijson.items(bounded, prefix, use_float=True):
                bounded.taken = 0
                number += 1
                yield _made(file, f"{file.name} item {number}", item, make)
        except BROKEN as error:
            yield rest_unread(file, number, error)


def _made(file: File, place: str, value: object, make: Make) -> Piece:
    if not isinstance(value, dict):
        return Unread(place, f"an object was expected, not {json.dumps(value)[:_SHOWN]}")
    try:
        return make(file, place, value)
    except NotOfFormatError as error:
        return Unread(place, str(error))


class TooLongError(ValueError):
    """A JSON document in which no item ends for PIECE_BYTES."""


class Bounded:
    """A stream that gives at most PIECE_BYTES for one item; whoever takes an item sets `taken` to 0."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.taken = 0

    def read(self, size: int = -1) -> bytes:
        """Read on."""
        if self.taken > PIECE_BYTES:
            raise TooLongError(f"no item ends within {PIECE_BYTES >> 20} MiB")
        data = self._stream.read(_CHUNK if size < 0 else size)
        self.taken += len(data)
        return data


def _skip_line(stream: BinaryIO) -> None:
    while chunk := stream.readline(_CHUNK):
        if chunk.endswith(b"\n"):
            return


def _starts_with(file: File, sign: bytes) -> bool:
    with file.path.open("rb") as stream:
        return stream.read(_CHUNK).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(sign)


def _has_whole_first_line(file: File) -> bool:
    first = next((line for _, line in lines(file)), None)
    try:
        return first is not None and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False
