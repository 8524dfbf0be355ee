"""The words of a question: a template beside its module, and a fence around everything that others wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Final

from yume.domain.signals import Group

CHUNK: Final = 20

_OPEN: Final = "<<<DATA"
_CLOSE: Final = "DATA>>>"
_LANGUAGES: Final = {"en": "English", "zh": "Chinese"}


@dataclass(frozen=True, slots=True)
class Wording:
    """A question's fixed text; its version changes with every character of it."""

    version: str
    template: Template


def wording(name: str) -> Wording:
    """Read the template `<name>.md`."""
    text = files(__package__).joinpath(f"{name}.md").read_text("utf-8")
    return Wording(f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}", Template(text))


def fence(text: str) -> str:
    """Set untrusted text apart; what looks like a fence inside it is broken up."""
    inner = text.replace("<<<", "< < <").replace(">>>", "> > >")
    return f"{_OPEN}\n{inner}\n{_CLOSE}"


def language_name(language: str) -> str:
    """Name a language for a reader: `zh-CN` is Chinese, one without a name stands as it is."""
    return _LANGUAGES.get(language.partition("-")[0], language)


def chunks(groups: Sequence[Group], size: int = CHUNK) -> list[list[Group]]:
    """Cut the groups into as many as one question may ask about."""
    return [list(groups[start : start + size]) for start in range(0, len(groups), size)]
