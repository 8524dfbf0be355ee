"""What a person or the clock queues beside the batches: releases, and replays of dreams that have ended."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from yume.ids import DreamId, LessonId, new_id
from yume.store import batches, dreams

MINUTE = timedelta(minutes=1)
GATE = {"decisions": []}
LEFT_BY = {
    "s1_pull": {"counters": {}, "broken": []},
    "s4_draft": {"draft_ids": None},
    "s5_merge": {"operations": []},
    "s6_gate": {"gate": None},
    "s7_compile": {"compiled": None},
}


async def _row(db, dream):
    return await db.fetchrow("SELECT * FROM yume.dream_runs WHERE id = $1", dream)


# Releases


async def test_a_release_starts_behind_the_gate_and_says_who_asked_and_why(db, rows, series, now):
    await rows.dream(series, "collecting")
    release = await batches.queue_release(
        db, series.id, by="person:ada", why="ready", forced=True, gate=GATE, now=now
    )
    row = await _row(db, release)
    assert (row["number"], row["trigger"], row["status"], row["step"]) == (2, "release", "queued", "s6_gate")
    assert (row["asked_by"], row["why"], row["forced"], row["gate"]) == ("person:ada", "ready", True, GATE)
    assert (row["created_at"], row["closed_at"], row["span"], row["applies"]) == (now, now, None, True)
    assert await batches.start_next(db, series.id, now) == release
    await dreams.mark_step(db, release, "s7_compile", now)


async def test_the_first_dream_of_a_series_may_be_a_release(db, series, now):
    release = await batches.queue_release(
        db, series.id, by="yume:orchestrator", why="waited", forced=False, gate=GATE, now=now
    )
    row = await _row(db, release)
    assert (row["number"], row["forced"]) == (1, False)


async def test_a_release_bounds_no_batch(db, rows, series, now):
    first = await rows.dream(series, "running")
    await dreams.mark_step(db, first, "s1_pull", now)
    end = (await dreams.dream_of(db, first)).before
    await dreams.finish(db, first, now)
    release = await batches.queue_release(db, series.id, by="a", why="b", forced=False, gate=GATE, now=now)
    assert await batches.start_next(db, series.id, now) == release
    await dreams.mark_step(db, release, "s7_compile", now)
    await dreams.finish(db, release, now)
    assert (await dreams.dream_of(db, await rows.dream(series))).after == end


# Replays


@pytest.fixture
def replay(db, now):
    async def queued(original, behind: str | None, *, applies: bool = False, name=None) -> DreamId | None:
        name = DreamId(name or new_id())
        asked = {"by": "person:ada", "why": "a new classifier", "now": now + MINUTE}
        made = await batches.queue_replay(db, name, original, behind=behind, applies=applies, **asked)
        return name if made else None

    return queued


@pytest.fixture
async def original(db, rows, series, now):
    """A dream that has gone through everything and left something at every step."""
    base = await rows.lesson_set(series, None)
    dream = await rows.dream(series)
    await dreams.mark_step(db, dream, "s8_write", now, counters={"tasks": 3}, usage={"s3": {"calls": 2}})
    await dreams.save_pulled(db, dream, broken=[{"task_id": "t"}], proposals=[{"id": "p"}])
    await dreams.save_drafts(db, dream, [LessonId(new_id())])
    await dreams.save_operations(db, dream, [{"kind": "add"}], [LessonId(new_id())])
    await dreams.save_gate(db, dream, GATE)
    await dreams.save_compiled(db, dream, {"body": "- a"}, base, None)
    await db.execute("UPDATE yume.dream_runs SET batch_id = 'b1'")
    await dreams.save_result(db, dream, "published", None, "reports/1.md")
    await dreams.finish(db, dream, now)
    return dream


async def test_a_replay_is_the_next_dream_of_its_originals_series(rows, series, original, replay):
    await rows.dream(await rows.series("another"))
    made = await replay(original, "s2_extract")
    row = await _row(rows.db, made)
    assert (row["series_id"], row["number"], row["trigger"], row["status"]) == (
        *(series.id, 2, "replay", "queued"),
    )
    assert (row["replay_of"], row["step"], row["batch_id"]) == (original, "s2_extract", "b1")
    assert (row["asked_by"], row["why"], row["applies"]) == ("person:ada", "a new classifier", False)
    assert (row["created_at"], row["closed_at"], row["span"]) == (rows.now + MINUTE, rows.now + MINUTE, None)
    for begun_anew in ("result", "report_key", "lesson_set_id", "started_at", "announced", "error"):
        assert row[begun_anew] is None, begun_anew
    assert row["usage"] == {}


@pytest.mark.parametrize("applies", [False, True])
@pytest.mark.parametrize(
    "behind", [None, "s1_pull", "s3_classify", "s4_draft", "s5_merge", "s6_gate", "s7_compile", "s8_write"]
)
async def test_a_replay_takes_over_what_the_steps_that_it_skips_have_left(
    db, original, replay, behind, applies
):
    made, left = await _row(db, await replay(original, behind, applies=applies)), await _row(db, original)
    for step, columns in LEFT_BY.items():
        skipped = behind is not None and step <= behind
        for column, empty in columns.items():
            assert left[column] != empty
            assert made[column] == (left[column] if skipped else empty), column
    assert made["proposals"] == left["proposals"]


@pytest.mark.parametrize("applies", [False, True])
async def test_only_a_replay_that_shows_stands_on_what_its_original_stood_on(db, original, replay, applies):
    made, left = await _row(db, await replay(original, None, applies=applies)), await _row(db, original)
    for column in ("base_lesson_set_id", "base_body_sha256", "taxonomy_id", "standing_ids"):
        assert left[column] is not None
        assert made[column] == (None if applies else left[column]), column


async def test_a_replay_that_is_asked_for_twice_under_one_id_is_one_row(db, original, replay):
    name = new_id()
    assert await replay(original, "s2_extract", name=name) == name
    assert await replay(original, "s4_draft", applies=True, name=name) is None
    row = await _row(db, name)
    assert (row["number"], row["step"], row["applies"]) == (2, "s2_extract", False)
    assert await replay(original, "s2_extract") is not None
    assert await db.fetchval("SELECT count(*) FROM yume.dream_runs") == 3


async def test_a_replay_of_no_dream_is_none(db, original, replay):
    assert await replay(DreamId(new_id()), None) is None
    assert await db.fetchval("SELECT count(*) FROM yume.dream_runs") == 1


async def test_a_replay_has_the_batch_and_the_text_of_its_original(db, series, original, replay, now):
    made = await replay(original, None)
    assert await batches.start_next(db, series.id, now + 5 * MINUTE) == made
    first, again = await dreams.dream_of(db, original), await dreams.dream_of(db, made)
    assert (again.root, again.root_number, again.root_compiled) == (original, 1, first.compiled)
    assert (again.before, again.after, again.frozen_at) == (first.before, first.after, first.started_at)
    assert again.evidence_ids == (original, made)
    assert (first.root, first.evidence_ids) == (original, (original,))


# Names


async def test_a_dream_is_known_by_its_number_and_by_its_id(db, rows, series, original, replay):
    made = await replay(original, None)
    numbered = [await dreams.dream_numbered(db, series.id, number) for number in (1, 2, 3)]
    assert numbered == [await dreams.dream_named(db, original), await dreams.dream_named(db, made), None]
    assert [each and (each.trigger, each.status, each.replay_of) for each in numbered] == [
        ("callback", "finished", None),
        ("replay", "queued", original),
        None,
    ]
    assert await dreams.dream_numbered(db, (await rows.series("another")).id, 1) is None
    assert await dreams.dream_named(db, DreamId(new_id())) is None


# Rules


NEW = """INSERT INTO yume.dream_runs (id, series_id, number, trigger, status, replay_of, applies, forced)
         VALUES ($1, $2, 9, $3, 'queued', $4, $5, $6)"""


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (("replay", True, True, False), True),
        (("replay", True, False, False), True),
        (("replay", False, True, False), False),
        (("callback", True, True, False), False),
        (("release", False, True, True), True),
        (("release", False, True, False), True),
        (("release", False, False, False), False),
        (("manual", False, True, True), False),
        (("replay", True, True, True), False),
        (("manual", False, False, False), False),
        (("manual", False, True, False), True),
    ],
)
async def test_a_replay_has_an_original_only_a_replay_only_shows_and_only_a_release_is_forced(
    db, series, original, kind, allowed
):
    trigger, of, applies, forced = kind
    values = (new_id(), series.id, trigger, original if of else None, applies, forced)
    if allowed:
        await db.execute(NEW, *values)
    else:
        with pytest.raises(asyncpg.CheckViolationError):
            await db.execute(NEW, *values)
    assert await db.fetchval("SELECT count(*) FROM yume.dream_runs WHERE number = 9") == int(allowed)
