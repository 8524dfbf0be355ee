from __future__ import annotations

from datetime import timedelta

import pytest

from yume.domain.runs import Judgement
from yume.domain.signals import Found, Pointer
from yume.domain.taxonomy import Label
from yume.ids import RunId, SignalId, TaxonomyId, new_id
from yume.store import effects, evidence
from yume.store.evidence import Judged, Placed, Pulled

HOUR = timedelta(hours=1)
SHA256 = "cd" * 32
OLD = "ab" * 32  # of the records that `rows` makes


@pytest.fixture
def announce(db, series, now):
    async def announced(dream, task: str, status: str = "failed") -> bool:
        return await evidence.announce_run(
            *(db, series.id, dream), task_id=task, status=status, finished_at=now - HOUR, now=now
        )

    return announced


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


# Announcing


async def test_a_task_that_is_announced_twice_is_one_row(db, rows, series, announce):
    dream = await rows.dream(series, "collecting")
    assert await announce(dream, "task-1")
    assert not await announce(dream, "task-1", "completed")
    assert await evidence.batch_size(db, dream) == 1
    assert (await _runs(db))["task-1"]["status"] == "failed"


async def test_a_task_is_known_by_its_series_and_its_batch(db, rows, series, announce):
    dream = await rows.dream(series, "collecting")
    await announce(dream, "task-2")
    await announce(dream, "task-1")
    assert await evidence.batch_of_task(db, series.id, "task-1") == (dream, "collecting")
    assert await evidence.batch_of_task(db, series.id, "task-3") is None
    assert await evidence.batch_of_task(db, (await rows.series("another")).id, "task-1") is None
    assert await evidence.announced_tasks(db, dream) == ["task-1", "task-2"]


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
    assert [(fact.outcome, fact.version, fact.source, fact.settled) for fact, _, _ in found] == [
        ("success", "7", "reported", True),
        ("unknown", None, "unknown", False),
    ]
    assert [(owner, at) for _, owner, at in found] == [(dream, rows.now - 2 * HOUR), (dream, rows.now - HOUR)]


# Signals


async def test_a_signal_that_is_saved_twice_is_one_row_and_stays(db, rows, series, dream):
    run = await rows.run(series, dream)
    signal = await rows.signal(dream, run, excerpt="first")
    await rows.signal(dream, run, excerpt="second", signal=signal)
    (found,) = await evidence.signals_of(db, dream, TaxonomyId(new_id()))
    assert (found.id, found.excerpt) == (signal, "first")


async def test_a_signal_is_read_as_it_was_saved(db, rows, series, dream):
    run = await rows.run(series, dream)
    pointer = Pointer("/events/3/a~1b", 2, 5)
    found = Found("verifier", "verifier", pointer, "wrong\tresult\n夢", "f9")
    placed = Placed(SignalId(new_id()), run, 4, SHA256, found)
    await evidence.save_signals(db, dream, "1", [placed])
    (read,) = await evidence.signals_of(db, dream, series.taxonomy_id)
    assert (read.id, read.run_id, read.task_id, read.ordinal) == (placed.id, run, "task-1", 4)
    assert (read.kind, read.source_class, read.pointer) == ("verifier", "verifier", pointer)
    assert (read.excerpt, read.fingerprint, read.code) == (found.excerpt, "f9", None)


async def test_signals_come_task_by_task_in_the_order_of_the_record(db, rows, series, dream):
    made = {}
    for task in ("b", "a"):
        run = await rows.run(series, dream, task)
        for ordinal in (1, 0):
            made[task, ordinal] = await rows.signal(dream, run, ordinal=ordinal)
    found = [each.id for each in await evidence.signals_of(db, dream, series.taxonomy_id)]
    assert found == [made[key] for key in sorted(made)]


async def test_signals_by_id_are_those_of_the_series(db, rows, series, dream, signal):
    other = await rows.series("another")
    foreign_dream = await rows.dream(other)
    foreign = await rows.signal(foreign_dream, await rows.run(other, foreign_dream))
    found = await evidence.signals_by_id(db, series.id, [signal, foreign, SignalId(new_id())])
    assert list(found) == [signal]


async def test_all_signals_of_a_fingerprint_are_labelled_and_no_others(db, rows, series, dream):
    run = await rows.run(series, dream)
    for ordinal, fingerprint in enumerate(["f1", "f2", "f1"]):
        await rows.signal(dream, run, ordinal=ordinal, fingerprint=fingerprint)
    await evidence.save_labels(db, dream, series.taxonomy_id, {"f1": Label("state_rot", 0.8, "rule:x")})
    found = await evidence.signals_of(db, dream, series.taxonomy_id)
    assert [each.code for each in found] == ["state_rot", None, "state_rot"]


async def test_a_label_that_was_given_stays(db, series, dream, signal):
    for label in (Label("state_rot", 0.8, "rule:x"), Label("token_burn", 0.9, "model:y")):
        await evidence.save_labels(db, dream, series.taxonomy_id, {"f1": label})
    labels = await db.fetchval("SELECT labels FROM yume.signals WHERE id = $1", signal)
    assert labels == {str(series.taxonomy_id): {"code": "state_rot", "confidence": 0.8, "by": "rule:x"}}


async def test_another_taxonomy_labels_beside_the_first(db, series, dream, signal):
    other = TaxonomyId(new_id())
    await evidence.save_labels(db, dream, series.taxonomy_id, {"f1": Label("state_rot", 0.8, "rule:x")})
    await evidence.save_labels(db, dream, other, {"f1": Label("wrong_result", 0.7, "model:y")})
    codes = [(await evidence.signals_of(db, dream, name))[0].code for name in (series.taxonomy_id, other)]
    assert codes == ["state_rot", "wrong_result"]


async def test_the_trail_of_a_lesson_leads_to_its_records_in_the_order_it_cites(db, rows, series, dream):
    signals = [await rows.signal(dream, await rows.run(series, dream, task)) for task in ("a", "b", "c")]
    lesson = await rows.lesson(series, [signals[2], signals[0]])
    trail = await evidence.trail_of(db, lesson)
    assert [(each.signal.id, each.raw_key) for each in trail] == [
        (signals[2], f"runs/c/{OLD}.json"),
        (signals[0], f"runs/a/{OLD}.json"),
    ]
    assert {(each.platform, each.series) for each in trail} == {("tobatsu", "kamila")}


async def test_a_trail_leads_to_the_record_that_the_signal_was_found_in(db, rows, series, dream, pull):
    signal = await rows.signal(dream, await rows.run(series, dream, "a"))
    lesson = await rows.lesson(series, [signal])
    await pull(dream, Pulled("a", raw_key=f"runs/a/{SHA256}.json", raw_sha256=SHA256))
    (stop,) = await evidence.trail_of(db, lesson)
    assert (stop.raw_key, stop.signal_raw_sha256) == (f"runs/a/{OLD}.json", OLD)
