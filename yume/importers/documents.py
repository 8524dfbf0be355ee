"""One JSON document, read in one pass however large it is: fields of its top, and its items."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, BinaryIO, Final, cast

import ijson
from ijson.common import ObjectBuilder

from yume.domain.reading import FIRST_YEAR, LAST_YEAR
from yume.importers.records import Json, Unread
from yume.importers.streams import BROKEN, Bounded, File, rest_unread

FIELD_VALUES: Final = 100_000  # of one field of the top; a larger one is left out
_STARTS: Final = frozenset({"start_map", "start_array"})
_ENDS: Final = frozenset({"end_map", "end_array"})
_NO_NUMBER: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)|-?\b(?:NaN|Infinity)\b', re.DOTALL)
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_WORD_AT_END: Final = re.compile(rb"[-A-Za-z]{1,9}\Z")


def head(file: File, names: Collection[str]) -> Json:
    """Take fields of a document's top, wherever in it they stand; of a broken one, those before the break."""
    found: Json = {}
    with file.path.open("rb") as stream, suppress(*BROKEN):
        for name, value in _tops(_readable(stream), names):
            found.setdefault(name, value)
            if len(found) == len(names):
                break
    return found


def items(file: File, prefix: str) -> Iterator[tuple[int, Any] | Unread]:
    """Read the items at an ijson prefix such as `samples.item`, numbered from 1."""
    number = 0
    with file.path.open("rb") as stream:
        bounded = _readable(stream)
        try:
            for item in ijson.items(bounded, prefix, use_float=True):
                bounded.taken = 0
                number += 1
                yield number, item
        except BROKEN as error:
            yield rest_unread(file, number, error)


def zoned(time: Any) -> str | None:
    """Return a time that the contract takes; one without a zone is not guessed."""
    try:
        read = datetime.fromisoformat(time)
    except (TypeError, ValueError):
        return None
    return str(time) if read.tzinfo and FIRST_YEAR <= read.year <= LAST_YEAR else None


def _tops(bounded: Bounded, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    depth, events, name = 0, 0, ""
    builder: ObjectBuilder | None = None
    for event, value in ijson.basic_parse(bounded, use_float=True):
        bounded.taken = 0
        depth -= event in _ENDS
        if depth == 1 and event == "map_key":
            name, events, builder = value, 0, ObjectBuilder() if value in names else None
            continue
        depth += event in _STARTS
        if builder is None:
            continue
        builder.event(event, value)
        events += 1
        if depth == 1:
            yield name, builder.value
        if depth == 1 or events == FIELD_VALUES:
            builder = None


def _readable(stream: BinaryIO) -> Bounded:
    return Bounded(cast("BinaryIO", Nulled(stream)))


class Nulled:
    """A stream in which NaN and Infinity, which programs write and JSON does not know, are null."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._held = b""
        self._quoted = False

    def read(self, size: int = -1) -> bytes:
        """Read on, never ending within a word or an escape."""
        while True:
            data = self._stream.read(size)
            whole = self._held + data
            end = _whole_until(whole) if data else len(whole)
            self._held = whole[end:]
            if end or not data:
                return self._plain(whole[:end])

    def _plain(self, data: bytes) -> bytes:
        quoted = self._quoted
        bare = _ESCAPED.sub(b"", data) if b"\\" in data else data
        self._quoted ^= bool(bare.count(b'"') & 1)
        if b"NaN" not in data and b"Infinity" not in data:
            return data
        within = b'"' * quoted
        return _NO_NUMBER.sub(_null, within + data).removeprefix(within)


def _null(found: re.Match[bytes]) -> bytes:
    return found[0] if found[0].startswith(b'"') else b"null"


def _whole_until(data: bytes) -> int:
    word = _WORD_AT_END.search(data, max(0, len(data) - 9))
    end = word.start() if word else len(data)
    slashes = end - len(data[:end].rstrip(b"\\"))
    return end - (slashes & 1)
