from __future__ import annotations

import asyncio
import contextlib
import shutil
from datetime import datetime, timedelta

import pytest

from yume.local.practice import Habits, Practice

CLUMSY = Habits(plain=0, knows=0, discovers=0.3, answers=0.5, proposes=1, trouble=0)


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("worked")
    practice = Practice(folder, habits=CLUMSY, seed=7)
    tasks = asyncio.run(practice.run_batch("kamila", 12))
    practice.close()
    return folder, tasks


@pytest.fixture
def practice(worked, tmp_path):
    folder = shutil.copytree(worked[0], tmp_path / "platform")
    with contextlib.closing(Practice(folder, habits=CLUMSY, seed=7)) as opened:
        yield opened


@pytest.fixture
def tasks(worked):
    return worked[1]


async def pages(client, path: str, params: list, limit: int) -> list[list[dict]]:
    found, cursor = [], None
    while True:
        more = [("limit", limit)] + ([("cursor", cursor)] if cursor else [])
        page = (await client.get(path, params=[*params, *more])).raise_for_status().json()
        found.append(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def at(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo is not None
    return moment


def named(tasks: list[dict]) -> list[tuple[str, str]]:
    return [("task_id", task["id"]) for task in tasks]


async def test_tasks_are_listed_by_the_time_of_their_end_and_their_id(export, tasks):
    got = (await export.get("/tasks", params={"series_id": "kamila", "terminal": "true"})).json()
    assert got["next_cursor"] is None
    assert got["items"] == sorted(tasks, key=lambda task: (task["finished_at"], task["id"]))
    assert (await export.get("/tasks", params={"series_id": "nobody"})).json()["items"] == []


async def test_a_task_holds_every_field_of_the_contract(tasks):
    for task in tasks:
        assert at(task["created_at"]) <= at(task["started_at"]) < at(task["finished_at"])
        assert task["status"] in {"succeeded", "failed"}
        assert {
            "id",
            "series_id",
            "kind",
            "title",
            "template_version",
            "agent_model",
            "verdict",
        } <= task.keys()


@pytest.mark.parametrize("limit", [1, 5, 12, 13])
async def test_pages_hold_at_most_their_limit_and_together_each_task_once(export, tasks, limit):
    got = await pages(export, "/tasks", [("series_id", "kamila")], limit)
    assert [len(page) for page in got[:-1]] == [limit] * (len(got) - 1)
    assert 1 <= len(got[-1]) <= limit
    ids = [task["id"] for page in got for task in page]
    assert sorted(ids) == sorted(task["id"] for task in tasks)


async def test_a_cursor_stands_still_when_tasks_are_added(export, practice, tasks):
    params = {"series_id": "kamila", "terminal": "true", "limit": 5}
    cursor = (await export.get("/tasks", params=params)).json()["next_cursor"]
    before = (await export.get("/tasks", params={**params, "cursor": cursor})).json()["items"]
    await practice.run_batch("kamila", 2)
    assert (await export.get("/tasks", params={**params, "cursor": cursor})).json()["items"] == before


@pytest.mark.parametrize("cursor", ["x", "!!", "WyJhIl0", "bnVsbA", "ü"])
async def test_a_cursor_that_is_none_is_400(export, tasks, cursor):
    refused = await export.get("/tasks", params={"cursor": cursor})
    assert refused.status_code == 400
    assert "cursor" in refused.json()["detail"]


async def test_a_cursor_of_another_listing_is_400(export, tasks):
    cursor = (await export.get("/tasks", params={"limit": 1})).json()["next_cursor"]
    assert (await export.get("/tasks", params={"cursor": cursor, "limit": 3})).status_code == 200
    other = await export.get("/tasks", params={"cursor": cursor, "series_id": "kamila"})
    assert other.status_code == 400
    events = await export.get(f"/tasks/{tasks[0]['id']}/events", params={"cursor": cursor})
    assert events.status_code == 400


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5", ""])
async def test_a_limit_that_is_none_is_400(export, limit):
    assert (await export.get("/tasks", params={"limit": limit})).status_code == 400


async def test_finished_after_is_inclusive_and_finished_before_exclusive(export, tasks):
    ends = sorted(task["finished_at"] for task in tasks)

    async def count(**params) -> int:
        return len((await export.get("/tasks", params=params)).json()["items"])

    assert await count(finished_after=ends[4]) == 8
    assert await count(finished_before=ends[4]) == 4
    assert await count(finished_after=ends[4], finished_before=ends[4]) == 0
    assert await count(finished_after=ends[2], finished_before=ends[4]) == 2
    elsewhere = (at(ends[4]) + timedelta()).astimezone(
        datetime.fromisoformat("2026-01-01T00:00+09:00").tzinfo
    )
    assert await count(finished_after=elsewhere.isoformat()) == 8


@pytest.mark.parametrize("name", ["finished_after", "finished_before"])
async def test_a_time_without_zone_or_no_time_is_400(export, name):
    naive = await export.get("/tasks", params={name: "2026-01-01T00:00:00"})
    assert naive.status_code == 400
    assert name in naive.json()["detail"]
    assert (await export.get("/tasks", params={name: "yesterday"})).status_code == 400


async def test_terminal_tells_ended_from_running(export, practice, tasks):
    open_batch = practice.book.add_batch("kamila", 1)
    running = tasks[0] | {
        "id": "running",
        "batch_id": open_batch.id,
        "status": "running",
        "finished_at": None,
    }
    practice.book.start(running)
    ids = {
        word: [task["id"] for task in (await export.get("/tasks", params={"terminal": word})).json()["items"]]
        for word in ("true", "false")
    }
    assert len(ids["true"]) == 12
    assert ids["false"] == ["running"]
    everything = [task["id"] for page in await pages(export, "/tasks", [], 4) for task in page]
    assert everything == ids["true"] + ids["false"]
    assert (await export.get("/tasks", params={"terminal": "yes"})).status_code == 400


async def test_single_tasks_are_found_by_id(export, tasks):
    got = (await export.get("/tasks", params=named([tasks[3], tasks[5]]))).json()["items"]
    assert {task["id"] for task in got} == {tasks[3]["id"], tasks[5]["id"]}


@pytest.mark.parametrize("path", ["/tasks", "/runs", "/inquiries"])
async def test_fifty_task_ids_are_taken_and_fifty_one_are_400(export, path):
    many = [("task_id", f"t{number}") for number in range(51)]
    assert (await export.get(path, params=many[:50])).status_code == 200
    refused = await export.get(path, params=many)
    assert refused.status_code == 400
    assert "51" in refused.json()["detail"]


@pytest.mark.parametrize("path", ["/runs", "/inquiries"])
async def test_runs_and_inquiries_without_a_task_are_400(export, path):
    assert (await export.get(path)).status_code == 400


async def test_runs_count_their_attempts_from_1_and_page(export, tasks):
    got = [run for page in await pages(export, "/runs", named(tasks), 3) for run in page]
    for task in tasks:
        runs = [run for run in got if run["task_id"] == task["id"]]
        assert [run["attempt"] for run in runs] == list(range(1, len(runs) + 1))
        assert runs[-1]["verdict"] == task["verdict"]
    assert len({run["id"] for run in got}) == len(got)


async def test_a_run_holds_every_field_of_the_contract(export, tasks):
    for run in (await export.get("/runs", params=[*named(tasks), ("limit", 500)])).json()["items"]:
        assert at(run["started_at"]) <= at(run["finished_at"])
        assert run["verdict"] in {"pass", "fail"}
        assert isinstance(run["verdict_details"]["output"], str)
        assert (run["exit_code"] is None) != (run["signal"] is None)
        assert run["memory_version"] == 0
        assert {"failure_reason", "template_version", "usage"} <= run.keys()
        for artifact in run["artifacts"]:
            assert artifact.keys() == {"name", "uri", "sha256", "size"}


async def test_events_are_in_order_and_name_the_commands_of_each_run(export, tasks):
    task = tasks[0]
    path = f"/tasks/{task['id']}/events"
    got = [event for page in await pages(export, path, [], 2) for event in page]
    assert got == (await export.get(path)).json()["items"]
    assert [event["at"] for event in got] == sorted(event["at"] for event in got)
    runs = (await export.get("/runs", params=named([task]))).json()["items"]
    assert [event["run_id"] for event in got if event["kind"] == "tool_call"] == [run["id"] for run in runs]
    assert (got[0]["data"], got[-1]["data"]) == ({"status": "running"}, {"status": task["status"]})


async def test_events_of_no_task_are_404(export):
    refused = await export.get("/tasks/nobody/events")
    assert refused.status_code == 404
    assert "'nobody'" in refused.json()["detail"]


async def test_an_inquiry_follows_the_last_failed_attempt(export, tasks):
    got = [one for page in await pages(export, "/inquiries", named(tasks), 2) for one in page]
    runs = (await export.get("/runs", params=[*named(tasks), ("limit", 500)])).json()["items"]
    effects = set()
    for one in got:
        effects.add(one["effect"])
        mine = [run for run in runs if run["task_id"] == one["task_id"]]
        assert one["run_id"] == mine[2]["id"]
        assert (one["answered_at"] is None) == (one["answer"] is None) == (one["effect"] is None)
        assert [run["verdict"] for run in mine] == ["fail"] * 3 + ["pass"] * (one["effect"] == "resumed")
    assert {None, "resumed"} <= effects


async def test_proposals_are_those_of_the_series(export, practice, tasks):
    path = "/series/kamila/memory/proposals"
    got = [one for page in await pages(export, path, [("status", "pending")], 1) for one in page]
    assert got
    assert {one["task_id"] for one in got} <= {task["id"] for task in tasks if task["status"] == "succeeded"}
    assert all(one.keys() == {"id", "task_id", "text", "created_at"} for one in got)
    assert (await export.get(path, params={"status": "judged"})).json()["items"] == []
    practice.add_series("other")
    assert (await export.get("/series/other/memory/proposals")).json()["items"] == []
    assert (await export.get("/series/nobody/memory/proposals")).status_code == 404


async def test_an_unknown_path_or_method_is_a_problem_document_too(export):
    for answer in (await export.get("/nothing"), await export.delete("/tasks")):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    assert (await export.post("/tasks")).status_code == 405


@pytest.mark.parametrize("size", [0, -1, 1001, "3", True, None])
async def test_a_batch_of_no_sensible_size_is_422_and_opens_none(export, practice, size):
    refused = await export.post("/practice/series/kamila/batches", json={"size": size})
    assert refused.status_code == 422
    assert repr(size) in refused.json()["detail"]
    assert practice.book.add_batch("kamila", 1).number == 2


async def test_a_batch_is_started_over_http_and_a_series_opened(export, slot, practice):
    assert (await slot.get("/series/fresh/memory")).status_code == 404
    assert (await export.put("/practice/series/fresh")).status_code == 204
    assert (await slot.get("/series/fresh/memory")).status_code == 200
    ended = asyncio.Event()

    async def hear(data: dict) -> None:
        if data.get("batch_finished"):
            ended.set()

    practice.callbacks = hear
    answer = await export.post("/practice/series/fresh/batches", json={"size": 2})
    assert (answer.status_code, answer.json()) == (202, {"batch_id": "fresh-0001", "size": 2})
    await asyncio.wait_for(ended.wait(), 20)
    assert len((await export.get("/tasks", params={"series_id": "fresh"})).json()["items"]) == 2
