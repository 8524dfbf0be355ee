"""Faults of a platform, switched on and off while it runs: they change its answers, never its state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REPEATED: Final = "repeated"
_TEXTS: Final = {"title", "text", "failure_reason", "output", "question", "answer"}
_HTML: Final = "<!doctype html><title>Sign in</title><p>Please sign in to go on.</p>"


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with the platform just now; as made, nothing is.

    `path` limits the faults to calls whose path holds it. `unanswered` carries a call out, then answers 503.
    """

    path: str = ""
    status: int | None = None
    retry_after: str | None = None
    unanswered: bool = False
    html: bool = False
    repeat_cursor: bool = False
    naive_times: bool = False
    odd_text: bool = False
    huge_bytes: int = 0
    slow_s: float = 0.0

    @property
    def refuses(self) -> bool:
        """Tell whether calls are answered without being carried out."""
        return self.status is not None or self.html

    @property
    def distorts(self) -> bool:
        """Tell whether answers are changed after the call was carried out."""
        return (
            self.repeat_cursor or self.naive_times or self.odd_text or self.huge_bytes > 0 or self.unanswered
        )


@dataclass(frozen=True, slots=True)
class Faulty:
    """The app as it answers under the faults that are on when a call comes in."""

    app: ASGIApp
    current: Callable[[], Faults]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        faults = self.current()
        if (
            scope["type"] != "http"
            or scope["path"].startswith("/practice/")
            or faults.path not in scope["path"]
        ):
            await self.app(scope, receive, send)
            return
        await asyncio.sleep(faults.slow_s)
        if faults.refuses:
            await _refusal(faults)(scope, receive, send)
        elif faults.distorts:
            response = await _carried_out(
                self.app, _without_cursor(scope) if faults.repeat_cursor else scope, receive
            )
            await _distorted(response, faults)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def distort(body: dict[str, Any], faults: Faults) -> dict[str, Any]:
    """Change a page as the faults say; the slot's answers, which are no pages, stay as they are."""
    if "items" not in body:
        return body
    items = body["items"]
    if faults.naive_times:
        items = _each_text(items, lambda name, text: text.removesuffix("Z") if _is_time(name) else text)
    if faults.odd_text:
        items = _each_text(items, lambda name, text: f"{text}\x00\ud800" if name in _TEXTS else text)
    if faults.huge_bytes and items:
        field = next(
            (name for name in ("text", "failure_reason", "answer", "title") if name in items[0]), "text"
        )
        items = [items[0] | {field: "x" * faults.huge_bytes}, *items[1:]]
    return body | {"items": items, "next_cursor": _REPEATED if faults.repeat_cursor else body["next_cursor"]}


def _is_time(name: str) -> bool:
    return name == "at" or name.endswith("_at")


def _each_text(value: Any, change: Callable[[str, str], str], name: str = "") -> Any:
    match value:
        case dict():
            return {key: _each_text(inner, change, key) for key, inner in value.items()}
        case list():
            return [_each_text(inner, change, name) for inner in value]
        case str():
            return change(name, value)
        case _:
            return value


def _refusal(faults: Faults) -> Response:
    if faults.html:
        return HTMLResponse(_HTML)
    headers = {"Retry-After": faults.retry_after} if faults.retry_after else None
    return JSONResponse(
        {"status": faults.status, "title": "a fault that was asked for"}, faults.status or 500, headers
    )


def _distorted(response: Response, faults: Faults) -> Response:
    if faults.unanswered:
        return JSONResponse({"status": 503, "title": "a fault that was asked for"}, 503)
    if response.status_code >= 300 or not bytes(response.body).startswith(b"{"):  # noqa: PLR2004  # 2xx alone
        return response
    body = distort(json.loads(bytes(response.body)), faults)
    # Escaped: a lone surrogate has no UTF-8 form, but JSON can name it.
    return Response(json.dumps(body).encode(), response.status_code, media_type="application/json")


async def _carried_out(app: ASGIApp, scope: Scope, receive: Receive) -> Response:
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    start, *parts = messages
    response = Response(b"".join(part.get("body", b"") for part in parts), start["status"])
    response.raw_headers = start["headers"]
    return response


def _without_cursor(scope: Scope) -> Scope:
    query = parse_qsl(scope["query_string"].decode(), keep_blank_values=True)
    return {**scope, "query_string": urlencode([pair for pair in query if pair[0] != "cursor"]).encode()}
