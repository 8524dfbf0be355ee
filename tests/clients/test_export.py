"""The run export over a real server that plays the faults of F19 and F28."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest
from pydantic import SecretStr
from starlette.responses import Response

from yume.clients.platform import Limits, Refused, TooLarge, open_export
from yume.errors import PermanentError, TransientError

SPAN = {"finished_after": None, "finished_before": None}
TOKEN = "a-made-up-token-31"


def opened(platform, **options):
    return open_export(platform.base_url, SecretStr(TOKEN), allow_http=True, **options)


async def test_tasks_are_asked_for_by_series_and_span_in_utc(platform, export):
    platform.on("GET", "/tasks", platform.page({"id": "1"}))
    beijing = datetime(2026, 11, 30, 8, tzinfo=timezone(timedelta(hours=8)))
    found = await export.tasks(
        "kamila & co", finished_after=beijing, finished_before=beijing + timedelta(days=1)
    )
    assert found == [{"id": "1"}]
    assert platform.requests[0].query == [
        ("series_id", "kamila & co"),
        ("terminal", "true"),
        ("limit", "100"),
        ("finished_after", "2026-11-30T00:00:00Z"),
        ("finished_before", "2026-12-01T00:00:00Z"),
    ]


async def test_a_span_without_zone_is_refused_before_anything_is_sent(platform, export):
    with pytest.raises(PermanentError, match="finished_before: a time without zone"):
        await export.tasks("kamila", finished_after=None, finished_before=datetime(2026, 1, 1))  # noqa: DTZ001
    assert platform.requests == []


async def test_every_request_carries_the_token_and_the_version(platform):
    platform.on("GET", "/tasks", platform.page())
    async with opened(platform, version="1.2.3") as export:
        await export.tasks("kamila", **SPAN)
    headers = platform.requests[0].headers
    assert headers["authorization"] == f"Bearer {TOKEN}"
    assert headers["user-agent"] == "yume/1.2.3"
    assert headers["accept-encoding"] == "gzip"


async def test_an_id_stays_one_segment_of_the_path(platform, export):
    platform.on("GET", "/tasks/..%2F%E5%A4%A2%3Fa%23b%20%ED%A0%80/events", platform.page({"kind": "log"}))
    assert await export.task_events("../夢?a#b \ud800") == [{"kind": "log"}]


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_an_id_that_is_a_step_in_a_path_is_refused(platform, export, name):
    with pytest.raises(PermanentError, match="cannot stand in a URL's path"):
        await export.task_events(name)
    assert platform.requests == []


@pytest.mark.parametrize(
    ("call", "path"), [("runs", "/runs"), ("inquiries", "/inquiries"), ("single_tasks", "/tasks")]
)
async def test_ids_are_asked_for_fifty_at_a_time_and_once_each(platform, export, call, path):
    platform.on("GET", path, *(platform.page({"id": n}) for n in range(3)))
    ids = [f"t{n}" for n in range(101)]
    assert await getattr(export, call)([*ids, "t0"]) == [{"id": 0}, {"id": 1}, {"id": 2}]
    asked = [[value for _, value in request.query] for request in platform.requests]
    assert asked == [ids[:50], ids[50:100], ids[100:]]


async def test_no_ids_ask_for_nothing(platform, export):
    assert await export.runs([]) == []
    assert platform.requests == []


async def test_all_pages_are_read_in_order(platform, export):
    platform.on(
        "GET",
        "/tasks/1/events",
        platform.page({"n": 1}, next_cursor="a&b"),
        platform.page(next_cursor=7),
        platform.page({"n": 2}, next_cursor=""),
    )
    assert await export.task_events("1") == [{"n": 1}, {"n": 2}]
    assert [request.query for request in platform.requests] == [[], [("cursor", "a&b")], [("cursor", "7")]]


async def test_a_plain_list_is_one_page(platform, export):
    platform.on("GET", "/tasks/1/events", platform.json([{"n": 1}]))
    assert await export.task_events("1") == [{"n": 1}]


async def test_an_object_without_a_cursor_is_one_page(platform, export):
    platform.on("GET", "/tasks/1/events", platform.json({"items": [{"n": 1}]}))
    assert await export.task_events("1") == [{"n": 1}]


async def test_a_cursor_that_repeats_is_an_error_not_a_loop(platform, export):
    cursors = ["a", "b", "a"]
    platform.on("GET", "/tasks", *(platform.page({"id": c}, next_cursor=c) for c in cursors))
    with pytest.raises(PermanentError, match=r"/tasks: page 3 repeats the cursor 'a'"):
        await export.tasks("kamila", **SPAN)
    assert len(platform.requests) == 3


async def test_a_listing_of_ever_new_cursors_ends(platform):
    platform.on("GET", "/tasks", *(platform.page(next_cursor=str(n)) for n in range(9)))
    async with opened(platform, limits=Limits(max_pages=5)) as export:
        with pytest.raises(PermanentError, match="more than 5 pages"):
            await export.tasks("kamila", **SPAN)
    assert len(platform.requests) == 5


async def test_an_item_that_is_no_object_is_named_by_its_path(platform, export):
    platform.on("GET", "/tasks", platform.page({"id": "1"}, "2"))
    with pytest.raises(PermanentError, match="/items/1 is str, no object"):
        await export.tasks("kamila", **SPAN)


async def test_a_cursor_that_is_no_text_is_named(platform, export):
    platform.on("GET", "/tasks", platform.page(next_cursor={"a": 1}))
    with pytest.raises(PermanentError, match="/next_cursor is dict"):
        await export.tasks("kamila", **SPAN)


@pytest.mark.parametrize("status", [404, 422])
async def test_a_platform_without_proposals_or_document_has_none(platform, export, status):
    platform.on("GET", "/series/kamila/memory/proposals", platform.raw(b"<h1>no</h1>", status))
    platform.on("GET", "/.well-known/yume-platform", platform.raw(b"", status))
    assert await export.proposals("kamila") == []
    assert await export.well_known() is None


async def test_proposals_and_document_are_returned_as_they_are(platform, export):
    platform.on("GET", "/series/kamila/memory/proposals", platform.page({"id": "p", "odd": [1]}))
    platform.on("GET", "/.well-known/yume-platform", platform.json({"contract": 1}))
    assert await export.proposals("kamila") == [{"id": "p", "odd": [1]}]
    assert await export.well_known() == {"contract": 1}
    assert platform.requests[0].query == [("status", "pending")]


async def test_proposals_that_vanish_between_two_pages_are_an_error(platform, export):
    platform.on("GET", "/series/k/memory/proposals", platform.page(next_cursor="2"), platform.raw(b"", 404))
    with pytest.raises(Refused):
        await export.proposals("k")


@pytest.mark.parametrize("status", [500, 502, 503, 408, 429])
async def test_trouble_of_the_platform_may_pass(platform, export, status):
    platform.on(
        "GET", "/tasks", platform.raw(b"upstream\x00 \x1b[31maway", status), platform.page({"id": "1"})
    )
    with pytest.raises(TransientError) as caught:
        await export.tasks("kamila", **SPAN)
    assert str(caught.value) == f"GET {platform.base_url}/tasks answered {status}: 'upstream away'"
    assert caught.value.retry_in is None
    assert await export.tasks("kamila", **SPAN) == [{"id": "1"}]


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry_After": "90"}, timedelta(seconds=90)),
        (
            {"Retry_After": "Mon, 30 Nov 2026 10:05:00 GMT", "Date": "Mon, 30 Nov 2026 10:00:00 GMT"},
            timedelta(minutes=5),
        ),
        (
            {"Retry_After": "Mon, 30 Nov 2026 09:00:00 GMT", "Date": "Mon, 30 Nov 2026 10:00:00 GMT"},
            timedelta(),
        ),
        ({"Retry_After": "999999999"}, timedelta(days=1)),
        ({"Retry_After": "9" * 40}, None),
        ({"Retry_After": "Mon, 30 Nov 2026 10:05:00 GMT"}, None),
        ({"Retry_After": "soon", "Date": "Mon, 30 Nov 2026 10:00:00 GMT"}, None),
    ],
)
async def test_retry_after_says_when(platform, export, headers, wait):
    platform.on("GET", "/tasks", platform.raw(b"", 429, **headers))
    with pytest.raises(TransientError) as caught:
        await export.tasks("kamila", **SPAN)
    assert caught.value.retry_in == wait


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_token_is_named_and_never_shown(platform, export, status):
    platform.on("GET", "/tasks", platform.raw(f"{TOKEN} is bad, so is bEaRer  xyz".encode(), status))
    with pytest.raises(Refused) as caught:
        await export.tasks("kamila", **SPAN)
    assert "'*** is bad, so is Bearer ***'; check the export token" in str(caught.value)
    assert caught.value.status == status


async def test_another_refusal_is_final_and_quoted_short(platform, export):
    platform.on("GET", "/tasks", platform.raw(b"x" * 100_000, 400))
    with pytest.raises(Refused, match=r"answered 400: 'x{200}'$") as caught:
        await export.tasks("kamila", **SPAN)
    assert caught.value.status == 400


async def test_the_status_counts_though_its_body_is_broken(platform, export):
    platform.on("GET", "/tasks", platform.raw(b"no gzip", 503, Content_Encoding="gzip"))
    platform.on("GET", "/runs", platform.raw(b"???", 400, Content_Encoding="br"))
    with pytest.raises(TransientError, match="answered 503: ''"):
        await export.tasks("kamila", **SPAN)
    with pytest.raises(Refused, match="answered 400"):
        await export.runs(["1"])


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("/elsewhere", "another path of its own"),
        ("http://[", "an address that cannot be read"),
    ],
)
async def test_a_redirect_is_never_followed(platform, export, location, target):
    platform.on("GET", "/tasks", platform.raw(b"", 302, Location=location))
    platform.on("GET", "/elsewhere", platform.page({"id": "1"}))
    with pytest.raises(PermanentError, match=f"answered 302 and redirects to {target}; no redirect"):
        await export.tasks("kamila", **SPAN)
    assert len(platform.requests) == 1


async def test_a_client_that_follows_redirects_is_held_back(platform):
    platform.on("GET", "/tasks", platform.raw(b"", 307, Location="/elsewhere"))
    async with (
        httpx.AsyncClient(follow_redirects=True, auth=("some", "body"), trust_env=False) as client,
        opened(platform, client=client) as export,
    ):
        with pytest.raises(PermanentError, match="redirects"):
            await export.tasks("kamila", **SPAN)
        assert not client.is_closed
    assert [request.headers["authorization"] for request in platform.requests] == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b"", b'{"items": [', b'{"status": "ok"}', b"3"])
async def test_a_gateways_page_with_status_200_may_pass(platform, export, body):
    platform.on("GET", "/tasks", platform.raw(body), platform.page())
    with pytest.raises(TransientError, match="answered 200"):
        await export.tasks("kamila", **SPAN)
    assert await export.tasks("kamila", **SPAN) == []


async def test_odd_values_are_read_and_block_nothing(platform, export):
    body = (
        rb'{"items": [{"text": "a\ud800b\u0000c' + b"\x00\x1b\xff\n" + b'",'
        b'"bad": [NaN, -Infinity, 1e999, '
        + b"7" * 5000
        + b'], "good": [1.5, -7, 1e3], "twice": 1, "twice": 2}]}'
    )
    platform.on("GET", "/tasks/1/events", platform.raw(body))
    assert await export.task_events("1") == [
        {
            "text": "a\ud800b\x00c\x00\x1b\udcff\n",
            "bad": [None, None, None, None],
            "good": [1.5, -7, 1000.0],
            "twice": 2,
        }
    ]


@pytest.mark.parametrize("levels", [150, 200_000])
async def test_json_nested_too_deep_concerns_that_record_alone(platform, levels):
    platform.on(
        "GET", "/tasks/1/events", platform.raw(b'{"items": [{"a": ' + b"[" * levels + b"]" * levels + b"}]}")
    )
    async with opened(platform) as export:
        with pytest.raises(TooLarge, match=r"/tasks/1/events is JSON nested"):
            await export.task_events("1")


async def test_json_nested_up_to_the_limit_is_read(platform, export):
    platform.on("GET", "/tasks/1/events", platform.raw(b'{"items": [{"a": ' + b"[" * 97 + b"]" * 97 + b"}]}"))
    found = await export.task_events("1")
    assert json.loads(json.dumps({"task": {}, "events": found}))["events"] == found


async def test_a_body_over_the_limit_is_dropped_while_it_comes(platform, export):
    platform.on("GET", "/tasks/1/events", platform.page({"text": "x" * 20_000}))
    with pytest.raises(TooLarge, match=r"/tasks/1/events is larger than 20000 bytes$"):
        await export.task_events("1")


async def test_a_body_of_exactly_the_limit_is_read(platform, export):
    body = b'{"items": []}'
    platform.on("GET", "/tasks/1/events", platform.raw(body + b" " * (20_000 - len(body))))
    assert await export.task_events("1") == []


async def test_a_body_without_end_is_dropped_at_the_limit(platform):
    platform.on("GET", "/tasks/1/events", platform.drip())
    async with opened(platform, limits=Limits(max_response_bytes=5)) as export:
        with pytest.raises(TooLarge, match="larger than 5 bytes"):
            await export.task_events("1")


async def test_the_pages_of_a_listing_count_together(platform, export):
    pages = [platform.page({"text": "x" * 7_000}, next_cursor=str(n)) for n in range(5)]
    platform.on("GET", "/tasks/1/events", *pages)
    with pytest.raises(TooLarge, match="larger than 20000 bytes"):
        await export.task_events("1")
    assert len(platform.requests) == 3


async def test_gzip_is_read(platform, export):
    platform.on("GET", "/tasks/1/events", platform.gzipped(b'{"items": [{"n": 1}]}'))
    assert await export.task_events("1") == [{"n": 1}]


async def test_a_compression_bomb_is_dropped_at_the_limit(platform, export):
    bomb = platform.gzipped(b'{"items": [' + b" " * 50_000_000 + b"]}")
    assert len(bomb.body) < 100_000
    platform.on("GET", "/tasks/1/events", bomb)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="larger than 20000 bytes"):
            await export.task_events("1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(
    "broken",
    [gzip.compress(b'{"items": []}')[:-4], gzip.compress(b'{"items": []}') + b"rest", b'{"items": []}'],
    ids=["cut short", "with a rest", "no gzip"],
)
async def test_broken_gzip_may_pass(platform, export, broken):
    platform.on("GET", "/tasks", platform.raw(broken, Content_Encoding="gzip"))
    with pytest.raises(TransientError, match="gzip"):
        await export.tasks("kamila", **SPAN)


async def test_an_encoding_that_nobody_offered_is_refused(platform, export):
    platform.on("GET", "/tasks", platform.raw(b"?", Content_Encoding="gzip, gzip"))
    with pytest.raises(PermanentError, match="'gzip, gzip'; only gzip was offered"):
        await export.tasks("kamila", **SPAN)


async def test_a_slow_drip_ends_at_the_total_timeout(platform):
    platform.on("GET", "/tasks", platform.drip())
    async with opened(platform, limits=Limits(total_s=0.3)) as export:
        with pytest.raises(TransientError, match=r"/tasks took longer than 0.3 s$"):
            await export.tasks("kamila", **SPAN)


async def test_silence_ends_at_the_read_timeout(platform):
    platform.on("GET", "/tasks", platform.silence())
    async with opened(platform, limits=Limits(read_s=0.2)) as export:
        with pytest.raises(TransientError, match="ReadTimeout, the platform is silent"):
            await export.tasks("kamila", **SPAN)


async def test_nobody_listening_may_pass():
    async with open_export("http://127.0.0.1:1", SecretStr(TOKEN), allow_http=True) as export:
        with pytest.raises(TransientError, match="no answer, ConnectError"):
            await export.tasks("kamila", **SPAN)


async def test_an_answer_cut_short_may_pass(platform, export):
    async def cut() -> Response:
        return Response(b'{"items": []}', headers={"Content-Length": "5000"})

    platform.on("GET", "/tasks", cut)
    with pytest.raises(TransientError, match="no answer, RemoteProtocolError"):
        await export.tasks("kamila", **SPAN)


async def test_no_more_requests_run_at_once_than_allowed(platform):
    async def slowly() -> Response:
        await asyncio.sleep(0.03)
        return platform.page()

    platform.on("GET", "/tasks/1/events", slowly)
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        opened(platform, client=client, limits=Limits(at_once=3)) as export,
    ):
        await asyncio.gather(*(export.task_events("1") for _ in range(12)))
    assert len(platform.requests) == 12
    assert platform.most_at_once == 3


@pytest.mark.parametrize(
    ("url", "allow_http", "why"),
    [
        ("http://platform.example", True, "would send the token in the clear"),
        ("http://127.0.0.1.nip.example", True, "would send the token in the clear"),
        ("http://127.0.0.1:8000", False, "would send the token in the clear"),
        ("ftp://platform.example", True, "is no base URL"),
        ("platform.example", True, "is no base URL"),
        ("https://platform.example/?a=b", False, "is no base URL"),
        ("https://platform.example:port", False, "cannot be read"),
        ("https://[::1", False, "cannot be read"),
        ("https://user:hunter2@platform.example", False, "carries no credentials"),
    ],
)
async def test_an_address_that_is_not_safe_is_refused(url, allow_http, why):
    with pytest.raises(PermanentError, match=why) as caught:
        async with open_export(url, SecretStr(TOKEN), allow_http=allow_http):
            pass
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "allow_http"),
    [
        ("https://platform.example/api/", False),
        ("http://localhost:8000", True),
        ("http://[::1]:8000", True),
        ("http://127.8.0.1", True),
    ],
)
async def test_an_address_that_is_safe_is_taken(url, allow_http):
    async with open_export(url, SecretStr(TOKEN), allow_http=allow_http) as export:
        assert TOKEN not in repr(export) + repr(vars(export))


async def test_loopback_never_goes_through_a_proxy(platform, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    platform.on("GET", "/tasks", platform.page())
    async with opened(platform) as export:
        assert await export.tasks("kamila", **SPAN) == []


async def test_a_base_url_may_have_a_path(platform):
    platform.on("GET", "/api/v2/tasks", platform.page({"id": "1"}))
    async with open_export(f"{platform.base_url}/api/v2/", SecretStr(TOKEN), allow_http=True) as export:
        assert await export.tasks("kamila", **SPAN) == [{"id": "1"}]


@pytest.mark.parametrize("token", ["", "two words", "line\nend", "夢"])
async def test_a_token_that_no_header_carries_is_refused_unseen(platform, token):
    with pytest.raises(PermanentError, match="the export token is empty or holds") as caught:
        async with open_export(platform.base_url, SecretStr(token), allow_http=True):
            pass
    assert not token or token not in str(caught.value)
    assert platform.requests == []


async def test_times_are_sent_in_full(platform, export):
    platform.on("GET", "/tasks", platform.page())
    moment = datetime(2026, 11, 30, 8, 1, 2, 345678, tzinfo=UTC)
    await export.tasks("kamila", finished_after=moment, finished_before=None)
    assert ("finished_after", "2026-11-30T08:01:02.345678Z") in platform.requests[0].query
