"""Where in a verifier's details it says what is wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from yume.domain.excerpts import EXCERPT_CHARS, Passage, passage_of, strength
from yume.domain.pointers import child
from yume.domain.text import rendered

MOST_LEAVES: Final = 3
_WALKED: Final = 10_000  # values looked at in one verifier's details
_TELLING: Final = (
    ("message", "error", "reason", "failure_reason", "fail_reason", "explanation", "错误", "原因"),
    (
        "output",
        "stderr",
        "details",
        "detail",
        "diff",
        "assertion",
        "traceback",
        "longrepr",
        "feedback",
        "log",
    ),
    ("stdout", "summary", "description", "text", "comment", "actual"),
)
_CAPTURED: Final = frozenset({"stdout", "stderr", "log"})  # what was tested wrote this, not the verifier
_STATUS_KEYS: Final = ("status", "verdict", "outcome", "result", "passed", "ok", "success", "pass")
_GOOD: Final = frozenset({"pass", "passed", "ok", "success", "succeeded", "true", "skipped", "xfail"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """A string in the details, its most telling passage, and whether the verifier only captured it."""

    path: str
    passage: Passage
    captured: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    path: str
    key: str
    text: str


def telling_leaves(details: Any, path: str, lesson: frozenset[str]) -> list[Leaf]:
    """Find the strings that tell most: by their key, then by speaking of an error, then by place.

    Checks that passed are left out. Where a string has a telling key, strings under other keys are too;
    where none has, short details are read whole, as JSON.
    """
    seen = [leaf for leaf in _strings(details, path) if _tells(leaf)]
    ranked = sorted(seen, key=lambda leaf: (_rank(leaf.key), -_speaks_of_error(leaf)))
    found: list[Leaf] = []
    for leaf in ranked:
        passage = passage_of(leaf.text, lesson)
        if passage and _rank(leaf.key) == _rank(ranked[0].key):
            found.append(Leaf(leaf.path, passage, leaf.key in _CAPTURED))
        if len(found) == MOST_LEAVES:
            return found
    whole = rendered(details) if details and not found else ""
    passage = passage_of(whole, lesson) if len(whole) <= EXCERPT_CHARS else None
    return [Leaf(path, passage)] if passage else found


def _tells(leaf: _Seen) -> bool:
    return _rank(leaf.key) < len(_TELLING) or _speaks_of_error(leaf)


def _speaks_of_error(leaf: _Seen) -> bool:
    return strength(leaf.key.replace("_", " ")) + strength(leaf.text) > 0


def _strings(details: Any, path: str) -> Iterator[_Seen]:
    waiting: deque[tuple[Any, str, str]] = deque([(details, path, "")])
    for _ in range(_WALKED):
        if not waiting:
            return
        value, place, key = waiting.popleft()
        match value:
            case str():
                yield _Seen(place, key, value)
            case list():
                waiting.extend((item, child(place, index), key) for index, item in enumerate(value))
            case dict() if not _has_passed(value):
                waiting.extend((item, child(place, name), name.lower()) for name, item in value.items())
            case _:
                pass


def _has_passed(check: Mapping[str, Any]) -> bool:
    return any(str(check[key]).lower() in _GOOD for key in _STATUS_KEYS if key in check)


def _rank(key: str) -> int:
    if key == "":
        return 0
    return next((rank for rank, keys in enumerate(_TELLING) if key in keys), len(_TELLING))
