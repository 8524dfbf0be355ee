"""What the words of a failure give away before a model is asked: rules/failures.toml, compiled."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Literal

from yume.domain.text import clean, raw_lines

_SCANNED_CHARS: Final = 4_000  # of a line, and of a platform's reason


@dataclass(frozen=True, slots=True)
class Rule:
    """A class of failure and the words that show it, in the platform's own text or in a log line too."""

    id: str
    code: str
    where: Literal["platform", "anywhere"]
    confidence: float
    pattern: re.Pattern[str]


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


def _rule(row: dict[str, Any]) -> Rule:
    return Rule(row["id"], row["code"], row["where"], row["confidence"], _compiled(row["pattern"]))


_TABLE: Final = tomllib.loads(
    (resources.files("yume.domain") / "rules" / "failures.toml").read_text(encoding="utf-8")
)
RULES: Final = tuple(_rule(row) for row in _TABLE["rule"])
_SPARED: Final = _compiled(_TABLE["spared"])


def first_match(codes: Collection[str], *, platform: Iterable[str], log: Iterable[str]) -> Rule | None:
    """Return the first rule of these classes that matches a line.

    A line that states an expectation ("expected 200, got 503") is a verdict on the agent's work and
    matches nothing.
    """
    said = [line for text in platform for line in _lines(text)]
    logged = [line for text in log for line in _lines(text)]
    for rule in RULES:
        if rule.code not in codes:
            continue
        heard = said if rule.where == "platform" else said + logged
        if any(rule.pattern.search(line) for line in heard):
            return rule
    return None


def _lines(text: str) -> list[str]:
    cleaned = [clean(line) for line in raw_lines(text[:_SCANNED_CHARS])]
    return [line for line in cleaned if not _SPARED.search(line)]
