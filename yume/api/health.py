"""`/livez`: the process answers. `/readyz`: what it needs is there, and if not, what is missing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from yume.errors import YumeError

LOOPBACK: Final = "127.0.0.1"
CHECK_TIMEOUT_S: Final = 5.0
_PATIENCE_S: Final = 5
_UNAVAILABLE: Final = 503


class Check(Protocol):
    """One thing that a process needs."""

    async def __call__(self) -> str | None:
        """Return what is wrong; None if nothing is."""
        ...


def make_app(checks: Mapping[str, Check]) -> Starlette:
    """Return the two endpoints; readiness answers 503 and names every check that failed."""

    async def livez(request: Request) -> JSONResponse:
        del request
        return JSONResponse({"status": "alive"})

    async def readyz(request: Request) -> JSONResponse:
        del request
        results = await asyncio.gather(*(_result(check) for check in checks.values()))
        wrong = {name: found for name, found in zip(checks, results, strict=True) if found is not None}
        if wrong:
            return JSONResponse({"status": "not ready", "wrong": wrong}, status_code=_UNAVAILABLE)
        return JSONResponse({"status": "ready", "checks": sorted(checks)})

    return Starlette(routes=[Route("/livez", livez), Route("/readyz", readyz)])


async def _result(check: Check) -> str | None:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_S:g} s"
    except YumeError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # a check that breaks finds nothing ready
        return f"the check itself failed: {type(error).__name__}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the endpoints answer."""

    port: int

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://{LOOPBACK}:{self.port}"


@contextlib.asynccontextmanager
async def serving(checks: Mapping[str, Check], port: int) -> AsyncGenerator[Address]:
    """Serve the endpoints on loopback until the context is left; port 0 takes a free one."""
    with socket.create_server((LOOPBACK, port)) as door:
        config = uvicorn.Config(
            make_app(checks),
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_PATIENCE_S,
        )
        server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[door]))
        try:
            yield Address(door.getsockname()[1])
        finally:
            server.should_exit = True
            await running


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process around it."""
        yield
