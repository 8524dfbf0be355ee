"""S1: pull the batch's tasks with all that the platform recorded of them, and archive each whole record."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from yume.clients.archive import LostEvidence
from yume.clients.platform import Export
from yume.domain.dreams import Dream
from yume.domain.facts import artifact_facts, attempt_facts, inquiry_facts, proposal_facts, short
from yume.domain.reading import read_record, write_document
from yume.domain.runs import VERDICT_MAY_COME, BrokenRecord, Record
from yume.domain.text import clean
from yume.errors import PermanentError, TransientError
from yume.events import RunBatch, folder_name
from yume.ids import DreamId
from yume.resources import Resources
from yume.store import access, dreams, evidence
from yume.store.evidence import Pulled

STEP: Final = "s1_pull"
OVERLAP: Final = timedelta(minutes=15)  # a task may appear in the export that much late
CHUNK: Final = 50
BROKEN_SHARE: Final = 0.1
ID_LIMIT: Final = 512
ID_SHOWN: Final = 80

Json = dict[str, Any]
Call = Callable[[Sequence[str]], Awaitable[list[Json]]]
Answers = Mapping[str, list[Json] | str]  # by task: its rows, or what is wrong with them


async def run(batch: RunBatch, resources: Resources, /) -> None:
    """Fill `runs`; run twice, it archives the same bytes under the same keys."""
    async with resources.db.acquire() as db:
        dream = await dreams.dream_of(db, DreamId(batch.dream_id))
        platform = await access.platform_of(db, dream.series.platform)
        announced = await evidence.announced_tasks(db, dream.root)
        since = resources.now() - VERDICT_MAY_COME
        again = dream.trigger != "replay"  # a replay has its original's tasks and no others
        unsettled = await evidence.unsettled_tasks(db, dream.series.id, dream.id, since) if again else {}
        left = await evidence.left_tasks(db, dream.series.id) if again else announced

    if dream.dry:  # it looks at what its original has archived, and at nothing newer
        async with resources.db.acquire() as db, db.transaction():
            counters = {"tasks": len(announced)}
            await dreams.mark_step(db, dream.id, STEP, resources.now(), fence=dream.fence, counters=counters)
        return

    async with resources.export(platform) as export:
        tasks = await _tasks(export, dream, oldest=min(unsettled.values(), default=None))
        async with resources.db.acquire() as db:
            ids = [name for task in tasks if (name := _id(task)) is not None]
            taken = await evidence.taken_tasks(db, dream.series.id, dream.root, ids)
        chosen = [task for task in tasks if (name := _id(task)) not in taken or name in unsettled]
        if dream.trigger == "replay":
            chosen = [task for task in chosen if _id(task) in announced]
        missing = _wait_for_late_ones(dream, announced, chosen, resources)
        puller = Puller(export, dream, resources)
        pulled = [
            each
            for start in range(0, len(chosen), CHUNK)
            for each in await puller.chunk(chosen[start : start + CHUNK])
        ]
        proposals = await export.proposals(dream.series.external_id)
    broken = _broken(pulled, known={*unsettled, *left}) + [
        {"task_id": each, "why": "announced, but not in the export", "raw_key": ""} for each in missing
    ]

    async with resources.db.acquire() as db, db.transaction():
        counters = {"tasks": len(chosen), "broken": len(broken)}
        await dreams.mark_step(db, dream.id, STEP, resources.now(), fence=dream.fence, counters=counters)
        await evidence.save_pulled_runs(db, dream.series.id, dream.root, _identified(pulled), resources.now())
        await dreams.save_pulled(db, dream.id, broken=broken, proposals=proposal_facts(proposals))


async def _tasks(export: Export, dream: Dream, *, oldest: Any) -> list[Json]:
    """List what finished in the dream's span, with an overlap, and as far back as a verdict may come."""
    bounds = [dream.after - OVERLAP if dream.after else None, oldest]
    after = None if dream.after is None else min(bound for bound in bounds if bound is not None)
    return await export.tasks(dream.series.external_id, finished_after=after, finished_before=dream.before)


def _id(task: Json) -> str | None:
    """Return a task's id, None where there is none or none that a row can hold."""
    name = "" if task.get("id") is None else str(task["id"])
    return name if 0 < len(name) <= ID_LIMIT and clean(name) == name else None


def _wait_for_late_ones(
    dream: Dream, announced: Iterable[str], tasks: Sequence[Json], resources: Resources
) -> list[str]:
    """Return what was announced and has not come; for a while that is a reason to wait."""
    listed = {_id(task) for task in tasks}
    missing = [task for task in announced if task not in listed]
    if missing and resources.now() < dream.started_at + OVERLAP:
        raise TransientError(
            f"{len(missing)} announced tasks are not in the export yet, such as {missing[0]!r}",
            retry_in=timedelta(seconds=30),
        )
    return missing


