"""What the version in the slot has lived through, by the runs that were started with it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.domain.rounds import Standing
from yume.domain.runs import Judgement
from yume.store import dreams, effects, evidence
from yume.store.evidence import Judged

MINUTE = timedelta(minutes=1)


@pytest.fixture
def judged(db, rows, series, now):
    """A run of a dream that was started with a version."""

    async def made(dream, task: str, version: str, outcome="failure", source="reported") -> None:
        run = await rows.run(series, dream, task)
        judgement = Judgement(outcome, rescued=False, settled=True)
        await evidence.save_outcomes(db, [Judged(run, judgement, "fail", version, source)], now)

    return made


@pytest.fixture
def write(db, rows, series, now):
    async def written(version: str, later: int = 0, kind="write") -> None:
        injection = await rows.injection(series, None, kind=kind, now=now + later * MINUTE)
        await effects.written(db, series.id, injection, version, now + (later + 1) * MINUTE)

    return written


async def _standing(db, series):
    found = await effects.standing_of(db, series.id)
    return None if found is None else found.standing


async def test_a_slot_that_yume_never_wrote_has_no_standing(db, rows, series, dream, judged):
    await judged(dream, "task-1", "5")
    await rows.injection(series, None, kind="write")
    assert await effects.standing_of(db, series.id) is None


async def test_a_version_that_nothing_ran_with_has_lived_through_nothing(db, rows, series, write, now):
    await write("5")
    found = await effects.standing_of(db, series.id)
    assert (found.requested_at, found.written_at) == (now, now + MINUTE)
    assert found.standing == Standing(batches=0, runs=0, kind="write")
    assert await effects.standing_of(db, (await rows.series("another")).id) is None


async def test_a_version_has_lived_through_the_batches_and_the_runs_that_were_started_with_it(
    rows, series, dream, write, judged
):
    await write("5")
    for task, version in (("a", "5"), ("b", "5"), ("of-the-version-before", "4")):
        await judged(dream, task, version)
    await dreams.finish(rows.db, dream, rows.now)
    await judged(await rows.dream(series), "c", "5", "success")
    assert await _standing(rows.db, series) == Standing(batches=2, runs=3, kind="write")


@pytest.mark.parametrize(
    ("seen", "counts"),
    [
        *((("success", "reported"), True), (("failure", "inferred"), True)),
        *((("infrastructure", "reported"), False), (("cancelled", "reported"), False)),
        *((("unknown", "reported"), False), (("failure", "mixed"), False)),
    ],
)
async def test_a_run_counts_if_it_tells_something_of_the_version(rows, dream, judged, seen, counts):
    series = await rows.series()
    injection = await rows.injection(series, None, kind="write")
    await effects.written(rows.db, series.id, injection, "5", rows.now)
    await judged(dream, "task-1", "5", *seen)
    assert await _standing(rows.db, series) == Standing(int(counts), int(counts), "write")


async def test_the_version_that_was_written_last_is_the_one_in_the_slot(db, series, dream, write, judged):
    await write("5")
    await judged(dream, "task-1", "5")
    await write("6", 1)
    assert await _standing(db, series) == Standing(0, 0, "write")
    await write("5", 2, "rollback")
    assert await _standing(db, series) == Standing(1, 1, "rollback")


async def test_a_version_stood_in_the_slot_from_when_it_was_written(db, rows, series, write, now):
    await write("5")
    assert not await effects.was_in_slot(db, series.id, now)
    assert await effects.was_in_slot(db, series.id, now + MINUTE)
    await write("6", 5)
    assert await effects.was_in_slot(db, series.id, now + MINUTE)
    assert not await effects.was_in_slot(db, (await rows.series("another")).id, now + 9 * MINUTE)
