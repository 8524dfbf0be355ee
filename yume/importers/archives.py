"""Zip archives read member by member: nothing is unpacked to disk, and no claim of an archive is believed."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import Final

from yume.importers.records import NotOfFormatError
from yume.importers.streams import PIECE_BYTES

if sys.version_info >= (3, 14):
    import zipfile

    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError, zipfile  # Inspect AI packs with zstd, which zipfile learns in 3.14

Archive = zipfile.ZipFile
Member = zipfile.ZipInfo

DIRECTORY_BYTES: Final = 8 << 20  # of an archive: about 100,000 members
BROKEN: Final = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    ValueError,
    RecursionError,
    RuntimeError,  # encrypted, or packed in a way that is not known
    OverflowError,
    struct.error,
    zlib.error,
    LZMAError,
    ZstdError,
)


@contextmanager
def opened(path: Path) -> Generator[Archive]:
    """Open an archive; any of BROKEN is one that cannot be read."""
    with Guarded(io.FileIO(path)) as stream, zipfile.ZipFile(stream) as archive:
        stream.largest = sys.maxsize
        yield archive


def unpacked(archive: Archive, member: Member) -> bytes:
    """Unpack a member of at most PIECE_BYTES; any of BROKEN is one that cannot be read."""
    if member.flag_bits & 1:
        raise NotOfFormatError("it is encrypted")
    if member.file_size > PIECE_BYTES:
        raise NotOfFormatError(f"longer than {PIECE_BYTES >> 20} MiB")
    with archive.open(member) as stream:
        data = stream.read(PIECE_BYTES + 1)
    if len(data) > PIECE_BYTES:
        raise NotOfFormatError(f"longer than {PIECE_BYTES >> 20} MiB")
    return data


class Guarded(io.BufferedReader):
    """A file of which at most `largest` bytes are read at once, as zipfile reads a list of members."""

    largest = DIRECTORY_BYTES

    def read(self, size: int | None = -1, /) -> bytes:
        """Read on; BadZipFile where that is too much."""
        if size is not None and size > self.largest:
            raise zipfile.BadZipFile(f"its list of members is longer than {self.largest >> 20} MiB")
        return super().read(size)
