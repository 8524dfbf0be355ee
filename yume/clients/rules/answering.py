"""Answers questions from their body alone; what it says is only as good as its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from pydantic import ValidationError

from yume.clients.model import Answer, Answered
from yume.clients.rules.classifying import labels
from yume.clients.rules.drafting import lessons
from yume.clients.rules.merging import operations
from yume.domain.question import Question
from yume.errors import PermanentError


@dataclass(frozen=True, slots=True)
class Rules:
    """The deterministic implementation of Model: no network, no tokens, no chance."""

    name: str = "rules"

    async def answer(self, question: Question, shape: type[Answer], /) -> Answered[Answer]:
        """Return what the rules say; PermanentError if the question is none that they know."""
        try:
            return Answered(shape.model_validate(_answer(question)), calls=1)
        except (KeyError, ValidationError) as error:
            raise PermanentError(
                f"{question.version}: the rules do not know this question or {shape.__name__}: {error}"
            ) from error


def _answer(question: Question) -> Mapping[str, Any]:
    match question.step:
        case "classify":
            return {"labels": labels(question.body)}
        case "draft":
            return {"lessons": lessons(question.body)}
        case "merge":
            return {"operations": operations(question.body)}
        case _:
            assert_never(question.step)
