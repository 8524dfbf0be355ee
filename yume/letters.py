"""Dead letters: the messages that were given up, each to be sent once more or dropped by a person."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import structlog
from pydantic import ValidationError

from yume.errors import PermanentError
from yume.events import REASON_HEADER, Data, Event
from yume.ids import DreamId
from yume.jetstream import JetStream
from yume.pipeline import STAGES, STREAM
from yume.stages import s8_commands
from yume.store import dreams
from yume.stored import Stored
from yume.topology import holds

if TYPE_CHECKING:
    from yume.store.database import Db

log = structlog.get_logger()

DEAD: Final = "dead"
_ONE_SUBJECT: Final = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)+")  # no wildcard, no empty token
_ENDED: Final = ("finished", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class About:
    """What the message told: a step's names a dream, a platform's a task."""

    platform: str
    series: str
    dream: UUID | None
    task: str | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter without its body; `subject` and `original` are where the message stood in `stream`.

    Whatever a message does not say is "" or 0: anybody with the right to can put one into the dead stream.
    `key` is the letter's own message id. `about` is None where the body is not kept or no event.
    """

    sequence: int
    died_at: datetime
    stream: str
    consumer: str
    subject: str
    original: int
    reason: str
    tries: int
    bytes: int
    kept: bool
    key: str
    about: About | None

    def to_json(self) -> Mapping[str, Any]:
        """Return the letter for programs."""
        about = self.about
        return {
            "sequence": self.sequence,
            "died_at": self.died_at.isoformat(),
            "stream": self.stream,
            "consumer": self.consumer,
            "subject": self.subject,
            "original_sequence": self.original,
            "reason": self.reason,
            "tries": self.tries,
            "bytes": self.bytes,
            "kept": self.kept,
            "platform": about and about.platform,
            "series": about and about.series,
            "dream_id": str(about.dream) if about and about.dream else None,
            "task_id": about and about.task,
        }


class _Told(Data):
    dream_id: UUID | None = None
    task_id: str | None = None


async def every_letter(js: JetStream) -> AsyncIterator[Letter]:
    """Give the dead letters, oldest first."""
    async for stored in js.stored(DEAD):
        yield _letter(stored)


async def letter(js: JetStream, sequence: int) -> tuple[Letter, bytes]:
    """Return one dead letter with its body."""
    stored = await js.message(DEAD, sequence)
    if stored is None:
        raise _unknown(sequence)
    return _letter(stored), stored.body


async def requeue(js: JetStream, db: Db, sequence: int) -> Letter:
    """Store the message once more where it stood, then remove its letter; refused where that changes nothing.

    Whoever reads that subject gets it, not only the consumer that gave it up. What happens twice within the
    stream's window for duplicates is stored once.
    """
    found, body = await letter(js, sequence)
    _check_place(found)
    _check_command(found)
    _check_kept(found)
    await _check_dream(db, found)
    key = f"requeued/{found.key or found.sequence}/{found.died_at.isoformat()}"
    await js.store_bytes(found.subject, body, stream=found.stream, key=key)
    await js.remove(DEAD, sequence)
    log.info("letter_requeued", sequence=sequence, stream=found.stream, consumer=found.consumer)
    return found


async def drop(js: JetStream, sequence: int, *, by: str, why: str) -> None:
    """Remove a letter for good; the log is all that remembers it."""
    if not why.strip():
        raise PermanentError("a letter is dropped with a reason: say why")
    if not await js.remove(DEAD, sequence):
        raise _unknown(sequence)
    log.warning("letter_dropped", sequence=sequence, by=by, why=why)


def _unknown(sequence: int) -> PermanentError:
    return PermanentError(f"there is no dead letter {sequence}: `yume dead list` shows those there are")


def _check_place(found: Letter) -> None:
    """Refuse to publish where Yume never does: a letter's headers could name a command to the server."""
    if not _ONE_SUBJECT.fullmatch(found.subject) or not holds(found.stream, found.subject):
        raise PermanentError(
            f"dead letter {found.sequence} names the subject {found.subject!r}, which is none of stream "
            f"{found.stream!r}: Yume did not write it; `yume dead drop` removes it"
        )


def _check_command(found: Letter) -> None:
    """Refuse a call for a command: what it called for was settled when the call was given up."""
    if found.consumer == s8_commands.NAME:
        raise PermanentError(
            f"dead letter {found.sequence} called for a command that has failed since: sent once more "
            "it changes nothing; give the command again (`yume rollback`, `yume kill`, `yume series adopt`)"
        )


def _check_kept(found: Letter) -> None:
    if not found.kept:
        raise PermanentError(
            f"dead letter {found.sequence} is without its body: {found.bytes} bytes were too many to keep; "
            f"the original lies in stream {found.stream} under sequence {found.original} until it expires"
        )


async def _check_dream(db: Db, found: Letter) -> None:
    """Refuse a step's message whose dream does not run: a worker would find nothing to do."""
    steps = {stage.name for stage in STAGES}
    if found.stream != STREAM or found.consumer not in steps or found.about is None or not found.about.dream:
        return
    dream = found.about.dream
    row = await dreams.progress_of(db, DreamId(dream))
    letter_about = f"dead letter {found.sequence} is about dream"
    if row is None:
        raise PermanentError(
            f"{letter_about} {dream}, and there is no such dream: sent once more it would die again; "
            "`yume dead drop` removes it"
        )
    if row.status in _ENDED:
        again = (
            shlex.join(["yume", "replay", row.platform, row.series, str(row.number), "--apply"]) + " --why …"
        )
        raise PermanentError(
            f"{letter_about} {row.number} ({dream}), which is {row.status}: sent once more it changes "
            f"nothing; `{again}` runs the dream again"
        )
    if row.status != "running":
        raise PermanentError(
            f"{letter_about} {row.number} ({dream}), which is {row.status}: sent once more it changes "
            "nothing before the dream runs"
        )


def _letter(stored: Stored) -> Letter:
    _, _, stood = stored.subject.partition(f"yume.{DEAD}.")
    stream, _, consumer = stood.partition(".")
    size = _figure(stored, "Yume-Bytes")
    return Letter(
        sequence=stored.sequence,
        died_at=stored.stored_at,
        stream=stream,
        consumer=consumer,
        subject=stored.headers.get("Yume-Subject", ""),
        original=_figure(stored, "Yume-Sequence"),
        reason=stored.headers.get(REASON_HEADER, ""),
        tries=_figure(stored, "Yume-Tries"),
        bytes=size,
        kept=bool(stored.body) or size == 0,
        key=stored.headers.get("Nats-Msg-Id", ""),
        about=_about(stored.body),
    )


def _figure(stored: Stored, header: str) -> int:
    text = stored.headers.get(header, "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else 0


def _about(body: bytes) -> About | None:
    try:
        told = _Told.model_validate(Event.model_validate_json(body).data)
    except ValidationError:
        return None
    return About(told.platform, told.series, told.dream_id, told.task_id)
