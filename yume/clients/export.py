"""The run export of a platform: what S1 reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, Unpack

from pydantic import SecretStr

from yume.clients.addresses import path_segment
from yume.clients.http import Reply, Wire, WireOptions, open_wire
from yume.errors import PermanentError, TransientError

_IDS_PER_CALL: Final = 50
_PAGE_SIZE: Final = "100"
_ABSENT: Final = frozenset({404, 422})  # how a platform says that it lacks an optional part


class Export:
    """S1's face of a platform: each call returns the platform's own objects, all pages of them."""

    def __init__(self, wire: Wire, /) -> None:
        self._wire = wire

    async def tasks(
        self, series: str, *, finished_after: datetime | None, finished_before: datetime | None
    ) -> list[dict[str, Any]]:
        """Return the series' terminal tasks finished in [finished_after, finished_before)."""
        query = [("series_id", series), ("terminal", "true"), ("limit", _PAGE_SIZE)]
        for name, moment in (("finished_after", finished_after), ("finished_before", finished_before)):
            if moment is not None:
                query.append((name, _rfc3339(moment, name)))
        return await self._listing("/tasks", query)

    async def single_tasks(self, task_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return the tasks of these ids: a capability, without it `tasks` finds them by time."""
        return await self._of_tasks("/tasks", task_ids)

    async def task_events(self, task_id: str) -> list[dict[str, Any]]:
        """Return one task's events in order; TooLarge concerns this task alone."""
        return await self._listing(f"/tasks/{path_segment(task_id)}/events")

    async def runs(self, task_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return every attempt at these tasks."""
        return await self._of_tasks("/runs", task_ids)

    async def inquiries(self, task_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return every inquiry about these tasks."""
        return await self._of_tasks("/inquiries", task_ids)

    async def proposals(self, series: str) -> list[dict[str, Any]]:
        """Return the pending proposals of agents; none where the platform lacks this optional part."""
        path = f"/series/{path_segment(series)}/memory/proposals"
        return await self._listing(path, [("status", "pending")], optional=True)

    async def well_known(self) -> dict[str, Any] | None:
        """Return the document that says which optional parts exist, None where there is none."""
        reply = await self._wire.send("GET", "/.well-known/yume-platform", expected=_ABSENT)
        return None if reply.status in _ABSENT else reply.object()

    async def _of_tasks(self, path: str, task_ids: Sequence[str]) -> list[dict[str, Any]]:
        ids = list(dict.fromkeys(task_ids))
        found: list[dict[str, Any]] = []
        for first in range(0, len(ids), _IDS_PER_CALL):
            found += await self._listing(
                path, [("task_id", id_) for id_ in ids[first : first + _IDS_PER_CALL]]
            )
        return found

    async def _listing(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, optional: bool = False
    ) -> list[dict[str, Any]]:
        limits = self._wire.limits
        items: list[dict[str, Any]] = []
        seen: set[str] = set()
        place: list[tuple[str, str]] = []
        spent_bytes = 0
        for page in range(1, limits.max_pages + 1):
            reply = await self._wire.send(
                "GET",
                path,
                query=[*query, *place],
                expected=_ABSENT if optional and page == 1 else frozenset(),
                spent_bytes=spent_bytes,
            )
            if reply.status in _ABSENT:
                return []
            found, cursor = _page(reply)
            items += found
            if cursor is None:
                return items
            if cursor in seen:
                raise PermanentError(
                    f"{reply.where}: page {page} repeats the cursor {cursor[:80]!r}, there is no end"
                )
            seen.add(cursor)
            place = [("cursor", cursor)]
            spent_bytes += reply.size
        raise PermanentError(f"GET {path} has more than {limits.max_pages} pages: narrow the time span")


@asynccontextmanager
async def open_export(
    base_url: str, token: SecretStr, **options: Unpack[WireOptions]
) -> AsyncIterator[Export]:
    """Yield the export behind a token that can only read it."""
    name = "export token"
    async with open_wire(base_url, token, token_name=name, **options) as wire:
        yield Export(wire)


def _page(reply: Reply) -> tuple[list[dict[str, Any]], str | None]:
    """Split a listing's answer into its objects and the next cursor; a plain list is one page."""
    value = reply.value
    items = value.get("items") if isinstance(value, dict) else value
    cursor = value.get("next_cursor") if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise TransientError(f"{reply.where} answered {reply.status} with JSON that holds no list `items`")
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise PermanentError(f"{reply.where}: /items/{index} is {type(item).__name__}, no object")
    if cursor is None or cursor == "":
        return items, None
    if isinstance(cursor, bool) or not isinstance(cursor, str | int):
        raise PermanentError(f"{reply.where}: /next_cursor is {type(cursor).__name__}, no text")
    return items, str(cursor)


def _rfc3339(moment: datetime, name: str) -> str:
    if moment.tzinfo is None:
        raise PermanentError(f"{name}: a time without zone: {moment.isoformat()!r}")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
