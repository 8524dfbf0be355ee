"""A log read once, however large: whole lines of its start and its end are kept, the rest is counted."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from yume.importers.streams import File

HEAD_BYTES: Final = 256 << 10  # of a log, kept from its start
TAIL_BYTES: Final = 4 << 20  # and from its end, where failures lie
CHUNK_BYTES: Final = 1 << 16
LINE_BYTES: Final = 1 << 18  # a longer line is passed on in pieces
BINARY_SHARE: Final = 0.05  # of control characters, and more than one: no text
_CONTROLS: Final = bytes({*range(32), 127} - set(b"\a\b\t\n\f\r\x1b"))
_NOT_CONTROLS: Final = bytes(set(range(256)) - set(_CONTROLS))
_ZEROS: Final = re.compile(rb"\x00{2,}")
_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(slots=True)
class Text:
    """What is kept of a log, and what was counted of all of it."""

    head: bytearray = field(default_factory=bytearray)
    tail: deque[bytes] = field(default_factory=deque)
    sha256: str = ""
    size: int = 0
    controls: int = 0
    left_out: int = 0
    lines_before_tail: int = 0
    _tail_bytes: int = 0
    _head_is_full: bool = False

    @property
    def is_binary(self) -> bool:
        """Tell whether it is no text; single control characters, zero bytes among them, do not make it so."""
        return self.controls > max(1, BINARY_SHARE * self.size)

    def take(self, lines: bytes) -> None:
        """Take whole lines that follow."""
        if not self._head_is_full:
            end = _fitting(lines, HEAD_BYTES - len(self.head), cut=not self.head)
            self.head += lines[:end]
            self.lines_before_tail += line_ends(lines[:end])
            self._head_is_full = end < len(lines)
            lines = lines[end:]
        if lines:
            self.tail.append(lines)
            self._tail_bytes += len(lines)
        while self._tail_bytes - len(self.tail[0] if self.tail else b"") >= TAIL_BYTES:
            dropped = self.tail.popleft()
            self._tail_bytes -= len(dropped)
            self.left_out += len(dropped)
            self.lines_before_tail += line_ends(dropped)

    def parts(self) -> list[tuple[int, str]]:
        """Return what was kept with its first line: one text, or two where something is left out between."""
        head, tail = bytes(self.head), b"".join(self.tail)
        if not self.left_out:
            return [(1, (head + tail).decode("utf-8", "replace"))]
        first = 1 + self.lines_before_tail
        return [(1, head.decode("utf-8", "replace")), (first, tail.decode("utf-8", "replace"))]


def kept(file: File, watch: Callable[[bytes], None]) -> Text:
    """Read a log once, keep its two ends, and show every line of it to `watch`."""
    text, digest = Text(), hashlib.sha256()
    for lines in _whole_lines(_utf8(_chunks(file, text, digest.update))):
        zeros_once = _ZEROS.sub(b"\0", lines) if b"\0\0" in lines else lines  # a crash leaves a run of them
        text.controls += len(zeros_once.translate(None, _NOT_CONTROLS))
        text.take(lines)
        watch(lines)
    text.sha256 = digest.hexdigest()
    return text


def line_ends(data: bytes) -> int:
    r"""Count line ends: \n, \r\n and a bare \r, each as one."""
    returns = data.count(b"\r")
    return data.count(b"\n") + (returns - data.count(b"\r\n") if returns else 0)


def _chunks(file: File, text: Text, digest: Callable[[bytes], None]) -> Iterator[bytes]:
    with file.path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest(chunk)
            text.size += len(chunk)
            yield chunk


def _utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass bytes on, those of a log in UTF-16 (as PowerShell writes) as UTF-8."""
    first = next(chunks, b"")
    encoding = _MARKS.get(first[:2])
    if encoding is None:
        yield first
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first[2:]).encode("utf-8", "replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for chunk in chunks:
        data = held + chunk
        end = _last_end(data)
        if not end and len(data) > LINE_BYTES:
            end = len(data) - data.endswith(b"\r")
        if end:
            yield data[:end]
        held = data[end:]
    if held:
        yield held


def _last_end(data: bytes) -> int:
    r"""Return where the last whole line ends; a \r at the very end may be the first half of \r\n."""
    return max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1


def _fitting(lines: bytes, room: int, *, cut: bool) -> int:
    """Return how many bytes of whole lines fit; where none does, a line that `cut` allows is cut."""
    if len(lines) <= room:
        return len(lines)
    return _last_end(lines[:room]) or cut * room
