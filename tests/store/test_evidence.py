from __future__ import annotations

from datetime import timedelta

import pytest

from yume.domain.runs import Judgement
from yume.ids import RunId
from yume.store import effects, evidence
from yume.store.evidence import Judged, Pulled

HOUR = timedelta(hours=1)
SHA256 = "cd" * 32


@pytest.fixture
def pull(db, series, now):
    async def pulled(dream, *tasks: Pulled, at=now) -> None:
        await evidence.save_pulled_runs(db, series.id, dream, tasks, at)

    return pulled


@pytest.fixture
def judge(db, now):
    async def judged(run: RunId, outcome="failure", *, version: str | None = None, settled=True) -> None:
        one = Judged(run, Judgement(outcome, rescued=False, settled=settled), "fail", version, "reported")
        await evidence.save_outcomes(db, [one], now)

    return judged


async def _runs(db):
    return {row["task_id"]: row for row in await db.fetch("SELECT * FROM yume.runs")}


# Pulling


async def test_a_batch_that_is_pulled_twice_is_saved_once(db, dream, pull):
    batch = [Pulled("task-1", status="failed"), Pulled("task-2", status="completed")]
    await pull(dream, *batch)
    before = await _runs(db)
    await pull(dream, *batch)
    assert await _runs(db) == before
    assert before["task-1"]["dream_id"] == dream


async def test_a_pulled_run_keeps_every_fact(db, dream, pull, now):
    fact = Pulled(
        task_id="task-1",
        status="failed",
        task_kind="code",
        template_version="t3",
        agent_model="m",
        started_at=now - 2 * HOUR,
        finished_at=now - HOUR,
        attempts=[{"number": 1, "exit_code": 1}],
        inquiries=[{"question": "why?"}],
        artifacts=[{"name": "a.txt"}],
        raw_key="runs/1.json",
        raw_sha256=SHA256,
        raw_bytes=5 * 2**30,
    )
    await pull(dream, fact)
    row = (await _runs(db))["task-1"]
    for name in Pulled.__slots__:
        assert row[name] == getattr(fact, name), name
    assert row["pulled_at"] == now


async def test_a_task_that_was_announced_becomes_the_pulling_dreams(db, rows, series, announce, pull):
    first = await rows.dream(series, "running")
    second = await rows.dream(series, "collecting")
    await announce(second, "task-1")
    await pull(first, Pulled("task-1"))
    assert (await _runs(db))["task-1"]["dream_id"] == first


async def test_a_run_that_is_pulled_again_keeps_its_dream_and_takes_the_new_record(rows, series, pull, now):
    first = await rows.dream(series, "finished")
    await pull(first, Pulled("task-1", raw_key="old", raw_sha256=SHA256, finished_at=now - HOUR))
    second = await rows.dream(series, "running")
    await pull(second, Pulled("task-1", raw_key="new", raw_sha256="ef" * 32), at=now + HOUR)
    row = (await _runs(rows.db))["task-1"]
    assert (row["dream_id"], row["raw_key"], row["pulled_at"]) == (first, "new", now + HOUR)
    assert row["finished_at"] == now - HOUR  # a record that does not say when does not take it away


async def test_a_record_that_cannot_be_read_replaces_none_that_could(db, rows, series, pull, now):
    good = await rows.dream(series, "finished")
    await pull(good, Pulled("task-1", status="failed", raw_key="old", raw_sha256=SHA256))
    before = await _runs(db)
    later = await rows.dream(series, "running")
    await pull(later, Pulled("task-1", broken="/events: too large"), at=now + HOUR)
    assert await _runs(db) == before


async def test_a_record_that_can_be_read_again_replaces_the_broken_one(db, dream, pull, now):
    await pull(dream, Pulled("task-1", broken="/events: too large"))
    await pull(dream, Pulled("task-1", broken="/events: still too large"))
    assert (await _runs(db))["task-1"]["broken"] == "/events: still too large"
    await pull(dream, Pulled("task-1", raw_key="new", raw_sha256=SHA256), at=now + HOUR)
    row = (await _runs(db))["task-1"]
    assert (row["broken"], row["raw_key"], row["pulled_at"]) == (None, "new", now + HOUR)


async def test_no_task_at_all_is_no_error(db, dream, pull):
    await pull(dream)
    assert await _runs(db) == {}


async def test_tasks_of_an_earlier_dream_are_taken(db, rows, series, announce, pull):
    first = await rows.dream(series, "finished")
    await pull(first, Pulled("pulled"))
    second = await rows.dream(series, "running")
    await announce(second, "own")
    third = await rows.dream(series, "collecting")
    await announce(third, "announced")
    tasks = ["pulled", "own", "announced", "new"]
    assert await evidence.taken_tasks(db, series.id, second, tasks) == {"pulled"}
    assert await evidence.taken_tasks(db, series.id, third, tasks) == {"pulled", "own"}


