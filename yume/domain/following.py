"""Whether an agent did what a lesson prescribes, as far as a record shows its commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from yume.domain.pieces import COMMAND_KINDS
from yume.domain.runs import Record
from yume.ids import LessonId

FEWEST_WORDS: Final = 2  # a command of one word is used by everybody, lesson or not

_CODE: Final = re.compile(r"`([^`\n]+)`")
_OPEN: Final = re.compile(r"…|\.\.\.|<[^<>]*>")  # a place that each task fills in for itself
_ADVISED_AGAINST: Final = re.compile(
    r"(?:(?:\b(?:not|never|avoid|without|instead of|rather than)|n['\u2019]t)\s+(?:\w+\s+){0,2}"
    r"|(?:不要|不用|别|勿|避免|而不是)\s*\w{0,2}\s*)$",
    re.IGNORECASE,
)


def prescribed(rule: str) -> list[tuple[str, ...]]:
    """Return the words of each command that a rule advises, without open places; of one it warns of, none."""
    found = []
    for span in _CODE.finditer(rule):
        words = tuple(each for each in span[1].split() if not _OPEN.fullmatch(each))
        if len(words) >= FEWEST_WORDS and not _ADVISED_AGAINST.search(rule[: span.start()]):
            found.append(words)
    return found


def follows(command: str, rule: str) -> bool:
    """Tell whether a command holds all words of one that the rule advises, in their order."""
    return any(_in_order(words, command.split()) for words in prescribed(rule))


def followed(record: Record, rules: Mapping[LessonId, str]) -> list[LessonId] | None:
    """Name the lessons that some command of a record follows; None where it shows no command at all."""
    commands = [each.source[1] for each in record.events if each.kind in COMMAND_KINDS]
    if not commands:
        return None
    return [lesson for lesson, rule in rules.items() if any(follows(each, rule) for each in commands)]


def _in_order(words: Sequence[str], among: Sequence[str]) -> bool:
    left = iter(among)
    return all(word in left for word in words)
