from __future__ import annotations

import hashlib

import pytest

PATH = "/series/kamila/memory"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def body(text: str, expected: int, **more) -> dict:
    return {
        "text": text,
        "sha256": sha(text),
        "lesson_set_id": "set",
        "lesson_set_version": 1,
        "expected_version": expected,
        **more,
    }


async def post(slot, content: dict, key: str | None = None):
    return await slot.post(PATH, json=content, headers={"Idempotency-Key": key} if key else {})


async def test_a_slot_that_was_never_written_is_version_0_with_the_hash_of_nothing(slot):
    answer = await slot.get(PATH)
    assert answer.status_code == 200
    got = answer.json()
    assert (got["version"], got["text"], got["sha256"]) == (0, "", sha(""))


async def test_no_such_series_is_404_for_reading_and_for_writing(slot):
    assert (await slot.get("/series/nobody/memory")).status_code == 404
    refused = await slot.post("/series/nobody/memory", json=body("x", 0))
    assert refused.status_code == 404
    assert "'nobody'" in refused.json()["detail"]


async def test_a_write_makes_the_next_version_and_is_read_back(slot):
    first = await post(slot, body("one", 0), "k1")
    second = await post(slot, body("two", 1), "k2")
    assert [first.status_code, second.status_code] == [201, 201]
    assert (first.json()["version"], second.json()["version"]) == (1, 2)
    assert second.json()["sha256"] == sha("two")
    got = (await slot.get(PATH)).json()
    assert (got["version"], got["text"], got["lesson_set_id"], got["lesson_set_version"]) == (
        2,
        "two",
        "set",
        1,
    )


@pytest.mark.parametrize("text", ["", " \r\n\t", "Übung 夢 \U0001f600\u200d", "a\x00b", "</script>\\u0041"])
async def test_a_text_comes_back_byte_for_byte(slot, text):
    assert (await post(slot, body(text, 0), "k")).status_code == 201
    got = (await slot.get(PATH)).json()
    assert got["text"] == text
    assert got["sha256"] == sha(text)


async def test_another_hash_than_that_of_the_text_is_422_and_writes_nothing(slot):
    refused = await post(slot, body("one", 0) | {"sha256": sha("other")}, "k")
    assert refused.status_code == 422
    assert sha("one") in refused.json()["detail"]
    assert (await post(slot, body("one", 0) | {"sha256": sha("one").upper()})).status_code == 422
    assert (await slot.get(PATH)).json()["version"] == 0


async def test_a_text_without_utf8_form_is_422(slot):
    raw = b'{"text": "a\\ud800", "expected_version": 0}'
    refused = await slot.post(PATH, content=raw)
    assert refused.status_code == 422
    assert "character 1" in refused.json()["detail"]


@pytest.mark.parametrize("content", [{}, {"text": None}, {"text": 3}, {"text": "x", "expected_version": "0"}])
async def test_a_body_that_cannot_be_read_one_way_is_422(slot, content):
    assert (await post(slot, content)).status_code == 422


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff"])
async def test_a_body_that_is_no_json_object_is_400(slot, raw):
    assert (await slot.post(PATH, content=raw)).status_code == 400


async def test_an_old_expected_version_is_409_with_what_is_current(slot):
    await post(slot, body("one", 0), "k1")
    refused = await post(slot, body("two", 0), "k2")
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert (refused.json()["current_version"], refused.json()["sha256"]) == (1, sha("one"))
    assert (await slot.get(PATH)).json()["text"] == "one"


async def test_the_same_key_answers_the_same_and_writes_once_even_when_the_slot_has_moved_on(slot):
    first = await post(slot, body("one", 0), "k1")
    await post(slot, body("two", 1), "k2")
    again = await post(slot, body("one", 0), "k1")
    assert (again.status_code, again.json()) == (201, first.json())
    assert (await slot.get(PATH)).json()["version"] == 2


async def test_the_same_key_with_another_body_is_422(slot):
    await post(slot, body("one", 0), "k1")
    refused = await post(slot, body("two", 1), "k1")
    assert refused.status_code == 422
    assert "'k1'" in refused.json()["detail"]


