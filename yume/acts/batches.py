"""What a person does with a series' open batch: put tasks into it, and close it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from yume.acts import series as known
from yume.errors import PermanentError
from yume.resources import Resources
from yume.store import batches, dreams
from yume.store.dreams import Known

TASKS_AT_ONCE: Final = 10_000
TASK_ID_LIMIT: Final = 512


async def collect(
    platform: str,
    series: str,
    tasks: Sequence[str],
    resources: Resources,
    *,
    close: bool,
    by: str,
    why: str,
) -> Known:
    """Note tasks in the series' open batch as their callbacks would, and close it if that is wanted.

    A task that a dream has already stays that dream's. S1 reads from the export whether a task has ended, and
    takes every other one that no dream has taken, too.
    """
    if len(tasks) > TASKS_AT_ONCE:
        raise PermanentError(f"{len(tasks)} tasks at once, {TASKS_AT_ONCE} are allowed: give them in parts")
    if wrong := [task for task in tasks if not 0 < len(task) <= TASK_ID_LIMIT]:
        raise PermanentError(
            f"a task's id has 1 to {TASK_ID_LIMIT} characters, that of {len(wrong)} tasks has not"
        )
    async with resources.db.acquire() as db, db.transaction():
        found = await known.find(db, platform, series)
        await batches.lock_series(db, found.id)
        now = resources.now()
        dream = await batches.collecting(db, found.id, "manual", now)
        for task in dict.fromkeys(tasks):
            await batches.announce_run(
                db, found.id, dream, task_id=task, status=None, finished_at=None, now=now
            )
        if close:
            await batches.close_batch(db, dream, batch_id=None, now=now, trigger="manual", by=by, why=why)
        opened = await dreams.dream_named(db, dream)
    assert opened is not None
    return opened