async def test_tasks_of_a_dream_that_failed_before_it_pulled_are_left_for_the_next(
    db, rows, series, announce, pull
):
    failed = await rows.dream(series, "collecting")
    for task in ("left", "pulled"):
        await announce(failed, task)
    await pull(failed, Pulled("pulled"))
    assert await evidence.left_tasks(db, series.id) == set()
    for status in ("queued", "running", "failed"):
        ended = rows.now if status == "failed" else None
        await db.execute("UPDATE yume.dream_runs SET status = $1, finished_at = $2", status, ended)
    assert await evidence.left_tasks(db, series.id) == {"left"}
    following = await rows.dream(series, "running")
    assert await evidence.taken_tasks(db, series.id, following, ["left", "pulled"]) == {"pulled"}
    await pull(following, Pulled("left"))
    assert await evidence.left_tasks(db, series.id) == set()
    assert (await _runs(db))["left"]["dream_id"] == following


async def test_runs_whose_verdict_may_still_come_are_found_again(db, rows, series, judge, now):
    first = await rows.dream(series, "finished")
    waiting = await rows.run(series, first, "waiting", finished_at=now - HOUR)
    await judge(waiting, settled=False)
    await judge(await rows.run(series, first, "settled", finished_at=now - HOUR))
    await judge(await rows.run(series, first, "old", finished_at=now - 9 * HOUR), settled=False)
    second = await rows.dream(series, "running")
    await rows.run(series, second, "own")
    found = await evidence.unsettled_tasks(db, series.id, second, now - 8 * HOUR)
    assert found == {"waiting": now - HOUR}


async def test_what_is_extracted_is_the_batch_and_what_was_pulled_again(rows, series, judge, pull):
    first = await rows.dream(series, "finished")
    for task, settled in (("again", False), ("settled", True), ("not-again", False)):
        await judge(await rows.run(series, first, task), settled=settled)
    second = await rows.dream(series, "running")
    await rows.run(series, second, "own")
    await pull(second, Pulled("broken", raw_key="x", raw_sha256=SHA256, broken="/task: no"))
    await pull(second, Pulled("too-large", broken="too large"))
    record = {"raw_key": "again", "raw_sha256": SHA256}
    await pull(second, Pulled("again", **record), Pulled("settled", **record), at=rows.now + HOUR)
    found = await evidence.runs_to_extract(rows.db, series.id, second, rows.now + HOUR)
    assert [each.task_id for each in found] == ["again", "own"]


# Judging


async def test_an_outcome_names_the_set_that_was_in_the_slot(rows, series, dream, judge):
    lesson_set = await rows.lesson_set(series, dream)
    injection = await rows.injection(series, lesson_set, dream=dream)
    await effects.written(rows.db, series.id, injection, "5", rows.now)
    known, unknown = await rows.run(series, dream, "known"), await rows.run(series, dream, "unknown")
    await judge(known, version="5")
    await judge(unknown, "success", version="4")
    found = await _runs(rows.db)
    assert [found[task]["lesson_set_id"] for task in ("known", "unknown")] == [lesson_set, None]
    assert [found[task]["outcome"] for task in ("known", "unknown")] == ["failure", "success"]


async def test_a_verdict_that_comes_later_settles_the_run(rows, series, dream, judge):
    run = await rows.run(series, dream)
    await judge(run, "unknown", settled=False)
    assert (await _runs(rows.db))["task-1"]["settled_at"] is None
    await judge(run, "failure")
    row = (await _runs(rows.db))["task-1"]
    assert (row["settled_at"], row["outcome"]) == (rows.now, "failure")


async def test_run_facts_are_those_that_finished_before_an_instant_oldest_first(
    rows, series, dream, judge, announce
):
    for task, ago in (("b", 1), ("a", 2), ("at-the-end", 0)):
        await rows.run(series, dream, task, finished_at=rows.now - ago * HOUR)
    await rows.run(series, dream, "broken", broken="/task: no")
    await rows.run(await rows.series("another"), dream, "of-another")
    await announce(dream, "announced")
    await judge((await _runs(rows.db))["a"]["id"], "success", version="7", settled=True)
    found = await evidence.run_facts(rows.db, series.id, rows.now)
    assert [(fact.outcome, fact.version, fact.source, fact.settled, fact.runs) for fact in found] == [
        ("success", "7", "reported", True, 1),
        ("unknown", None, "unknown", False, 1),
    ]
    assert [(fact.batch, fact.last_at) for fact in found] == [
        (dream, rows.now - 2 * HOUR),
        (dream, rows.now - HOUR),
    ]


async def test_run_facts_sum_up_what_nothing_tells_apart(rows, series, dream, judge):
    for number in range(5):
        run = await rows.run(series, dream, f"t{number}", finished_at=rows.now - (number + 1) * HOUR)
        await judge(run, "failure" if number else "success", version="7", settled=True)
    found = {fact.outcome: fact for fact in await evidence.run_facts(rows.db, series.id, rows.now)}
    assert {outcome: fact.runs for outcome, fact in found.items()} == {"success": 1, "failure": 4}
    assert found["failure"].first_at == rows.now - 5 * HOUR
    assert found["failure"].last_at == rows.now - 2 * HOUR


