"""Names for the things that Yume counts, and the two ways in which one is made: drawn or derived."""

from __future__ import annotations

import uuid
from typing import NewType
from uuid import UUID

import uuid_utils.compat

PlatformId = NewType("PlatformId", str)
SeriesId = NewType("SeriesId", UUID)
TaxonomyId = NewType("TaxonomyId", UUID)
DreamId = NewType("DreamId", UUID)
RunId = NewType("RunId", UUID)
SignalId = NewType("SignalId", UUID)
LessonId = NewType("LessonId", UUID)
LessonSetId = NewType("LessonSetId", UUID)
InjectionId = NewType("InjectionId", UUID)
MeasurementId = NewType("MeasurementId", UUID)

_SEPARATOR = "\x1f"  # cannot occur in cleaned text, so ("a", "b") and ("ab",) never meet


def new_id() -> UUID:
    """Return a UUIDv7: a later one sorts after an earlier one."""
    return uuid_utils.compat.uuid7()


def following_id(first: UUID, place: int) -> UUID:
    """Return the id that sorts `place` places after another: what one act makes keeps its order."""
    return UUID(int=first.int + place)


def derived_id(namespace: UUID, *parts: str | int) -> UUID:
    """Return the UUIDv5 of the parts: what must be the same twice is derived, not drawn."""
    return uuid.uuid5(namespace, _SEPARATOR.join(str(part) for part in parts))
