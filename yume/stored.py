"""A message as a stream holds it."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as a stream holds it; of a header that comes twice it has the last value."""

    sequence: int
    subject: str
    body: bytes
    headers: Mapping[str, str]
    stored_at: datetime

    @classmethod
    def from_api(cls, found: Mapping[str, Any]) -> Stored:
        """Read a message in the form in which the server's API tells it."""
        lines = b64decode(found.get("hdrs", "")).decode("utf-8", "replace").split("\r\n")[1:]
        headers = {
            name: value.strip() for name, mark, value in (line.partition(":") for line in lines) if mark
        }
        return cls(
            sequence=int(found["seq"]),
            subject=str(found["subject"]),
            body=b64decode(found.get("data", "")),
            headers=headers,
            stored_at=datetime.fromisoformat(found["time"]),
        )
