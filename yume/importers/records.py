"""What every importer yields: a run as a record of the platform contract, or a piece it could not read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

Json = dict[str, Any]

SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"


@dataclass(frozen=True, slots=True)
class Imported:
    """A record of the contract (`task`, `runs`, `events`, `inquiries`), and in `place` where it stood."""

    place: str
    record: Json


@dataclass(frozen=True, slots=True)
class Unread:
    """A piece that could not be read: where it stands, and why it is left out."""

    place: str
    why: str


Piece = Imported | Unread


class Read(Protocol):
    """What an importer's module offers: reads a file or a folder piece by piece, never all at once."""

    def __call__(self, root: Path, /, *, series: str) -> Iterator[Piece]:
        """Yield the pieces in the order in which they stand; `series` names the records' series.

        Raises PermanentError where there is nothing to read at all.
        """
        ...


class NotOfFormatError(ValueError):
    """A value that parses but is no run of the format; the message says what is missing."""


def record(
    task: Json, run: Json, *, source: Mapping[str, Any], events: Sequence[Json] = (), finished: str
) -> Json:
    """Put a record of one attempt together; `source` is what the format says beyond the contract.

    `finished` stands in where the format knows no end (a run that lies in a file had ended when the file was
    written); `finished_at_from` then says so.
    """
    stated = task.get("finished_at") or run.get("finished_at")
    at = {"finished_at": stated} if stated else {"finished_at": finished, "finished_at_from": "file"}
    whole: Json = {
        "task": {name: value for name, value in {**task, **at}.items() if value is not None},
        "runs": [{"task_id": task["id"], "attempt": 1} | run],
        "events": [{"at": at["finished_at"], "run_id": run["id"]} | each for each in events],
        "inquiries": [],
        "source": dict(source),
    }
    return whole


def needed(item: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Take fields that make an item a run of the format; NotOfFormatError names the first that is missing."""
    for name in names:
        if name not in item:
            known = ", ".join(sorted(map(str, item))[:6]) or "no field at all"
            raise NotOfFormatError(f"no field {name!r}; there is {known}")
    return tuple(item[name] for name in names)


def without(item: Mapping[str, Any], *names: str) -> Json:
    """Return what is left of an item when the fields that were taken over are gone."""
    return {name: value for name, value in item.items() if name not in names}


def judged(item: Mapping[str, Any], name: str) -> bool | None:
    """Take a verifier's word, None where it gave none; NotOfFormatError where it is anything else."""
    word = item[name]
    if word is not None and not isinstance(word, bool):
        raise NotOfFormatError(f"{name} is true, false or null, not {json.dumps(word)[:40]}")
    return word


def verdict(passed: object, /) -> str | None:
    """Say a judgement in the contract's words: None is a verifier that gave none."""
    return {True: "pass", False: "fail"}.get(passed) if isinstance(passed, bool) else None


def status(passed: object, /) -> str:
    """Say how the task ended: one that nobody judged has ended all the same."""
    return {True: SUCCEEDED, False: FAILED}.get(passed, "ended") if isinstance(passed, bool) else "ended"
