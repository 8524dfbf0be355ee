"""The two interfaces over HTTP, as the platform contract says, and beside them a door to start batches."""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from yume.local.practice import listing
from yume.local.practice.book import Batch, Book
from yume.local.practice.listing import answer_page
from yume.local.practice.problems import ProblemError, answer_http_error, answer_problem

Handler = Callable[[Request], Awaitable[Response]]

_LARGEST_BATCH: Final = 1000
_OPTIONAL: Final = {
    "memory_read": True,
    "restore_version": "append",
    "proposals": True,
    "assignment": True,
    "expected_version": True,
    "paging": True,
}


@dataclass(frozen=True, slots=True)
class Door:
    """Everything that the handlers answer from."""

    book: Book
    kinds: tuple[str, ...]
    now: Callable[[], str]
    work: Callable[[Batch], Awaitable[object]]

    async def well_known(self, _request: Request) -> Response:
        """GET /.well-known/yume-platform."""
        statuses = {word: word for word in ("succeeded", "failed", "cancelled")}
        verifier = dict.fromkeys(self.kinds, True)
        return JSONResponse(
            {"contract": 1, "optional": _OPTIONAL, "statuses": statuses, "verifier": verifier}
        )

    async def tasks(self, request: Request) -> Response:
        """GET /tasks."""
        query = request.query_params
        named = listing.task_ids(query)
        wanted = {
            "series_id": query.get("series_id"),
            "ids": json.dumps(named) if named else None,
            "terminal": listing.flag(query, "terminal"),
            "finished_after": listing.moment(query, "finished_after"),
            "finished_before": listing.moment(query, "finished_before"),
        }
        return answer_page(request, lambda after, limit: self.book.tasks(wanted, after, limit))

    async def events(self, request: Request) -> Response:
        """GET /tasks/{id}/events."""
        task_id = request.path_params["task_id"]
        if not self.book.has_task(task_id):
            raise ProblemError(404, f"no task {task_id!r}")
        return self._parts(request, "event", [task_id])

    async def runs(self, request: Request) -> Response:
        """GET /runs."""
        return self._parts(request, "run", listing.required_task_ids(request.query_params))

    async def inquiries(self, request: Request) -> Response:
        """GET /inquiries."""
        return self._parts(request, "inquiry", listing.required_task_ids(request.query_params))

    async def proposals(self, request: Request) -> Response:
        """GET /series/{id}/memory/proposals."""
        series, status = self._series(request), request.query_params.get("status")
        return answer_page(request, lambda after, limit: self.book.proposals(series, status, after, limit))

    async def read_memory(self, request: Request) -> Response:
        """GET /series/{id}/memory."""
        series = self._series(request)
        return JSONResponse({"series_id": series, **asdict(self.book.slot.current(series))})

    async def write_memory(self, request: Request) -> Response:
        """POST /series/{id}/memory."""
        series = self._series(request)
        key = request.headers.get("idempotency-key")
        answer = self.book.slot.write(series, key or None, await _json_object(request), now=self.now())
        return JSONResponse(answer, 201)

    async def add_series(self, request: Request) -> Response:
        """PUT /practice/series/{id}."""
        self.book.add_series(request.path_params["series"])
        return Response(status_code=204)

    async def start_batch(self, request: Request) -> Response:
        """POST /practice/series/{id}/batches: answers at once; GET /tasks shows how far it is."""
        size = (await _json_object(request)).get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= _LARGEST_BATCH:
            raise ProblemError(422, f"size is {size!r}; send a whole number from 1 to {_LARGEST_BATCH}")
        batch = self.book.add_batch(request.path_params["series"], size)
        return JSONResponse(
            {"batch_id": batch.id, "size": size}, 202, background=BackgroundTask(self.work, batch)
        )

    def _parts(self, request: Request, kind: str, task_ids: list[str]) -> Response:
        return answer_page(request, lambda after, limit: self.book.parts(kind, task_ids, after, limit))

    def _series(self, request: Request) -> str:
        series: str = request.path_params["series"]
        if not self.book.has_series(series):
            raise ProblemError(404, f"no series {series!r}")
        return series


def make_app(door: Door, *, export_token: str, slot_token: str) -> Starlette:
    """Bind the handlers to their paths, each behind the one token that may use it."""

    def export(path: str, handler: Handler) -> Route:
        return Route(path, _behind(handler, export_token, other=slot_token), methods=["GET"])

    def slot(method: str, handler: Handler) -> Route:
        guarded = _behind(handler, slot_token, other=export_token)
        return Route("/series/{series}/memory", guarded, methods=[method])

    return Starlette(
        routes=[
            Route("/.well-known/yume-platform", door.well_known),
            export("/tasks", door.tasks),
            export("/tasks/{task_id}/events", door.events),
            export("/runs", door.runs),
            export("/inquiries", door.inquiries),
            export("/series/{series}/memory/proposals", door.proposals),
            slot("GET", door.read_memory),
            slot("POST", door.write_memory),
            Route("/practice/series/{series}", _loopback(door.add_series), methods=["PUT"]),
            Route("/practice/series/{series}/batches", _loopback(door.start_batch), methods=["POST"]),
        ],
        exception_handlers={ProblemError: answer_problem, HTTPException: answer_http_error},
    )


def _behind(handler: Handler, token: str, *, other: str) -> Handler:
    async def guarded(request: Request) -> Response:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and secrets.compare_digest(given.encode(), token.encode()):
            return await handler(request)
        if scheme.lower() == "bearer" and secrets.compare_digest(given.encode(), other.encode()):
            raise ProblemError(403, f"this token may not {request.method} {request.url.path}")
        raise ProblemError(401, "no bearer token that this platform knows")

    return guarded


def _loopback(handler: Handler) -> Handler:
    async def guarded(request: Request) -> Response:
        host = request.client.host if request.client else ""
        if not ipaddress.ip_address(host or "0.0.0.0").is_loopback:  # noqa: S104  # compared, never bound
            raise ProblemError(403, f"{request.url.path} is for this machine alone, not for {host!r}")
        return await handler(request)

    return guarded


async def _json_object(request: Request) -> Mapping[str, Any]:
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise ProblemError(400, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise ProblemError(400, f"the body is {type(body).__name__}; send a JSON object")
    return body
