"""S2: write how each run ended, and take out of its record the signals that say how it failed."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from yume.domain.extraction import EXTRACTOR_VERSION, extract
from yume.domain.facts import short
from yume.domain.following import followed
from yume.domain.reading import read_record
from yume.domain.runs import Capabilities, judge, verdict_of, version_read
from yume.domain.signals import Found
from yume.domain.text import clean
from yume.errors import PermanentError
from yume.events import RunBatch
from yume.ids import DreamId, LessonId, SignalId, derived_id
from yume.resources import Resources
from yume.store import access, dreams, effects, evidence
from yume.store.evidence import Archived, Judged, Placed

STEP: Final = "s2_extract"
PATH_LIMIT: Final = 1_000
EXCERPT_LIMIT: Final = 4_000  # as the table has it
AT_ONCE: Final = 4  # whole records are in memory while they are read


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Judge the batch's runs; the same record gives the same signals under the same ids."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        platform = await access.platform_of(db, dream.series.platform)
        archived = await evidence.runs_to_extract(db, dream.series.id, dream.root, dream.started_at)
        texts = await effects.texts_by_version(db, dream.series.id)
        rules = await effects.rules_by_version(db, dream.series.id)
        switches = await effects.switches(db, dream.series.id)

    gate = asyncio.Semaphore(AT_ONCE)
    reader = Reader(resources, platform.words, texts, rules, switches, resources.now(), gate)
    read = await asyncio.gather(*(reader.read(each) for each in archived))
    judged = [each for each, _ in read]
    placed = [signal for _, signals in read for signal in signals]

    async with resources.db.acquire() as db, db.transaction():
        counters = _counters(judged, placed)
        await dreams.mark_step(db, dream.id, STEP, resources.now(), fence=dream.fence, counters=counters)
        if not dream.dry:
            await evidence.save_outcomes(db, judged, resources.now())
        await evidence.save_signals(db, dream.id, EXTRACTOR_VERSION, placed)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads archived records, a few at a time, knowing the platform's words and the injected texts."""

    resources: Resources
    words: Capabilities
    texts: Mapping[str, str]
    rules: Mapping[str, Mapping[LessonId, str]]
    switches: Sequence[tuple[datetime, str]]
    now: datetime
    gate: asyncio.Semaphore

    async def read(self, run_: Archived) -> tuple[Judged, list[Placed]]:
        """Judge one run and find its signals."""
        async with self.gate:
            raw = await self.resources.archive.get(run_.raw_key)
            return await asyncio.to_thread(self._judge, run_, raw)

    def _judge(self, run_: Archived, raw: bytes) -> tuple[Judged, list[Placed]]:
        if hashlib.sha256(raw).hexdigest() != run_.raw_sha256:
            raise PermanentError(
                f"{run_.raw_key} was changed in the archive: its sha256 is no longer the run's"
            )
        record = read_record(raw)
        version, source = version_read(record, self.switches)
        version = short(version)
        judgement = judge(record, self.words, now=self.now)
        cancelled = judgement.outcome == "cancelled"  # an owner's stop looks like a failed attempt
        # Every text that was ever written: a platform need not say which one a run has read.
        injected = "\n".join(self.texts.values())
        found = [] if cancelled else [each for each in extract(record, injected=injected) if _fits(each)]
        kept = followed(record, self.rules.get(version or "", {}))
        return Judged(run_.id, judgement, verdict_of(record), version, source, kept), [
            Placed(_signal_id(run_, ordinal), run_.id, ordinal, run_.raw_sha256, each)
            for ordinal, each in enumerate(found)
        ]


def _fits(found: Found) -> bool:
    """Say whether a row can hold a signal: a key of the platform's own making may be anything."""
    path = found.pointer.path
    return clean(path) == path and len(path) <= PATH_LIMIT and len(found.excerpt) <= EXCERPT_LIMIT


def _signal_id(run_: Archived, ordinal: int) -> SignalId:
    """Derive the id from the record as well: a record that changed later has signals of its own."""
    return SignalId(derived_id(run_.id, EXTRACTOR_VERSION, run_.raw_sha256, ordinal))


def _counters(judged: Sequence[Judged], placed: Sequence[Placed]) -> dict[str, int]:
    outcomes = Counter(each.judgement.outcome for each in judged)
    return {
        "runs": len(judged),
        "successes": outcomes["success"],
        "failures": outcomes["failure"],
        "infrastructure": outcomes["infrastructure"],
        "cancelled": outcomes["cancelled"],
        "unknown": outcomes["unknown"],
        "signals": len(placed),
    }
