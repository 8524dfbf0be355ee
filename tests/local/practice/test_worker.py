from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest

from yume.local.practice import Habits, Practice, load

TRAPPED = Habits(plain=0, trouble=0)
LESSONS = "\n".join(f"- {pitfall.answer}" for pitfall in load())
SHORT = LESSONS.replace("sort -n", "sorting")


@contextlib.contextmanager
def opened(folder, habits: Habits = TRAPPED, seed: int = 3):
    with contextlib.closing(Practice(folder, habits=habits, seed=seed)) as practice:
        practice.add_series("kamila")
        yield practice


def write(practice: Practice, text: str, **more) -> int:
    return practice.book.slot.write("kamila", None, {"text": text, **more}, now="2026-01-01T00:00:00Z")[
        "version"
    ]


def runs_of(practice: Practice, tasks: list[dict]) -> list[dict]:
    rows = practice.book.parts("run", [task["id"] for task in tasks], (), 10_000)
    return [run for _, run in rows]


def events_of(practice: Practice, task: dict, kind: str) -> list[dict]:
    events = [event for _, event in practice.book.parts("event", [task["id"]], (), 10_000)]
    return [event for event in events if event["kind"] == kind]


def first_passes(practice: Practice, tasks: list[dict]) -> int:
    return sum(run["verdict"] == "pass" for run in runs_of(practice, tasks) if run["attempt"] == 1)


async def test_an_obedient_worker_with_the_remedies_in_its_slot_passes_every_task_at_once(tmp_path):
    with opened(tmp_path, replace(TRAPPED, obedience=1)) as practice:
        version = write(practice, LESSONS)
        tasks = await practice.run_batch("kamila", 30)
        assert {task["status"] for task in tasks} == {"succeeded"}
        assert {(run["attempt"], run["memory_version"]) for run in runs_of(practice, tasks)} == {(1, version)}


async def test_an_empty_slot_leaves_the_worker_to_what_it_knows(tmp_path):
    with opened(tmp_path, replace(TRAPPED, obedience=1)) as practice:
        tasks = await practice.run_batch("kamila", 30)
        assert 0 < first_passes(practice, tasks) < 12
        assert {run["memory_version"] for run in runs_of(practice, tasks)} == {0}


async def test_without_obedience_lessons_change_no_outcome(tmp_path):
    outcomes = []
    for text in ("", LESSONS):
        with opened(tmp_path / str(len(text)), replace(TRAPPED, obedience=0)) as practice:
            if text:
                write(practice, text)
            tasks = await practice.run_batch("kamila", 20)
            outcomes.append([(task["id"], task["status"]) for task in tasks])
    assert outcomes[0] == outcomes[1]


async def test_a_lesson_helps_the_tasks_of_its_own_pitfall_alone(tmp_path):
    habits = replace(TRAPPED, obedience=1, knows=0)
    with opened(tmp_path, habits) as practice:
        write(practice, SHORT)
        tasks = await practice.run_batch("kamila", 24)
        passed = {run["task_id"]: run["verdict"] for run in runs_of(practice, tasks) if run["attempt"] == 1}
        by_kind = Counter((task["kind"], passed[task["id"]]) for task in tasks)
        assert {verdict for kind, verdict in by_kind if kind == "ranking"} == {"fail"}
        assert {verdict for kind, verdict in by_kind if kind != "ranking"} == {"pass"}


async def test_the_slot_is_read_when_a_task_starts_and_not_when_its_batch_does(tmp_path):
    with opened(tmp_path, replace(TRAPPED, obedience=1)) as practice:

        def teach(_task: dict) -> None:
            if not practice.book.slot.current("kamila").version:
                write(practice, LESSONS)

        tasks = await practice.run_batch("kamila", 12, on_task=teach)
        versions = Counter(run["memory_version"] for run in runs_of(practice, tasks))
        assert set(versions) == {0, 1}
        by_task = {}
        for run in runs_of(practice, tasks):
            by_task.setdefault(run["task_id"], set()).add(run["memory_version"])
        assert all(len(seen) == 1 for seen in by_task.values())
        told = [task for task in tasks if by_task[task["id"]] == {1}]
        assert [event["text"] for event in events_of(practice, told[0], "memory")] == [LESSONS]


async def test_a_share_that_is_held_back_stays_on_the_previous_version(tmp_path):
    with opened(tmp_path) as practice:
        write(practice, "old")
        write(practice, "new", assignment={"share": 0.5, "salt": "s"})
        tasks = await practice.run_batch("kamila", 20)
        seen = {run["task_id"]: run["memory_version"] for run in runs_of(practice, tasks)}
        for task_id, version in seen.items():
            draw = int(hashlib.sha256(f"s:{task_id}".encode()).hexdigest()[:8], 16) / 2**32
            assert version == (1 if draw < 0.5 else 2)
        assert set(seen.values()) == {1, 2}


