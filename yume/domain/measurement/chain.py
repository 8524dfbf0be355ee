"""How far a lesson gets: from the runs it stood ready for to those that read it, follow it, and fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Link:
    """Settled runs that came this far, and those of them that failed."""

    runs: int
    failures: int

    def to_json(self) -> dict[str, int]:
        """Return what a measurement keeps of it."""
        return {"runs": self.runs, "failures": self.failures}


@dataclass(frozen=True, slots=True)
class Chain:
    """Counts, each link a part of the one before.

    `eligible` runs started while the lesson stood in the slot, `injected` ones are said by the platform to
    have read it, `shown` ones have a record that shows their commands, and a command of the `followed` ones
    does what the lesson prescribes (None for a lesson that names no command). Who follows is no accident:
    the links are counts and no effect.
    """

    eligible: Link
    injected: Link
    shown: Link
    followed: Link | None

    def to_json(self) -> dict[str, Any]:
        """Return what a measurement keeps of it."""
        return {
            "eligible": self.eligible.to_json(),
            "injected": self.injected.to_json(),
            "shown": self.shown.to_json(),
            "followed": None if self.followed is None else self.followed.to_json(),
        }


NO_CHAIN: Final = Chain(Link(0, 0), Link(0, 0), Link(0, 0), None)
