"""Chance that can be repeated: every draw is a function of its key and of what is drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")
_SEPARATOR: Final = "\x1f"
_BITS: Final = 53  # as many as a float holds exactly


@dataclass(frozen=True, slots=True)
class Dice:
    """Draws for one key; the same name gives the same draw, and no draw moves another."""

    key: str

    @classmethod
    def of(cls, *parts: str | int) -> Dice:
        """Make the dice of a key given in parts."""
        return cls(_SEPARATOR.join(str(part) for part in parts))

    def digest(self, name: str) -> str:
        """Return 64 hex digits."""
        return hashlib.sha256(f"{self.key}{_SEPARATOR}{name}".encode()).hexdigest()

    def roll(self, name: str) -> float:
        """Draw from [0, 1)."""
        return (int(self.digest(name)[:16], 16) >> (64 - _BITS)) / (1 << _BITS)

    def happens(self, name: str, probability: float) -> bool:
        """Draw whether something of that probability happens: never at 0, always at 1."""
        return self.roll(name) < probability

    def between(self, name: str, low: int, high: int) -> int:
        """Draw a whole number from `low` to `high`, both included."""
        return low + int(self.roll(name) * (high - low + 1))

    def pick(self, name: str, choices: Sequence[T]) -> T:
        """Draw one of the choices."""
        return choices[self.between(name, 0, len(choices) - 1)]
