"""A platform made of prepared answers, served over real HTTP on loopback: it can play every fault."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

import pytest
import uvicorn
from pydantic import SecretStr
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from yume.clients.platform import Export, Limits, Slot, open_export, open_slot

TOKEN = "a-made-up-token-31"

Answer = Response | Callable[[], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str  # as it came, still percent-encoded
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)


@dataclass
class Platform:
    """Answers each path with its prepared answers in turn, and the last one again and again."""

    base_url: str
    answers: dict[tuple[str, str], list[Answer]] = field(default_factory=lambda: defaultdict(list))
    requests: list[Request] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self.answers[method, path] += answers

    def json(self, value, status=200, **headers: str) -> Response:
        return self.raw(json.dumps(value).encode(), status, **{"Content-Type": "application/json", **headers})

    def page(self, *items, next_cursor=None) -> Response:
        return self.json({"items": list(items), "next_cursor": next_cursor})

    def raw(self, body: bytes, status=200, **headers: str) -> Response:
        return Response(body, status, {name.replace("_", "-"): value for name, value in headers.items()})

    def gzipped(self, body: bytes) -> Response:
        return self.raw(gzip.compress(body), Content_Encoding="gzip")

    def drip(self) -> Callable[[], Awaitable[Response]]:
        """A body that never stops coming and never falls silent."""

        async def answer() -> Response:
            async def bytes_by_and_by() -> AsyncIterator[bytes]:
                while True:
                    yield b" "
                    await asyncio.sleep(0.01)

            return StreamingResponse(bytes_by_and_by())

        return answer

    def silence(self) -> Callable[[], Awaitable[Response]]:
        """The request is taken, and no answer ever comes."""

        async def answer() -> Response:
            await asyncio.Event().wait()
            raise AssertionError

        return answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        path = scope["raw_path"].decode()
        query = parse_qsl(scope["query_string"].decode(), keep_blank_values=True)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append(Request(scope["method"], path, query, headers, body))
        queue = self.answers.get((scope["method"], path)) or [self.raw(b"nothing is prepared here", 404)]
        answer = queue.pop(0) if len(queue) > 1 else queue[0]
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            response = answer if isinstance(answer, Response) else await self._or_gone(answer, receive)
            if response is not None:
                await response(scope, receive, send)
        finally:
            self.at_once -= 1

    async def _or_gone(self, answer: Callable[[], Awaitable[Response]], receive: Receive) -> Response | None:
        made, gone = asyncio.ensure_future(answer()), asyncio.ensure_future(receive())
        await asyncio.wait({made, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        return made.result() if made.done() else (made.cancel() and None)


@dataclass
class _Stage:
    """What the server of the session shows: another platform for each test."""

    platform: Platform | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.platform is not None
        await self.platform(scope, receive, send)


@pytest.fixture(scope="session")
def stage() -> Iterator[tuple[_Stage, str]]:
    stage = _Stage()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            stage,
            log_level="critical",
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield stage, f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def platform(stage: tuple[_Stage, str]) -> Platform:
    show, url = stage
    show.platform = Platform(url)
    return show.platform


@pytest.fixture
def limits() -> Limits:
    """Small enough to be met; a test module may have its own."""
    return Limits(max_response_bytes=20_000, max_pages=50, read_s=5, total_s=10)


@pytest.fixture
async def export(platform: Platform, limits: Limits) -> AsyncIterator[Export]:
    async with open_export(platform.base_url, SecretStr(TOKEN), limits=limits, allow_http=True) as export:
        yield export


@pytest.fixture
async def slot(platform: Platform, limits: Limits) -> AsyncIterator[Slot]:
    async with open_slot(platform.base_url, SecretStr(TOKEN), limits=limits, allow_http=True) as slot:
        yield slot