@dataclass(frozen=True, slots=True)
class Puller:
    """Pulls the records of one dream's tasks; the client bounds how many requests are under way."""

    export: Export
    dream: Dream
    resources: Resources

    async def chunk(self, tasks: Sequence[Json]) -> list[Pulled]:
        """Pull and archive the records of a few tasks."""
        ids = [name for task in tasks if (name := _id(task)) is not None]
        runs, inquiries = await asyncio.gather(
            self._of_tasks(self.export.runs, ids), self._of_tasks(self.export.inquiries, ids)
        )
        return await asyncio.gather(*(self._task(task, runs, inquiries) for task in tasks))

    async def _of_tasks(self, call: Call, ids: Sequence[str]) -> Answers:
        """Ask about all tasks at once; if that is too much, about each alone: one must not spoil the rest."""
        try:
            rows = await call(ids)
        except PermanentError as error:
            if len(ids) > 1:
                alone = await asyncio.gather(*(self._of_tasks(call, [each]) for each in ids))
                return {name: answer for answers in alone for name, answer in answers.items()}
            return {ids[0]: str(error)}
        found: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        for place, row in enumerate(rows):
            # A page that moved while it was read may list a row twice.
            found[str(row.get("task_id"))].setdefault(str(row.get("id", place)), row)
        return {name: list(of_task.values()) for name, of_task in found.items()}

    async def _task(self, task: Json, runs: Answers, inquiries: Answers) -> Pulled:
        """Put one task's record together and archive its bytes; one that is broken is named, not dropped."""
        task_id = _id(task)
        if task_id is None:
            return Pulled("", broken=f"/task/id: {repr(task.get('id'))[:ID_SHOWN]} names no task")
        parts: Json = {"task": task, "runs": runs.get(task_id, []), "inquiries": inquiries.get(task_id, [])}
        for name, value in parts.items():
            if isinstance(value, str):
                return Pulled(task_id, broken=f"/{name}: {value}")
        try:
            parts["events"] = await self.export.task_events(task_id)
        except PermanentError as error:
            return Pulled(task_id, broken=f"/events: {error}")
        raw = await asyncio.to_thread(write_document, parts)
        return await self._archived(task_id, raw)

    async def _archived(self, task_id: str, raw: bytes) -> Pulled:
        sha256 = hashlib.sha256(raw).hexdigest()
        series = self.dream.series
        key = f"runs/{series.platform}/{folder_name(series.external_id)}/{folder_name(task_id)}/{sha256}.json"
        try:
            await self.resources.archive.put(key, raw)
            record = await asyncio.to_thread(read_record, raw)
        except (LostEvidence, BrokenRecord) as error:
            return Pulled(task_id, raw_key=key, raw_sha256=sha256, raw_bytes=len(raw), broken=str(error))
        if record.task.series_id != series.external_id:
            wrong = f"/task/series_id: {record.task.series_id!r} is another series"
            return Pulled(task_id, raw_key=key, raw_sha256=sha256, raw_bytes=len(raw), broken=wrong)
        return _facts(record, raw_key=key, raw_sha256=sha256, raw_bytes=len(raw))


def _facts(record: Record, *, raw_key: str, raw_sha256: str, raw_bytes: int) -> Pulled:
    task = record.task
    return Pulled(
        task_id=task.id,
        status=short(task.status),
        task_kind=short(task.kind),
        template_version=short(task.template_version),
        agent_model=short(task.agent_model),
        started_at=task.started_at,
        finished_at=task.finished_at,
        attempts=attempt_facts(record),
        inquiries=inquiry_facts(record),
        artifacts=artifact_facts(record),
        raw_key=raw_key,
        raw_sha256=raw_sha256,
        raw_bytes=raw_bytes,
    )


def _broken(pulled: Sequence[Pulled], *, known: set[str]) -> list[dict[str, str]]:
    """Return what was left out; more than a tenth of a batch is no batch.

    Tasks known from an earlier dream do not count: what has failed one dream must not fail all that follow.
    """
    broken = [
        {"task_id": each.task_id, "why": each.broken, "raw_key": each.raw_key or ""}
        for each in pulled
        if each.broken is not None
    ]
    new = [each for each in pulled if each.task_id not in known]
    faulty = [each for each in new if each.broken is not None]
    if len(faulty) > BROKEN_SHARE * len(new):
        raise PermanentError(
            f"{len(faulty)} of {len(new)} records break the contract, at most {BROKEN_SHARE:.0%} may; "
            f"task {faulty[0].task_id!r}: {faulty[0].broken}"
        )
    return broken


def _identified(pulled: Sequence[Pulled]) -> list[Pulled]:
    return list({each.task_id: each for each in pulled if each.task_id}.values())
