from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time

import httpx
import pytest

PATH = "/series/kamila/memory"


@contextlib.contextmanager
def process(folder, *more: str):
    command = [
        sys.executable,
        "-m",
        "yume.local.practice",
        "--folder",
        str(folder),
        "--series",
        "kamila",
        *more,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started, json.loads(started.stdout.readline())
        finally:
            started.kill()


def client(told: dict, which: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {told[which]}"}
    return httpx.Client(base_url=told["base_url"], headers=headers, trust_env=False)


def wait_for(found, what: str):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.01)
    return pytest.fail(f"{what} did not come in 20 s")


def test_what_was_written_survives_kill_9_and_its_answer_is_still_replayed(tmp_path):
    write = {"json": {"text": "one", "expected_version": 0}, "headers": {"Idempotency-Key": "k"}}
    with process(tmp_path) as (started, told), client(told, "slot_token") as slot:
        first = slot.post(PATH, **write)
        assert first.status_code == 201
        started.send_signal(signal.SIGKILL)
    with process(tmp_path) as (_, again), client(again, "slot_token") as slot:
        assert again["slot_token"] == told["slot_token"]
        assert slot.get(PATH).json()["text"] == "one"
        assert slot.post(PATH, **write).json() == first.json()


def test_tasks_that_ran_when_the_process_was_killed_are_cancelled_and_the_others_kept(tmp_path):
    with process(tmp_path) as (started, told), client(told, "export_token") as export:
        answer = export.post("/practice/series/kamila/batches", json={"size": 200})
        assert answer.status_code == 202

        def listed(terminal: str) -> list[dict]:
            return export.get("/tasks", params={"terminal": terminal}).json()["items"]

        ended = wait_for(lambda: listed("true"), "a finished task")
        wait_for(lambda: listed("false"), "a running task")
        started.send_signal(signal.SIGKILL)
    with process(tmp_path) as (_, told), client(told, "export_token") as export:
        tasks = export.get("/tasks").json()["items"]
        assert [task for task in tasks if task["id"] == ended[0]["id"]] == [ended[0]]
        assert "running" not in {task["status"] for task in tasks}
        assert 1 <= sum(task["status"] == "cancelled" for task in tasks) <= 2
        assert {task["batch_id"] for task in tasks} == {answer.json()["batch_id"]}
        assert list((tmp_path / "scratch").iterdir()) == []


def test_a_batch_started_over_http_is_run_to_its_end_and_sigterm_ends_the_process_cleanly(tmp_path):
    with process(tmp_path) as (started, told), client(told, "export_token") as export:
        export.post("/practice/series/new/batches", json={"size": 3})

        def ended() -> bool:
            params = {"series_id": "new", "terminal": "true"}
            return len(export.get("/tasks", params=params).json()["items"]) == 3

        wait_for(ended, "the end of the batch")
        started.send_signal(signal.SIGTERM)
        assert started.wait(20) == 0
