"""How a dream may move, whoever writes: the trigger and the indexes, each in both directions."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import get_args

import asyncpg
import pytest

from yume.domain.dreams import Status
from yume.ids import new_id

REFUSED = asyncpg.IntegrityConstraintViolationError
STATUSES: tuple[Status, ...] = get_args(Status)
DREAM_WAYS = {
    ("collecting", "queued"),
    ("collecting", "cancelled"),
    ("queued", "running"),
    ("queued", "cancelled"),
    ("running", "parked"),
    ("running", "finished"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("parked", "queued"),
    ("parked", "running"),
    ("parked", "failed"),
    ("parked", "cancelled"),
}
ENDED = {"finished", "failed", "cancelled"}


async def _set_status(db, dream, status):
    await db.execute(
        "UPDATE yume.dream_runs SET status = $2, finished_at = $3 WHERE id = $1",
        *(dream, status, datetime(2026, 5, 2, tzinfo=UTC) if status in ENDED else None),
    )


@pytest.mark.parametrize(("source", "target"), sorted(DREAM_WAYS))
async def test_a_legal_transition_of_a_dream_passes(db, rows, series, source, target):
    dream = await rows.dream(series, source)
    await _set_status(db, dream, target)
    assert await db.fetchval("SELECT status FROM yume.dream_runs WHERE id = $1", dream) == target


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in itertools.product(STATUSES, STATUSES) if pair not in DREAM_WAYS and pair[0] != pair[1]],
)
async def test_any_other_transition_of_a_dream_is_refused(db, rows, series, source, target):
    dream = await rows.dream(series, source)
    with pytest.raises(REFUSED, match=f"{source} -> {target} is no legal transition"):
        await _set_status(db, dream, target)


async def test_a_dream_that_ended_says_when(db, dream):
    with pytest.raises(asyncpg.CheckViolationError):
        await db.execute("UPDATE yume.dream_runs SET status = 'finished'")


async def test_a_step_never_goes_back(db, dream):
    step = "UPDATE yume.dream_runs SET step = $1"
    await db.execute(step, "s3_classify")
    await db.execute(step, "s3_classify")
    await db.execute(step, "s4_draft")
    for earlier in ("s3_classify", "s1_pull", None):
        with pytest.raises(REFUSED, match="cannot go back"):
            await db.execute(step, earlier)


async def test_a_gate_is_written_once(db, dream):
    gate = "UPDATE yume.dream_runs SET gate = $1"
    await db.execute(gate, {"decisions": [1]})
    await db.execute(gate, {"decisions": [1]})
    for other in ({"decisions": []}, None):
        with pytest.raises(REFUSED, match="its gate was written and cannot change"):
            await db.execute(gate, other)


async def test_one_dream_of_a_series_collects_and_one_runs(db, rows, series):
    await rows.dream(series, "running")
    waiting = await rows.dream(series, "queued")
    await rows.dream(series, "collecting")
    with pytest.raises(asyncpg.UniqueViolationError, match="dream_runs_one_running"):
        await _set_status(db, waiting, "running")
    with pytest.raises(asyncpg.UniqueViolationError, match="dream_runs_one_collecting"):
        await db.execute(
            "INSERT INTO yume.dream_runs (id, series_id, number, trigger) VALUES ($1, $2, 99, 'manual')",
            *(new_id(), series.id),
        )


async def test_a_parked_dream_does_not_count_as_running(rows, series):
    await rows.dream(series, "parked")
    await rows.dream(series, "running")


async def test_dreams_of_two_series_run_side_by_side(rows, series):
    await rows.dream(series, "running")
    await rows.dream(await rows.series("another"), "running")


@pytest.mark.parametrize("status", sorted(ENDED))
@pytest.mark.parametrize(
    "change",
    [
        "counters = '{\"runs\": 1}'",
        "operations = '[1]'",
        "result = 'published'",
        "number = 9",
        "error = 'no'",
    ],
)
async def test_what_an_ended_dream_came_to_never_changes(db, rows, series, status, change):
    dream = await rows.dream(series, status)
    with pytest.raises(REFUSED, match="only its last announcement may still be noted"):
        await db.execute(f"UPDATE yume.dream_runs SET {change} WHERE id = $1", dream)


@pytest.mark.parametrize("status", sorted(ENDED))
async def test_the_announcement_of_an_ended_dream_is_still_noted(db, rows, series, status):
    dream = await rows.dream(series, status)
    await db.execute(
        "UPDATE yume.dream_runs SET announced = 's9_measure', announced_at = now() WHERE id = $1", dream
    )
    assert await db.fetchval("SELECT announced FROM yume.dream_runs WHERE id = $1", dream) == "s9_measure"


ENTRY = [{"from": "report_only", "to": "auto", "by": "anna", "why": "read the reports", "at": "2026-05-01"}]


async def test_a_series_changes_its_mode_only_on_the_record(db, series):
    with pytest.raises(REFUSED, match="needs an entry in promotions"):
        await db.execute("UPDATE yume.series SET mode = 'auto'")
    await db.execute("UPDATE yume.series SET mode = 'auto', promotions = promotions || $1::jsonb", ENTRY)
    assert await db.fetchval("SELECT mode FROM yume.series") == "auto"


@pytest.mark.parametrize("record", ["'[]'", '\'[{"by": "nobody"}]\''])
async def test_the_record_of_promotions_is_only_added_to(db, series, record):
    await db.execute("UPDATE yume.series SET mode = 'auto', promotions = promotions || $1::jsonb", ENTRY)
    with pytest.raises(REFUSED, match="promotions are only added to"):
        await db.execute(f"UPDATE yume.series SET promotions = {record}")
