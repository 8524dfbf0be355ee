"""The lesson slot over a real server: reading, writing, and the races of F26."""

from __future__ import annotations

import hashlib
from uuid import UUID

import pytest
from pydantic import SecretStr

from yume.clients.platform import (
    Limits,
    Refused,
    SlotConflict,
    SlotText,
    TooLarge,
    Written,
    open_slot,
)
from yume.errors import PermanentError, TransientError

PATH = "/series/kamila/memory"
LESSON_SET = UUID("019377a0-0000-7000-8000-000000000001")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def lesson_set(text="Rules\n", *, expected_version="3", key="k1"):
    return {
        "text": text,
        "lesson_set_id": LESSON_SET,
        "lesson_set_version": 7,
        "expected_version": expected_version,
        "key": key,
    }


async def test_the_current_text_is_read(platform, slot):
    text = "夢 \r\n\x00\ttrailing \n"
    platform.on("GET", PATH, platform.json({"version": 4, "text": text, "sha256": sha256(text), "odd": 1}))
    assert await slot.read("kamila") == SlotText("4", text, sha256(text))


async def test_a_version_of_letters_is_kept_as_text(platform, slot):
    platform.on("GET", PATH, platform.json({"version": "v-4", "text": "a"}))
    assert await slot.read("kamila") == SlotText("v-4", "a", sha256("a"))


@pytest.mark.parametrize(
    "answer",
    [
        {"version": 0, "text": "", "sha256": sha256("")},
        {"version": None, "text": "", "sha256": sha256("")},
        {"version": None, "text": None},
        {"version": None},
    ],
)
async def test_a_slot_that_was_never_written_is_version_0(platform, slot, answer):
    platform.on("GET", PATH, platform.json(answer))
    assert await slot.read("kamila") == SlotText("0", "", sha256(""))


async def test_no_such_series_is_an_error(platform, slot):
    platform.on("GET", PATH, platform.raw(b"<h1>Not found</h1>", 404))
    with pytest.raises(Refused, match="there is no series 'kamila'") as caught:
        await slot.read("kamila")
    assert caught.value.status == 404


async def test_404_is_an_empty_slot_where_the_platforms_row_says_so(platform):
    platform.on("GET", PATH, platform.raw(b"", 404))
    options = {"allow_http": True, "not_found_is_empty": True}
    async with open_slot(platform.base_url, SecretStr("t"), **options) as slot:
        assert await slot.read("kamila") == SlotText("0", "", sha256(""))


async def test_a_text_that_does_not_match_its_sha256_is_refused(platform, slot):
    platform.on("GET", PATH, platform.json({"version": 4, "text": "a\r\n", "sha256": sha256("a\n")}))
    with pytest.raises(PermanentError, match=f"states sha256 {sha256('a' + chr(10))}, the text has"):
        await slot.read("kamila")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"text": "a"}, "without a /version"),
        ({"version": True, "text": "a"}, "without a /version"),
        ({"version": "", "text": "a"}, "without a /version"),
        ({"version": 4}, "/text is no string"),
        ({"version": 4, "text": ["a"]}, "/text is no string"),
    ],
)
async def test_an_answer_that_breaks_the_contract_is_named(platform, slot, answer, why):
    platform.on("GET", PATH, platform.json(answer))
    with pytest.raises(PermanentError, match=why):
        await slot.read("kamila")


async def test_a_text_over_the_limit_is_refused(platform, slot):
    platform.on("GET", PATH, platform.json({"version": 4, "text": "x" * 20_000}))
    with pytest.raises(TooLarge):
        await slot.read("kamila")


@pytest.mark.parametrize(
    ("expected_version", "sent"),
    [
        ("3", {"expected_version": 3}),
        ("0", {"expected_version": 0}),
        ("007", {"expected_version": "007"}),
        ("v-3", {"expected_version": "v-3"}),
        ("9" * 5000, {"expected_version": "9" * 5000}),
        (None, {}),
    ],
)
async def test_a_write_says_what_and_over_which_version(platform, slot, expected_version, sent):
    text = "夢\n"
    platform.on("POST", PATH, platform.json({"version": 9, "sha256": sha256(text)}, 201))
    written = await slot.write("kamila", **lesson_set(text, expected_version=expected_version, key="k-1"))
    assert written == Written("9", sha256(text))
    (request,) = platform.requests
    assert request.headers["idempotency-key"] == "k-1"
    assert request.json() == {
        "text": text,
        "sha256": sha256(text),
        "lesson_set_id": str(LESSON_SET),
        "lesson_set_version": 7,
        **sent,
    }


