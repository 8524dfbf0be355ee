from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from yume.api import health
from yume.errors import PermanentError, TransientError


def check(answer=None):
    async def check():
        if isinstance(answer, Exception):
            raise answer
        return answer

    return check


async def get(url, path):
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        return await client.get(path)


async def ready(**checks):
    async with health.serving(checks, 0) as address:
        return await get(address.url, "/readyz")


async def test_ready_names_what_was_looked_at():
    answer = await ready(database=check(), consumers=check())
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "checks": ["consumers", "database"]}


async def test_not_ready_names_what_is_missing_and_only_that():
    answer = await ready(database=check(), consumers=check("missing in NATS: s3_classify"))
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "not ready",
        "wrong": {"consumers": "missing in NATS: s3_classify"},
    }


@pytest.mark.parametrize("error", [TransientError("Postgres is away"), PermanentError("Postgres is away")])
async def test_a_check_that_cannot_be_made_says_why(error):
    answer = await ready(database=check(error))
    assert answer.status_code == 503
    assert answer.json()["wrong"] == {"database": "Postgres is away"}


async def test_a_check_that_breaks_is_not_ready_and_tells_no_more_than_its_kind():
    answer = await ready(database=check(ValueError("postgres://yume:a-made-up-password@db")), other=check())
    assert answer.status_code == 503
    assert answer.json()["wrong"] == {"database": "the check itself failed: ValueError"}


async def test_a_check_that_hangs_is_not_ready(monkeypatch):
    monkeypatch.setattr(health, "CHECK_TIMEOUT_S", 0.05)
    answer = await ready(database=asyncio.Event().wait)
    assert answer.status_code == 503
    assert answer.json()["wrong"] == {"database": "no answer within 0.05 s"}


async def test_alive_does_not_depend_on_what_is_missing():
    async with health.serving({"database": check("gone")}, 0) as address:
        answer = await get(address.url, "/livez")
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


async def test_the_port_is_free_again_afterwards():
    async with health.serving({}, 0) as address:
        assert (await get(address.url, "/livez")).status_code == 200
    with socket.create_server((health.LOOPBACK, address.port)):
        pass
    with pytest.raises(httpx.ConnectError):
        await get(address.url, "/livez")
