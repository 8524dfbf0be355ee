"""What every archive holds its keys and objects to."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from yume.errors import PermanentError

_LONGEST_KEY: Final = 1024  # bytes, S3's limit
_LONGEST_PART: Final = 255  # bytes, a file system's limit
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")


class LostEvidence(PermanentError):  # noqa: N818  # its base says Error, its name says what happened
    """An object is missing or is not what was put: never to be read as "nothing happened"."""


def checked_key(key: str) -> str:
    """Return the key if it names the same place inside every archive: `a/b/c`, no step up, no empty part."""
    parts = key.split("/")
    if _FORBIDDEN.search(key) or any(part in {"", ".", ".."} for part in parts):
        raise PermanentError(
            f"the archive key {key[:200]!r} is not relative: give parts joined by /, none . or .."
        )
    if len(key.encode()) > _LONGEST_KEY or any(len(part.encode()) > _LONGEST_PART for part in parts):
        raise PermanentError(
            f"the archive key {key[:40]!r}… is too long: at most {_LONGEST_KEY} bytes, {_LONGEST_PART} a part"
        )
    return key


def sha256_of(data: bytes) -> str:
    """Return the lower-case hex digest."""
    return hashlib.sha256(data).hexdigest()


def missing(key: str, *, place: str) -> LostEvidence:
    """Say that nothing lies under the key."""
    return LostEvidence(f"{place} holds nothing under {key}: evidence is missing")


def taken(key: str, *, there: bytes, data: bytes, place: str) -> LostEvidence:
    """Say that other bytes lie under the key."""
    return LostEvidence(
        f"{place} holds other bytes under {key}: {sha256_of(there)} ({len(there)} bytes) is there, "
        f"{sha256_of(data)} ({len(data)} bytes) was to be put; an archived object is never replaced"
    )