async def test_a_receipt_without_sha256_asks_to_be_read_back(platform, slot):
    platform.on("POST", PATH, platform.json({"version": 9}, 201))
    assert await slot.write("kamila", **lesson_set()) == Written("9", None)


async def test_a_receipt_for_another_text_is_refused(platform, slot):
    platform.on("POST", PATH, platform.json({"version": 9, "sha256": sha256("other")}, 201))
    with pytest.raises(PermanentError, match="keeps its text byte for byte"):
        await slot.write("kamila", **lesson_set())


async def test_a_conflict_says_what_is_there_instead(platform, slot):
    platform.on("POST", PATH, platform.json({"current_version": 5, "sha256": sha256("theirs")}, 409))
    with pytest.raises(SlotConflict, match="version 3 was expected, the slot is at 5") as caught:
        await slot.write("kamila", **lesson_set())
    assert (caught.value.current_version, caught.value.sha256) == ("5", sha256("theirs"))


@pytest.mark.parametrize("body", [b"<h1>Conflict</h1>", b"[]", b"", b'{"current_version": {}, "sha256": 1}'])
async def test_a_conflict_that_says_nothing_is_still_a_conflict(platform, slot, body):
    platform.on("POST", PATH, platform.raw(body, 409))
    with pytest.raises(SlotConflict) as caught:
        await slot.write("kamila", **lesson_set())
    assert (caught.value.current_version, caught.value.sha256) == (None, None)


async def test_422_is_final(platform, slot):
    platform.on("POST", PATH, platform.json({"title": "sha256 does not match"}, 422))
    with pytest.raises(Refused, match="sha256 does not match") as caught:
        await slot.write("kamila", **lesson_set())
    assert caught.value.status == 422


async def test_a_write_whose_answer_is_lost_is_repeated_with_the_same_key(platform):
    receipt = platform.json({"version": 9, "sha256": sha256("Rules\n")}, 201)
    platform.on("POST", PATH, platform.silence(), receipt)
    limits = Limits(read_s=0.2)
    async with open_slot(platform.base_url, SecretStr("t"), allow_http=True, limits=limits) as slot:
        with pytest.raises(TransientError, match="ReadTimeout"):
            await slot.write("kamila", **lesson_set())
        assert await slot.write("kamila", **lesson_set()) == Written("9", sha256("Rules\n"))
    first, second = platform.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"] == "k1"
    assert first.body == second.body


async def test_a_gateways_answer_to_a_write_may_hide_a_success(platform, slot):
    platform.on("POST", PATH, platform.raw(b"<html>", 200), platform.json([], 200))
    for _ in range(2):
        with pytest.raises(TransientError, match="answered 200"):
            await slot.write("kamila", **lesson_set())


async def test_a_refused_token_names_the_slot_token(platform, slot):
    platform.on("POST", PATH, platform.raw(b"", 403))
    with pytest.raises(Refused, match="check the slot token"):
        await slot.write("kamila", **lesson_set())


async def test_an_old_version_is_restored(platform, slot):
    platform.on("POST", PATH, platform.json({"version": 10, "restored_from": 4}, 201))
    written = await slot.restore("kamila", version="4", expected_version="9", key="k2")
    assert written == Written("10", None)
    (request,) = platform.requests
    assert request.json() == {"restore_version": 4, "expected_version": 9}
    assert request.headers["idempotency-key"] == "k2"


async def test_a_platform_that_cannot_restore_says_422(platform, slot):
    platform.on("POST", PATH, platform.raw(b"unknown field", 422))
    with pytest.raises(Refused) as caught:
        await slot.restore("kamila", version="4", expected_version="9", key="k2")
    assert caught.value.status == 422


async def test_a_series_stays_one_segment_of_the_path(platform, slot):
    platform.on("GET", "/series/a%2F..%2Fb/memory", platform.json({"version": 1, "text": ""}))
    assert (await slot.read("a/../b")).version == "1"