async def test_a_run_that_is_judged_again_keeps_the_instant_at_which_it_was_settled(rows, series, dream, now):
    run = await rows.run(series, dream)
    for outcome, later in (("failure", 0 * HOUR), ("success", HOUR)):
        judged = Judged(run, Judgement(outcome, rescued=False, settled=True), "fail", None, "unknown")
        await evidence.save_outcomes(rows.db, [judged], now + later)
    row = (await _runs(rows.db))["task-1"]
    assert (row["settled_at"], row["outcome"]) == (now, "success")


async def test_an_outcome_names_the_set_that_last_came_into_the_slot_under_its_version(
    rows, series, dream, judge, now
):
    first, second = [await rows.lesson_set(series, dream, version) for version in (1, 2)]
    for hours, (version, lesson_set) in enumerate([("5", first), ("6", second), ("5", second)]):
        kind = "rollback" if hours == 2 else "write"
        injection = await rows.injection(series, lesson_set, kind=kind)
        await effects.written(rows.db, series.id, injection, version, now + hours * HOUR)
    await judge(await rows.run(series, dream), version="5")
    assert (await _runs(rows.db))["task-1"]["lesson_set_id"] == second


async def test_run_facts_know_nothing_of_what_lessons_cite(rows, series, dream, judge):
    runs = [await rows.run(series, dream, f"t{n}", finished_at=rows.now - HOUR) for n in range(4)]
    for run in runs:
        await judge(run, "failure", version="7", settled=True)
    before = await evidence.run_facts(rows.db, series.id, rows.now)
    for run in runs:
        await rows.lesson(series, [await rows.signal(dream, run)])
    assert await evidence.run_facts(rows.db, series.id, rows.now) == before


async def _washed(rows, series, dream, first, *others):
    found = await evidence.experiment_facts(rows.db, series.id, rows.now, [dream, *others], first)
    return {
        washed: sorted((fact.batch, fact.task_kind, fact.runs) for fact in found if fact.washed_out is washed)
        for washed in (True, False)
    }


async def test_the_first_runs_of_each_batch_by_their_start_are_told_apart(rows, series, dream, judge):
    other = await rows.dream(series, "collecting")
    starts = {"late": -2 * HOUR, "early": -4 * HOUR, "middle": -3 * HOUR}
    for batch in (dream, other):
        await rows.run(series, batch, f"never-{batch}", task_kind="never", finished_at=rows.now - 4 * HOUR)
        for kind, start in starts.items():
            at = rows.now + start
            await rows.run(series, batch, f"{kind}-{batch}", task_kind=kind, started_at=at)
    both = await _washed(rows, series, dream, 2, other)
    assert both[True] == sorted((batch, kind, 1) for batch in (dream, other) for kind in ("early", "middle"))
    assert both[False] == sorted((batch, kind, 1) for batch in (dream, other) for kind in ("late", "never"))
    assert await _washed(rows, series, dream, 2) == {
        washed: [row for row in named if row[0] == dream] for washed, named in both.items()
    }
    assert (await _washed(rows, series, dream, 3))[False] == [(dream, "never", 1)]
    assert (await _washed(rows, series, dream, 9))[False] == []


async def test_of_runs_that_started_together_the_older_row_comes_first(rows, series, dream):
    for kind in ("first", "second", "third"):
        await rows.run(series, dream, kind, task_kind=kind, started_at=rows.now - 2 * HOUR)
    assert (await _washed(rows, series, dream, 1))[True] == [(dream, "first", 1)]


async def test_washed_out_runs_and_the_others_are_together_the_run_facts(rows, series, dream, judge):
    for number in range(7):
        at = rows.now - (number + 2) * HOUR
        run = await rows.run(series, dream, f"t{number}", started_at=at, finished_at=at + HOUR)
        await judge(run, "failure" if number % 3 else "success", version="7")
    await rows.run(series, dream, "broken", broken="/task: no", started_at=rows.now - 20 * HOUR)
    await rows.run(series, dream, "later", started_at=rows.now - 20 * HOUR, finished_at=rows.now + HOUR)
    known = await evidence.run_facts(rows.db, series.id, rows.now)
    assert await evidence.experiment_facts(rows.db, series.id, rows.now, [dream], 0) == known
    for first in (1, 3, 7):
        found = await evidence.experiment_facts(rows.db, series.id, rows.now, [dream], first)
        assert sum(fact.runs for fact in found if fact.washed_out) == first
        for outcome in ("failure", "success"):
            runs = [sum(fact.runs for fact in facts if fact.outcome == outcome) for facts in (found, known)]
            assert runs[0] == runs[1]
