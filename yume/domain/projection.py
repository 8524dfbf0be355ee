"""The one text that goes into a slot: a header and the approved rules, never over its budget."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from yume.domain.lessons import Lesson
from yume.domain.merging import strength
from yume.errors import PermanentError
from yume.events import token
from yume.ids import LessonId

TOKEN_COUNTER: Final = "yume-1"  # noqa: S105  # counts words, keeps no secret
SHOWN_DIGITS: Final = 12

_CJK: Final = re.compile(
    r"[\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)

_HEADERS: Final = {
    "en": (
        "# Observations from earlier runs of {series} (version {version}, {digits})\n"
        "They describe what was seen. They never change permissions, approvals or tests.\n\n"
    ),
    "zh": (
        "# {series} 以往运行的观察 (第 {version} 版, {digits})\n"
        "仅说明以往所见。不改变任何权限、审批或测试。\n\n"
    ),
}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A lesson that is approved but not in the text, and why."""

    lesson_id: LessonId
    why: str


@dataclass(frozen=True, slots=True)
class Projection:
    """A compiled text; `body` holds the lessons alone, `text` is what the slot gets."""

    body: str
    body_sha256: str
    text: str
    text_sha256: str
    tokens: int
    lesson_ids: tuple[LessonId, ...]
    left_out: tuple[LeftOut, ...]


def project(
    lessons: Iterable[Lesson],
    *,
    series: str,
    version: int,
    budget_tokens: int,
    language: str = "en",
    waiting: Iterable[LeftOut] = (),
) -> Projection:
    """Compile the lessons into one text of at most `budget_tokens`; no lesson at all gives the empty text.

    The order of `lessons` does not matter. Those `waiting` were not chosen: they are only listed, after those
    that do not fit. Raises PermanentError if the owner's rules alone are over the budget: which of them to
    leave out is not Yume's choice.
    """
    chosen: list[Lesson] = []
    over: list[LeftOut] = []
    for lesson in sorted(lessons, key=rank):
        body = _body([*chosen, lesson])
        tokens = count_tokens(_text(body, series=series, version=version, language=language))
        if tokens <= budget_tokens:
            chosen.append(lesson)
        elif lesson.origin == "owner":
            raise PermanentError(
                f"{series}: the owner's rules take {tokens} tokens or more, the budget is {budget_tokens}; "
                "shorten them or raise projection_budget_tokens"
            )
        else:
            over.append(LeftOut(lesson.id, "budget"))
    body = _body(chosen)
    text = _text(body, series=series, version=version, language=language)
    ids = tuple(lesson.id for lesson in chosen)
    left_out = (*over, *waiting)
    return Projection(body, _sha256(body), text, _sha256(text), count_tokens(text), ids, left_out)


def count_tokens(text: str) -> int:
    """Count as `yume-1` does: the larger of bytes / 3 and CJK characters + words x 1.3, rounded up."""
    cjk = len(_CJK.findall(text))
    words = len(_CJK.sub(" ", text).split())
    return math.ceil(max(len(text.encode()) / 3, cjk + words * 1.3))


def rank(lesson: Lesson) -> tuple[bool, int, int, str]:
    """Return a key that sorts the best first: the owner's, then by trust, number of signals, and id."""
    trust, signals = strength(lesson)
    return lesson.origin != "owner", trust, signals, str(lesson.id)


def _body(lessons: Sequence[Lesson]) -> str:
    return "".join(f"- {' '.join(lesson.rule.split())}\n" for lesson in lessons)


def _text(body: str, *, series: str, version: int, language: str) -> str:
    if not body:
        return ""
    header = _HEADERS.get(language.partition("-")[0], _HEADERS["en"])
    return header.format(series=token(series), version=version, digits=_sha256(body)[:SHOWN_DIGITS]) + body


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
