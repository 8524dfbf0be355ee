"""What a model step asks of whoever answers: a question in, one parsed answer out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from yume.domain.question import Question

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Answered(Generic[Answer]):
    """An answer, and how many calls were made to the model for it: none if it lay in the archive."""

    value: Answer
    calls: int


class Model(Protocol):
    """Somebody who answers questions; the name goes on everything that was written with its help."""

    @property
    def name(self) -> str:
        """Say who answers."""
        ...

    async def answer(self, question: Question, shape: type[Answer], /) -> Answered[Answer]:
        """Return the answer in that shape.

        Raises TransientError where asking again may help, PermanentError where it never will.
        """
        ...


def usage_of(model: Model, answers: Sequence[Answered[Any]]) -> dict[str, Any]:
    """Return what a step keeps on the dream's row of the questions it had answered."""
    return {
        "model": model.name,
        "calls": sum(each.calls for each in answers),
        "from_archive": sum(each.calls == 0 for each in answers),
    }
