from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from yume.local.practice import Practice

# Nothing here speaks TLS; one context spares each client from reading the certificates again.
SSL = ssl.create_default_context()


@pytest.fixture
def practice(tmp_path: Path) -> Iterator[Practice]:
    opened = Practice(tmp_path / "platform", seed=7)
    opened.add_series("kamila")
    with contextlib.closing(opened):
        yield opened


@pytest.fixture
async def base_url(practice: Practice) -> AsyncIterator[str]:
    async with practice.serving() as url:
        yield url


@pytest.fixture
async def client_of(base_url: str) -> AsyncIterator[Callable[[str], httpx.AsyncClient]]:
    async with contextlib.AsyncExitStack() as stack:

        def client(token: str) -> httpx.AsyncClient:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            opened = httpx.AsyncClient(base_url=base_url, headers=headers, trust_env=False, verify=SSL)
            stack.push_async_callback(opened.aclose)
            return opened

        yield client


@pytest.fixture
async def export(practice: Practice, client_of) -> httpx.AsyncClient:
    return client_of(practice.export_token)


@pytest.fixture
async def slot(practice: Practice, client_of) -> httpx.AsyncClient:
    return client_of(practice.slot_token)