async def test_the_order_of_a_bodys_fields_does_not_make_it_another_body(slot):
    first = await post(slot, body("one", 0), "k1")
    again = await post(slot, dict(reversed(body("one", 0).items())), "k1")
    assert again.json() == first.json()


async def test_a_409_is_not_kept_under_its_key(slot):
    assert (await post(slot, body("ahead", 1), "k1")).status_code == 409
    await post(slot, body("one", 0), "k2")
    assert (await post(slot, body("ahead", 1), "k1")).status_code == 201


async def test_a_key_belongs_to_one_series(slot, practice):
    practice.add_series("other")
    await post(slot, body("one", 0), "k1")
    answer = await slot.post("/series/other/memory", json=body("two", 0), headers={"Idempotency-Key": "k1"})
    assert answer.status_code == 201
    assert answer.json()["series_id"] == "other"


async def test_without_a_key_every_write_is_a_new_version(slot):
    assert (await post(slot, {"text": "x"})).json()["version"] == 1
    assert (await post(slot, {"text": "x"})).json()["version"] == 2


@pytest.mark.parametrize(("number", "text"), [(1, "one"), (0, "")])
async def test_restoring_makes_a_new_version_with_the_old_text(slot, number, text):
    await post(slot, body("one", 0), "k1")
    await post(slot, body("two", 1), "k2")
    wanted = {"restore_version": number, "expected_version": 2}
    answer = await post(slot, wanted, "k3")
    assert answer.status_code == 201
    assert answer.json()["version"] == 3
    assert answer.json()["restored_from"] == number
    assert answer.json()["sha256"] == sha(text)
    assert (await slot.get(PATH)).json()["text"] == text
    assert (await post(slot, wanted, "k3")).json() == answer.json()


async def test_restoring_what_never_was_is_422(slot):
    await post(slot, body("one", 0), "k1")
    for number in (7, -1, "1", True):
        refused = await post(slot, {"restore_version": number, "expected_version": 1}, f"key {number!r}")
        assert refused.status_code == 422, number


async def test_restoring_needs_the_expected_version_and_a_key_and_no_text(slot):
    await post(slot, body("one", 0), "k1")
    assert (await post(slot, {"restore_version": 1}, "k2")).status_code == 422
    assert (await post(slot, {"restore_version": 1, "expected_version": 1})).status_code == 422
    both = {"restore_version": 1, "expected_version": 1, "text": "x"}
    assert (await post(slot, both, "k3")).status_code == 422
    assert (await post(slot, {"restore_version": 1, "expected_version": 0}, "k4")).status_code == 409


async def test_an_assignment_is_echoed_and_one_that_is_none_is_refused(slot):
    share = {"share": 0.5, "salt": "s"}
    assert (await post(slot, body("one", 0, assignment=share), "k1")).json()["assignment"] == share
    assert "assignment" not in (await post(slot, body("two", 1), "k2")).json()
    for wrong in ({"share": 2, "salt": "s"}, {"share": True, "salt": "s"}, {"share": 0.5}, [1]):
        assert (await post(slot, body("x", 2, assignment=wrong), f"{wrong}")).status_code == 422


async def test_the_slot_token_may_use_the_slot_alone(slot):
    for path in ("/tasks", "/tasks/x/events", "/runs?task_id=x", "/inquiries?task_id=x", PATH + "/proposals"):
        refused = await slot.get(path)
        assert refused.status_code == 403, path
        assert refused.json()["status"] == 403


async def test_the_export_token_may_neither_read_nor_write_the_slot(export):
    assert (await export.get(PATH)).status_code == 403
    assert (await export.post(PATH, json=body("x", 0))).status_code == 403


@pytest.mark.parametrize("token", ["", "wrong", "ünknown"])
async def test_without_a_known_token_nothing_is_answered_but_the_well_known_document(client_of, token):
    client = client_of("")
    headers = {"Authorization": f"Bearer {token}".encode()} if token else {}
    for path in ("/tasks", PATH, "/runs?task_id=x"):
        refused = await client.get(path, headers=headers)
        assert refused.status_code == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
    known = (await client.get("/.well-known/yume-platform")).json()
    assert known["contract"] == 1
    assert known["optional"]["restore_version"] == "append"
    assert known["statuses"] == {"succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled"}
