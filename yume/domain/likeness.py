"""How much two texts are alike: as sets of their character trigrams."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

ALIKE: Final = 0.6  # for rules about the same class or the same failure
SAME: Final = 0.9  # for any two rules

_CODE_SPAN: Final = re.compile(r"`([^`]*)`")


def similarity(left: str, right: str) -> float:
    """Return the Jaccard index of the trigrams of both texts, from 0 to 1; case and spacing do not count."""
    ours, theirs = _trigrams(left), _trigrams(right)
    return len(ours & theirs) / len(ours | theirs)


def alike(left: str, right: str, *, related: bool) -> bool:
    """Say whether two rules say the same: as prose, and in the commands that they name.

    The commands are compared apart, since two remedies for one symptom share most of their words.
    """
    floor = ALIKE if related else SAME
    if similarity(left, right) < floor:
        return False
    ours, theirs = _commands(left), _commands(right)
    return not (ours and theirs) or similarity(ours, theirs) >= floor


def _trigrams(text: str) -> frozenset[str]:
    plain = f" {' '.join(unicodedata.normalize('NFKC', text).casefold().split())} "
    return frozenset(plain[place : place + 3] for place in range(max(1, len(plain) - 2)))


def _commands(text: str) -> str:
    return " ".join(_CODE_SPAN.findall(text))