def without_times(value):
    if isinstance(value, dict):
        return {name: without_times(inner) for name, inner in value.items() if not name.endswith("at")}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


async def everything(folder, seed: int) -> list:
    with opened(folder, Habits(trouble=0.1), seed) as practice:
        tasks = [*await practice.run_batch("kamila", 15), *await practice.run_batch("kamila", 5)]
        ids = [task["id"] for task in tasks]
        kinds = ("run", "event", "inquiry")
        parts = [[item for _, item in practice.book.parts(kind, ids, (), 10_000)] for kind in kinds]
        return without_times([tasks, *parts])


async def test_the_same_seed_gives_the_same_record_but_for_its_times(tmp_path):
    first = await everything(tmp_path / "a", 5)
    assert await everything(tmp_path / "b", 5) == first
    assert await everything(tmp_path / "c", 6) != first


async def test_after_a_failure_the_remedy_may_be_found_and_its_command_is_in_the_events(tmp_path):
    with opened(tmp_path, replace(TRAPPED, knows=0, discovers=1, proposes=1)) as practice:
        (task,) = await practice.run_batch("kamila", 1)
        failed, passed = runs_of(practice, [task])
        assert (failed["verdict"], passed["verdict"], task["status"]) == ("fail", "pass", "succeeded")
        commands = {event["run_id"]: event["text"] for event in events_of(practice, task, "tool_call")}
        assert commands[failed["id"]] != commands[passed["id"]]
        [(_, proposal)] = practice.book.proposals("kamila", "pending", (), 10)
        assert proposal["text"].endswith(commands[passed["id"]])


async def test_three_failures_end_a_task_unless_its_owner_resumes_it(tmp_path):
    stubborn = replace(TRAPPED, knows=0, discovers=0, answers=1)
    for resumes, verdicts in ((0, ["fail"] * 3), (1, ["fail"] * 3 + ["pass"])):
        with opened(tmp_path / str(resumes), replace(stubborn, resumes=resumes)) as practice:
            (task,) = await practice.run_batch("kamila", 1)
            assert [run["verdict"] for run in runs_of(practice, [task])] == verdicts
            assert task["status"] == ("succeeded" if resumes else "failed")
            [(_, inquiry)] = practice.book.parts("inquiry", [task["id"]], (), 10)
            assert inquiry["effect"] == ("resumed" if resumes else "abandoned")


async def test_a_full_disk_fails_whatever_the_worker_does_and_asks_nobody(tmp_path):
    with opened(tmp_path, replace(TRAPPED, knows=1, trouble=1, answers=1)) as practice:
        (task,) = await practice.run_batch("kamila", 1)
        runs = runs_of(practice, [task])
        assert {run["failure_reason"] for run in runs} == {"write error: No space left on device"}
        assert all("missing" in run["verdict_details"]["output"] for run in runs)
        assert practice.book.parts("inquiry", [task["id"]], (), 10) == []


async def test_each_task_is_called_back_once_after_the_export_shows_it_and_the_last_closes_the_batch(
    tmp_path,
):
    with opened(tmp_path) as practice:
        heard = []

        async def hear(data: dict) -> None:
            (row,) = practice.book.tasks(
                dict.fromkeys(("series_id", "terminal", "finished_after", "finished_before"))
                | {"ids": json.dumps([data["task_id"]])},
                (),
                10,
            )
            assert row[1]["finished_at"] == data["finished_at"]
            heard.append(data)

        practice.callbacks = hear
        tasks = await practice.run_batch("kamila", 6)
        assert sorted(data["task_id"] for data in heard) == sorted(task["id"] for task in tasks)
        assert [data.get("batch_finished", False) for data in heard] == [False] * 5 + [True]
        assert {(data["platform"], data["series"], data["batch_id"]) for data in heard} == {
            ("practice", "kamila", "kamila-0001")
        }


async def test_no_scratch_folder_outlives_its_task(tmp_path):
    with opened(tmp_path) as practice:
        await practice.run_batch("kamila", 4)
        assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.timeout(60)
async def test_the_default_habits_fail_often_enough_to_learn_from_and_lessons_lower_that(tmp_path):
    failed = {}
    for text in ("", LESSONS):
        with opened(tmp_path / str(len(text)), Habits()) as practice:
            if text:
                write(practice, text)
            tasks = await practice.run_batch("kamila", 80)
            failed[bool(text)] = sum(task["status"] == "failed" for task in tasks)
    assert failed[False] >= 16
    assert failed[True] <= 10
