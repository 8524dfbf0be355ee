"""The lesson slot of a platform: what S8 writes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Unpack

from pydantic import SecretStr

from yume.clients.addresses import path_segment
from yume.clients.http import Refused, Reply, Wire, WireOptions, open_wire
from yume.errors import PermanentError
from yume.ids import LessonSetId

EMPTY_VERSION: Final = "0"  # of a slot that was never written

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class SlotConflict(PermanentError):  # noqa: N818  # its base says Error, its name says what happened
    """`expected_version` is not the slot's version; what is there instead, None where the 409 did not say."""

    def __init__(self, message: str, *, current_version: str | None, sha256: str | None) -> None:
        super().__init__(message)
        self.current_version = current_version
        self.sha256 = sha256


@dataclass(frozen=True, slots=True)
class SlotText:
    """What the slot holds; the sha256 is that of the text which came."""

    version: str
    text: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Written:
    """The platform's receipt; `sha256` is None where it gave none, and the slot has to be read back."""

    version: str
    sha256: str | None


class Slot:
    """S8's face of a platform: reads, writes and restores one series' text."""

    def __init__(self, wire: Wire, /, *, not_found_is_empty: bool = False) -> None:
        self._wire = wire
        self._not_found_is_empty = not_found_is_empty

    async def read(self, series: str) -> SlotText:
        """Return the current version and text; version "0" is a slot that was never written."""
        reply = await self._wire.send("GET", _slot_path(series), expected={_NOT_FOUND})
        if reply.status == _NOT_FOUND:
            if self._not_found_is_empty:
                return SlotText(EMPTY_VERSION, "", _sha256(""))
            raise Refused(f"{reply.where} answered 404: there is no series {series!r}", status=_NOT_FOUND)
        slot = reply.object()
        empty = "version" in slot and slot["version"] is None
        text = slot.get("text")
        if text is None and empty:
            text = ""
        if not isinstance(text, str):
            raise PermanentError(f"{reply.where}: /text is no string")
        _check_sha256(reply, _sha256(text))
        return SlotText(EMPTY_VERSION if empty else _version(reply, slot), text, _sha256(text))

    async def write(
        self,
        series: str,
        *,
        text: str,
        lesson_set_id: LessonSetId,
        lesson_set_version: int,
        expected_version: str | None,
        key: str,
    ) -> Written:
        """Put the text into the slot; a TransientError may hide a success: repeat it with the same key."""
        digest = _sha256(text)
        body: dict[str, Any] = {
            "text": text,
            "sha256": digest,
            "lesson_set_id": str(lesson_set_id),
            "lesson_set_version": lesson_set_version,
        }
        return await self._post(series, body, expected_version=expected_version, key=key, digest=digest)

    async def restore(self, series: str, *, version: str, expected_version: str | None, key: str) -> Written:
        """Make an old version current; a platform that cannot answers 422, raised as `Refused`."""
        body = {"restore_version": _sent_version(version)}
        return await self._post(series, body, expected_version=expected_version, key=key, digest=None)

    async def _post(
        self,
        series: str,
        body: Mapping[str, Any],
        *,
        expected_version: str | None,
        key: str,
        digest: str | None,
    ) -> Written:
        expectation = (
            {} if expected_version is None else {"expected_version": _sent_version(expected_version)}
        )
        reply = await self._wire.send(
            "POST",
            _slot_path(series),
            body={**body, **expectation},
            idempotency_key=key,
            expected={_CONFLICT},
        )
        if reply.status == _CONFLICT:
            raise _conflict(reply, expected_version)
        receipt = reply.object()
        if digest is not None:
            _check_sha256(reply, digest)
        return Written(_version(reply, receipt), _stated_sha256(reply))


@asynccontextmanager
async def open_slot(
    base_url: str, token: SecretStr, *, not_found_is_empty: bool = False, **options: Unpack[WireOptions]
) -> AsyncIterator[Slot]:
    """Yield the slot behind a token that can only write it."""
    name = "slot token"
    async with open_wire(base_url, token, token_name=name, **options) as wire:
        yield Slot(wire, not_found_is_empty=not_found_is_empty)


def _version(reply: Reply, value: Mapping[str, Any]) -> str:
    version = _as_version(value.get("version"))
    if version is None:
        raise PermanentError(f"{reply.where} answered {reply.status} without a /version")
    return version


def _as_version(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _sent_version(version: str) -> int | str:
    """Give a version back in the type in which platforms hand it out."""
    return int(version) if re.fullmatch(r"0|[1-9][0-9]{0,17}", version) else version


def _stated_sha256(reply: Reply) -> str | None:
    stated = reply.value.get("sha256") if isinstance(reply.value, dict) else None
    return stated if isinstance(stated, str) else None


def _check_sha256(reply: Reply, digest: str) -> None:
    stated = _stated_sha256(reply)
    if stated not in {None, digest}:
        raise PermanentError(
            f"{reply.where}: the platform states sha256 {str(stated)[:64]}, the text has {digest}; "
            "a slot keeps its text byte for byte"
        )


def _conflict(reply: Reply, expected_version: str | None) -> SlotConflict:
    current = _as_version(reply.value.get("current_version")) if isinstance(reply.value, dict) else None
    return SlotConflict(
        f"{reply.where} answered 409: version {expected_version} was expected, "
        f"the slot is at {current or 'another'}",
        current_version=current,
        sha256=_stated_sha256(reply),
    )


def _slot_path(series: str) -> str:
    return f"/series/{path_segment(series)}/memory"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
