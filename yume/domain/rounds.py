"""When the version in a slot may be replaced, by how much, and what a dream leaves to be written."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal, assert_never
from uuid import UUID

from yume.domain.lessons import Lesson
from yume.domain.projection import LeftOut, Projection, rank
from yume.ids import LessonId

Kind = Literal["write", "rollback", "kill", "experiment", "adopted"]

DWELL: Final = "dwell"  # why a dream ends held while a version is being measured
DWELL_BATCHES: Final = 2
DWELL_RUNS: Final = 60
CAP_BATCHES: Final = 8
CAP_RUNS: Final = 400
ADDED: Final = 5
CHANGED: Final = 5
CHANGED_PERCENT: Final = 30


@dataclass(frozen=True, slots=True)
class Standing:
    """What the version in the slot has lived through since it was written; `kind` is how it came there.

    `decided` tells whether a look has found it better or worse.
    """

    batches: int
    runs: int
    kind: Kind
    decided: bool = False


@dataclass(frozen=True, slots=True)
class NamedBatch:
    """A batch that the platform names, and since when Yume knows of it."""

    id: str
    since: datetime
    finished: bool


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a dream compiled, as its row keeps it until the slot may be written."""

    version: int
    body: str
    body_sha256: str
    text: str
    text_sha256: str
    tokens: int
    lesson_ids: tuple[LessonId, ...]
    left_out: tuple[LeftOut, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what the dream's row keeps."""
        return {
            "version": self.version,
            "body": self.body,
            "body_sha256": self.body_sha256,
            "text": self.text,
            "text_sha256": self.text_sha256,
            "tokens": self.tokens,
            "lesson_ids": [str(each) for each in self.lesson_ids],
            "left_out": [{"lesson_id": str(each.lesson_id), "why": each.why} for each in self.left_out],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Compiled:
        """Read what `to_json` wrote."""
        return cls(
            row["version"],
            row["body"],
            row["body_sha256"],
            row["text"],
            row["text_sha256"],
            row["tokens"],
            tuple(LessonId(UUID(each)) for each in row["lesson_ids"]),
            tuple(LeftOut(LessonId(UUID(each["lesson_id"])), each["why"]) for each in row["left_out"]),
        )


def compiled(projection: Projection, version: int) -> Compiled:
    """Return the projection, which was made for this version, as the dream's row keeps it."""
    return Compiled(
        version,
        projection.body,
        projection.body_sha256,
        projection.text,
        projection.text_sha256,
        projection.tokens,
        projection.lesson_ids,
        projection.left_out,
    )


def dwell(standing: Standing | None) -> str | None:
    """Return what the version in the slot still lacks before it may be replaced, None if it may be now.

    None stands for an empty slot too. What a rollback, a kill or an adoption put there does not have to stay:
    none of them was a dream's choice that is being measured.
    """
    if standing is None:
        return None
    match standing.kind:
        case "rollback" | "kill" | "adopted":
            return None
        case "write" | "experiment":
            return _lacking(standing)
        case _:
            assert_never(standing.kind)


def choose(
    approved: Sequence[Lesson], base: Collection[LessonId] | None
) -> tuple[list[Lesson], list[LeftOut]]:
    """Choose what the next version may hold beside `base`, what the one in the slot holds; the rest waits.

    Both come best first, whatever the order of `approved`. What is no longer approved has left already, so it
    takes its share of the quota first. No base at all, or a rule of the owner's, knows no quota.
    """
    ranked = sorted(approved, key=rank)
    if base is None:
        return ranked, []
    removed = set(base) - {lesson.id for lesson in approved}
    free = [each for each in ranked if each.id in base or each.origin == "owner"]
    additions = [each for each in ranked if each.id not in base and each.origin != "owner"]
    room = _room(len(set(base)), removed=len(removed))
    chosen = sorted([*free, *additions[:room]], key=rank)
    return chosen, [LeftOut(each.id, "quota") for each in additions[room:]]


def crowding(
    chosen: Sequence[Lesson], shown: Collection[LessonId], base: Collection[LessonId]
) -> Lesson | None:
    """Return the addition to give up where what fits the budget pushes too much of `base` out of it.

    `shown` are the lessons that the compiled text holds. An addition counts, and so does each lesson of the
    base that is no longer there, whether it was retired or pushed out.
    """
    additions = [
        each for each in chosen if each.id in shown and each.id not in base and each.origin != "owner"
    ]
    changes = len(additions) + len(set(base) - set(shown))
    if changes <= _changes(len(set(base))):
        return None
    return max(additions, key=rank, default=None)


def blocking(batches: Iterable[NamedBatch], now: datetime, max_wait: timedelta) -> NamedBatch | None:
    """Return the open batch that forbids a slot write for longest: until its `since` + `max_wait` at most."""
    still = [each for each in batches if not each.finished and now < each.since + max_wait]
    return max(still, key=lambda each: (each.since, each.id), default=None)


def difference(before: str, after: str) -> list[str]:
    """Return the rules that two bodies do not share, in their order: `- old`, `+ new`; empty if none."""
    old, new = before.splitlines(), after.splitlines()
    found: list[str] = []
    compared = difflib.SequenceMatcher(a=old, b=new)
    for tag, old_from, old_to, new_from, new_to in compared.get_opcodes():
        if tag != "equal":
            found += [f"- {line.removeprefix('- ')}" for line in old[old_from:old_to]]
            found += [f"+ {line.removeprefix('- ')}" for line in new[new_from:new_to]]
    return found


def _lacking(standing: Standing) -> str | None:
    if standing.batches >= CAP_BATCHES or standing.runs >= CAP_RUNS:
        return None
    lacking = []
    if standing.batches < DWELL_BATCHES:
        lacking.append(f"{standing.batches} of {DWELL_BATCHES} batches")
    if standing.runs < DWELL_RUNS:
        lacking.append(f"{standing.runs} of {DWELL_RUNS} runs")
    if not lacking and not standing.decided:
        so_far = f"{standing.batches} of {CAP_BATCHES} batches and {standing.runs} of {CAP_RUNS} runs"
        return f"no verdict yet, {so_far} at most"
    return " and ".join(lacking) or None


def _room(base: int, *, removed: int) -> int:
    """Return how many lessons may be added to a version of `base` lessons of which `removed` go."""
    return max(0, min(ADDED, _changes(base) - removed))


def _changes(base: int) -> int:
    return max(CHANGED, base * CHANGED_PERCENT // 100)
