"""The few kinds of task of the worlds here: so few that a small batch meets each of them."""

from __future__ import annotations

from typing import Final

from yume.local.practice import load

_FEW: Final = (
    "dot-matches-anything",
    "keeps-carriage-returns",
    "plain-copy",
    "sorts-as-text",
    "splits-at-spaces",
)
FEW: Final = tuple(each for each in load() if each.name in _FEW)
ONE_TRAP: Final = tuple(each for each in FEW if each.name == "dot-matches-anything")
