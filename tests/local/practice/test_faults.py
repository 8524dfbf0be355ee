from __future__ import annotations

import asyncio

import httpx
import pytest

from yume.local.practice import Faults

TASKS = {"series_id": "kamila", "terminal": "true", "limit": 2}
PATH = "/series/kamila/memory"


@pytest.fixture
async def tasks(practice):
    return await practice.run_batch("kamila", 5)


async def test_a_fault_is_there_while_it_is_on_and_gone_afterwards(export, practice, tasks):
    practice.faults = Faults(status=500)
    assert (await export.get("/tasks", params=TASKS)).status_code == 500
    practice.faults = Faults()
    assert len((await export.get("/tasks", params=TASKS)).json()["items"]) == 2


async def test_a_refusal_can_say_when_to_come_back(export, practice):
    practice.faults = Faults(status=429, retry_after="7")
    answer = await export.get("/tasks")
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


async def test_a_refused_write_is_not_carried_out_and_an_unanswered_one_is(slot, practice):
    practice.faults = Faults(status=503)
    assert (await slot.post(PATH, json={"text": "lost"})).status_code == 503
    practice.faults = Faults(unanswered=True)
    assert (await slot.post(PATH, json={"text": "kept"})).status_code == 503
    practice.faults = Faults()
    got = (await slot.get(PATH)).json()
    assert (got["version"], got["text"]) == (1, "kept")


async def test_a_fault_can_be_limited_to_a_path(export, slot, practice):
    practice.faults = Faults(path="/memory", status=500)
    assert (await slot.get(PATH)).status_code == 500
    assert (await export.get("/tasks")).status_code == 200


async def test_html_comes_with_status_200(export, practice):
    practice.faults = Faults(html=True)
    answer = await export.get("/tasks")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")


async def test_a_repeated_cursor_gives_the_same_page_for_ever(export, practice, tasks):
    practice.faults = Faults(repeat_cursor=True)
    first = (await export.get("/tasks", params=TASKS)).json()
    again = (await export.get("/tasks", params={**TASKS, "cursor": first["next_cursor"]})).json()
    assert again == first
    assert first["next_cursor"]


async def test_naive_times_lose_their_zone_in_every_list(export, practice, tasks):
    practice.faults = Faults(naive_times=True)
    for path in ("/tasks", f"/tasks/{tasks[0]['id']}/events", f"/runs?task_id={tasks[0]['id']}"):
        item = (await export.get(path)).json()["items"][0]
        times = [text for name, text in item.items() if name.endswith("_at") or name == "at"]
        assert times
        assert not any(text.endswith("Z") for text in times), path


async def test_odd_texts_hold_a_nul_and_a_lone_surrogate(export, practice, tasks):
    practice.faults = Faults(odd_text=True)
    answer = await export.get("/tasks", params=TASKS)
    assert b"\\u0000\\ud800" in answer.content
    assert answer.json()["items"][0]["title"].endswith("\x00\ud800")


async def test_a_huge_record_is_as_huge_as_asked(export, practice, tasks):
    practice.faults = Faults(huge_bytes=3_000_000)
    assert len((await export.get("/tasks", params=TASKS)).content) > 3_000_000


async def test_a_slow_platform_answers_late(export, practice):
    practice.faults = Faults(slow_s=1.0)
    with pytest.raises(httpx.ReadTimeout):
        await export.get("/tasks", timeout=0.1)
    practice.faults = Faults(slow_s=0.2)
    began = asyncio.get_running_loop().time()
    assert (await export.get("/tasks")).status_code == 200
    assert asyncio.get_running_loop().time() - began >= 0.2


async def test_the_slots_own_answers_are_never_distorted(slot, practice):
    await slot.post(PATH, json={"text": "Z"})
    practice.faults = Faults(odd_text=True, naive_times=True, huge_bytes=10, repeat_cursor=True)
    got = (await slot.get(PATH)).json()
    assert got["text"] == "Z"
    assert got["created_at"].endswith("Z")


async def test_errors_stay_errors_under_a_distortion(export, practice):
    practice.faults = Faults(odd_text=True)
    answer = await export.get("/tasks", params={"limit": "x"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
