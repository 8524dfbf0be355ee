"""One question to a model: what it is about, complete enough to answer from, and the words a reader gets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Step = Literal["classify", "draft", "merge"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a model step asks; `body` is plain JSON and holds everything that `text` says in words."""

    step: Step
    version: str
    body: Mapping[str, Any]
    text: str

    @property
    def key(self) -> str:
        """Return the sha256 of step, version and body: one question, one key, whoever answers it."""
        whole = {"step": self.step, "version": self.version, "body": self.body}
        packed = json.dumps(whole, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(packed.encode()).hexdigest()
