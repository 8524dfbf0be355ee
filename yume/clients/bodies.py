"""What a platform answers: unpacked under a bound, and read as forgivingly as evidence needs."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any, Final

import httpx

from yume.errors import PermanentError, TransientError

_LONGEST_INTEGER: Final = 400  # digits; CPython itself refuses to read more than 4,300


async def read_body(response: httpx.Response, most: int, where: str) -> tuple[bytes, bool]:
    """Return at most `most` decoded bytes, and whether that is the whole body."""
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise PermanentError(f"{where} answered in Content-Encoding {encoding[:40]!r}; only gzip was offered")
    # httpx would unpack a chunk to any size before it can be counted.
    gzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
    data = bytearray()
    try:
        async for chunk in response.aiter_raw():
            room = most + 1 - len(data)
            data += gzip.decompress(chunk, room) if gzip else chunk[:room]
            if len(data) > most:
                return bytes(data[:most]), False
    except zlib.error as error:
        raise TransientError(f"{where} answered {response.status_code} with broken gzip: {error}") from error
    if gzip and data and (not gzip.eof or gzip.unused_data):
        raise TransientError(
            f"{where} answered {response.status_code} with gzip cut short after {len(data)} bytes"
        )
    return bytes(data), True


def parse(data: bytes) -> Any:
    """Read JSON as forgivingly as evidence needs: one odd value must not block a batch.

    Control characters inside strings and lone surrogates are kept; a byte that is no UTF-8 becomes a lone
    surrogate. NaN, infinities, floats too big for one and integers over 400 digits become null: unknown.
    Of equal keys the last wins.
    """
    return json.loads(
        data.decode("utf-8-sig", "surrogateescape"),
        strict=False,
        parse_constant=lambda _: None,
        parse_float=_finite,
        parse_int=_whole,
    )


def deeper_than(value: Any, levels: int) -> bool:
    """Say whether lists and objects are nested in one another more than `levels` deep."""
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        layer = [
            child
            for node in layer
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
    return bool(layer)


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _whole(text: str) -> int | None:
    return int(text) if len(text) <= _LONGEST_INTEGER else None
