"""The rules' data: which words show which class, and the sentences that lessons are made of."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class ClassRule:
    """Words that show a class; no sources means that it does not matter who wrote them."""

    code: str
    confidence: float
    pattern: re.Pattern[str]
    sources: frozenset[str]


def _read() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("table.toml").read_text("utf-8"))


def _class_rule(row: Mapping[str, Any]) -> ClassRule:
    pattern = re.compile(row["pattern"], re.IGNORECASE | re.VERBOSE)
    return ClassRule(row["code"], row["confidence"], pattern, frozenset(row.get("sources", ())))


_TABLE: Final = _read()
CLASS_RULES: Final = tuple(_class_rule(row) for row in _TABLE["class"])
SENTENCES: Final[Mapping[str, Mapping[str, str]]] = _TABLE["sentences"]
EMPTY_WORDS: Final = frozenset(_TABLE["symptom"]["empty"])
