"""Every message that Yume puts on the wire or takes off it: CloudEvents 1.0 as structured JSON."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

PREFIX: Final = "yume"
REASON_HEADER: Final = "Yume-Reason"
REPLAY_HEADER: Final = "Yume-Replay"
_FOLDER_LIMIT: Final = 128
_PLAIN_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Data(BaseModel):
    """What an event tells. Fields may be added, never changed or removed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    platform: str
    series: str


class RunBatch(Data):
    """One dream on its way from step to step: ids only, never payloads."""

    dream_id: UUID
    attempt: int = 1


class DreamFinished(RunBatch):
    """The last event of a dream that came through all nine steps."""

    number: int
    result: str
    reason: str | None = None
    counters: Mapping[str, int] = Field(default_factory=dict)
    usage: Mapping[str, Any] = Field(default_factory=dict)
    report: str | None = None


class ReplayRequested(Data):
    """Somebody wants a dream's batch reviewed once more from a step on; one `key` is one replay."""

    dream_id: UUID
    from_step: str
    key: str = Field(min_length=1, max_length=200)
    applies: bool = False
    by: str = "operator"
    why: str = "a stored message was published again"


class TaskFinished(Data):
    """A platform says that one of its tasks reached its end; S1 reads the truth from the export."""

    task_id: str = Field(min_length=1, max_length=512)
    status: str = Field(min_length=1, max_length=64)
    finished_at: AwareDatetime
    batch_id: str | None = Field(default=None, max_length=512)
    batch_finished: bool = False


class Event(BaseModel):
    """The CloudEvents envelope; `type` is the subject without its last two tokens."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    type: str
    time: AwareDatetime
    datacontenttype: Literal["application/json"] = "application/json"
    data: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Return the event as it travels."""
        return self.model_dump_json().encode()

    @property
    def subject(self) -> str:
        """Return the subject on which this event is published."""
        return subject(self.type, str(self.data["platform"]), str(self.data["series"]))


def event(kind: str, data: Data | Mapping[str, Any], *, key: str, at: datetime) -> Event:
    """Wrap data as the event `yume.<kind>`; the same `key` gives the same id, however often it is sent."""
    body = data.model_dump(mode="json") if isinstance(data, Data) else dict(data)
    return Event(id=key, source=f"/yume/{body['platform']}", type=f"{PREFIX}.{kind}", time=at, data=body)


def subject(kind: str, platform: str, series: str) -> str:
    """Return the subject of an event type for one series, such as `yume.dream.pulled.tobatsu.kamila`."""
    return f"{kind}.{token(platform)}.{token(series)}"


def every(kind: str) -> str:
    """Return the filter that takes an event type for all platforms and series."""
    return f"{kind}.*.*"


def token(name: str) -> str:
    """Return an outside id as one subject token: no id can add a dot, a space or a wildcard."""
    if _PLAIN_TOKEN.fullmatch(name):
        return name
    return "~" + base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def folder_name(name: str) -> str:
    """Return an outside id as one part of an archive key: a token, hashed where it would be too long."""
    found = token(name)
    return found if len(found) <= _FOLDER_LIMIT else f"~~{hashlib.sha256(found.encode()).hexdigest()}"
