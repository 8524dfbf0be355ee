"""A model that is asked every question once: what it said is archived before anybody reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ValidationError

from yume.clients.archive import Archive, LostEvidence
from yume.clients.model import Answer, Answered, Model
from yume.clients.objects import sha256_of
from yume.domain.question import Question
from yume.errors import PermanentError, TransientError

_UNSAFE: Final = re.compile(r"[^a-z0-9_-]+")
_LONGEST_FOLDER: Final = 64  # characters; the whole name is in the hash


@dataclass(frozen=True, slots=True)
class Remembering:
    """Asks `model` what the archive does not hold yet; the same question gets the same bytes for ever."""

    model: Model
    archive: Archive

    @property
    def name(self) -> str:
        """Return the name of the model that is asked: an answer is its own wherever it lay."""
        return self.model.name

    async def answer(self, question: Question, shape: type[Answer], /) -> Answered[Answer]:
        """Return the archived answer, or ask and archive; what the model raises is not archived."""
        key = key_of(self.name, question)
        there = await self.archive.find(key)
        if there is not None:
            return Answered(_read(there, shape, key), calls=0)
        asked = await self.model.answer(question, shape)
        stored = await self._stored(key, _packed(asked.value, by=self.name, question=question))
        return Answered(_read(stored, shape, key), calls=asked.calls)

    async def _stored(self, key: str, data: bytes) -> bytes:
        """Archive the answer and return what lies there: another worker may have been first with its own."""
        try:
            await self.archive.put(key, data)
        except LostEvidence:
            return await self.archive.get(key)
        return data


def key_of(model: str, question: Question) -> str:
    """Return where a model's answer to a question lies; the question's wording is no part of it."""
    folder = _UNSAFE.sub("-", model.lower())[:_LONGEST_FOLDER] or "-"
    return f"answers/{folder}/{sha256_of(f'{question.key} {model}'.encode())}.json"


def _packed(answer: BaseModel, *, by: str, question: Question) -> bytes:
    """Return the answer as it will be archived, once it is sure that it can be read back."""
    try:
        data = answer.model_dump_json().encode()
        type(answer).model_validate_json(data)
    except ValueError as error:  # pydantic's own errors are among them, and text that is no UTF-8
        raise TransientError(
            f"{by} gave {question.version} an answer that JSON cannot hold, so it was not archived: "
            + (_first(error) if isinstance(error, ValidationError) else "a text is no UTF-8")
        ) from error
    return data


def _read(data: bytes, shape: type[Answer], key: str) -> Answer:
    try:
        return shape.model_validate_json(data)
    except ValidationError as error:
        raise PermanentError(
            f"the archived answer {key} ({len(data)} bytes) is no {shape.__module__}.{shape.__name__}: "
            f"{_first(error)}; a changed shape needs a new version of its prompt"
        ) from error


def _first(error: ValidationError) -> str:
    """Say what is wrong without a word of the answer itself: nobody vouches for what a model writes."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = "/".join(map(str, first["loc"]))
    return f"{error.error_count()} errors, the first at /{place} ({first['type']})"
