"""S5 by rules: the best founded draft of those that say the same stays; contradictions are not seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from yume.clients.rules.commands import OPEN
from yume.domain.likeness import alike
from yume.domain.signals import TRUST

Item = Mapping[str, Any]

_CODE_SPAN: Final = re.compile(r"`([^`]*)`")
_NAMING: Final = re.compile(r"\w")  # an operator or an open place names nothing


def operations(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Dispose of every draft: a duplicate of a lesson, merged with other drafts, or added."""
    made: list[dict[str, Any]] = []
    leaders: list[list[Item]] = []
    for draft in sorted(body["drafts"], key=_rank):
        if lesson := _first_alike(draft, body["lessons"]):
            made.append(_operation("duplicate", [draft], lesson, "an approved lesson says the same"))
        elif found := _first_alike(draft, [group[0] for group in leaders]):
            next(group for group in leaders if group[0] is found).append(draft)
        else:
            leaders.append([draft])
    return made + [_joined(group) for group in leaders]


def _joined(group: Sequence[Item]) -> dict[str, Any]:
    if len(group) == 1:
        return _operation("add", group, None, "nothing like it is there")
    why = f"{len(group)} drafts say the same"
    return _operation("merge", group, None, why) | {"text": group[0]["item"]}


def _operation(kind: str, drafts: Sequence[Item], lesson: Item | None, why: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "drafts": [each["item"] for each in drafts],
        "lessons": [lesson["item"]] if lesson else [],
        "why": why,
    }


def _rank(draft: Item) -> tuple[bool, int, int, float, int]:
    """Order the best founded first: what shows a way out, trust, signals, confidence."""
    trust = TRUST.index(draft["trust"])
    return draft["advice"] == "warning", trust, -draft["signals"], -draft["confidence"], draft["item"]


def _first_alike(draft: Item, others: Sequence[Item]) -> Item | None:
    return next((each for each in others if _same(draft, each)), None)


def _same(left: Item, right: Item) -> bool:
    if not _warn_of_the_same(left, right):
        return False
    same_failure = bool(set(left["fingerprints"]) & set(right["fingerprints"]))
    if same_failure and (_names_the_command_of(left, right) or _names_the_command_of(right, left)):
        return True
    return alike(_text(left), _text(right), related=same_failure or left["category"] == right["category"])


def _warn_of_the_same(left: Item, right: Item) -> bool:
    """Compare what warnings warn of, which the sentence around it hides; what is no warning passes.

    An approved lesson does not say what it advises: it is taken for what it is compared with.
    """
    advices = {each["advice"] for each in (left, right) if "advice" in each}
    if "warning" not in advices:
        return True
    ours, theirs = (each["symptom"].casefold().replace(OPEN, " ").split() for each in (left, right))
    if advices == {"warning"}:
        return bool(ours == theirs)
    return set(ours) <= set(theirs) or set(theirs) <= set(ours)


def _names_the_command_of(item: Item, other: Item) -> bool:
    """Say whether a rule holds, in whatever words, every word of the command that the other one names."""
    words = [
        word for span in _CODE_SPAN.findall(other["rule"]) for word in span.split() if _NAMING.search(word)
    ]
    return bool(words) and all(word in item["rule"] for word in words)


def _text(item: Item) -> str:
    return f"{item['symptom']}\n{item['rule']}"
