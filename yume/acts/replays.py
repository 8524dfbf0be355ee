"""Having a dream's batch reviewed once more: shown only, or applied on what stands now."""

from __future__ import annotations

from typing import Final

from yume.domain.dreams import REQUESTED
from yume.errors import PermanentError
from yume.events import ReplayRequested
from yume.ids import DreamId, SeriesId, derived_id
from yume.pipeline import STAGES
from yume.resources import Resources
from yume.store import access, batches, dreams
from yume.store.dreams import Known

STEPS: Final = tuple(stage.name for stage in STAGES)
LAST_SHOWN: Final = "s8_write"
LAST_APPLIED: Final = "s5_merge"


def step_named(name: str) -> str:
    """Return a step by its name or its number: `s3` is enough of `s3_classify`.

    A replay measures nothing: from S9 it shows what it shows from S8.
    """
    for step in STEPS:
        if name in (step, step[:2]):
            return min(step, LAST_SHOWN)
    raise PermanentError(f"no step is named {name!r}; there are {', '.join(STEPS)}")


def replay_id(original: DreamId, step: str, key: str) -> DreamId:
    """Derive the replay's id: one key is one replay, however often it is asked for."""
    return DreamId(derived_id(original, "replay", step, key))


async def queue(asked: ReplayRequested, resources: Resources) -> SeriesId:
    """Queue the replay that is asked for, once; return its series."""
    async with resources.db.acquire() as db, db.transaction():
        series = await access.find_series(db, asked.platform, asked.series)
        dream = await dreams.dream_named(db, DreamId(asked.dream_id))
        owner = await dreams.progress_of(db, DreamId(asked.dream_id))
        its_own = owner is not None and (owner.platform, owner.series) == (asked.platform, asked.series)
        if series is None or dream is None or not its_own:
            raise PermanentError(f"{asked.platform}/{asked.series} has no dream {asked.dream_id}")
        original = dream if dream.replay_of is None else await dreams.dream_named(db, dream.replay_of)
        assert original is not None
        step = step_named(asked.from_step)
        check(original, step, applies=asked.applies)
        await batches.lock_series(db, series.id)
        await batches.queue_replay(
            db,
            replay_id(original.id, step, asked.key),
            original.id,
            behind=None if step == STEPS[0] else STEPS[STEPS.index(step) - 1],
            applies=asked.applies,
            by=asked.by,
            why=asked.why,
            now=resources.now(),
        )
    return series.id


def check(original: Known, step: str, *, applies: bool) -> None:
    """Refuse what cannot be replayed from there."""
    if original.trigger == "release":
        raise PermanentError(
            f"dream {original.number} only released what was approved: there is nothing to replay"
        )
    if original.status not in ("finished", "failed", "cancelled"):
        raise PermanentError(
            f"dream {original.number} is {original.status}: it can be replayed when it has ended"
        )
    done = original.step or REQUESTED
    if step > STEPS[0] and done < STEPS[STEPS.index(step) - 1]:
        last = STEPS[STEPS.index(done) + 1] if done in STEPS else STEPS[0]
        raise PermanentError(
            f"dream {original.number} came no further than {done}: replay it from {last} or before"
        )
    if applies and step > LAST_APPLIED:
        raise PermanentError(
            f"--apply merges on what stands now: replay from {LAST_APPLIED} or before, not from {step}"
        )
