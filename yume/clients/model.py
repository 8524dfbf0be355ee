"""What a model step asks of whoever answers: a question in, one parsed answer out."""

from __future__ import annotations

from typing import Protocol, TypeVar

from pydantic import BaseModel

from yume.domain.question import Question

Answer = TypeVar("Answer", bound=BaseModel)


class Model(Protocol):
    """Somebody who answers questions; the name goes on everything that was written with its help."""

    @property
    def name(self) -> str:
        """Say who answers."""
        ...

    async def answer(self, question: Question, shape: type[Answer], /) -> Answer:
        """Return the answer in that shape.

        Raises TransientError where asking again may help, PermanentError where it never will.
        """
        ...
