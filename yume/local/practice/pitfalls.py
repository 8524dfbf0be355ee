"""The tasks that the practice platform sets: each is a data file; most hold a trap and the way round it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from yume.errors import PermanentError, faults
from yume.local.practice.dice import Dice

OWN: Final = Path(__file__).parent / "pitfalls"
TROUBLES: Final = Path(__file__).parent / "troubles"
_PLACE: Final = re.compile(r"@([a-z]+)@")
_AROUND: Final = "`'\".,;:()[]<>*" + "。，；：、！？（）“”‘’"  # noqa: RUF001  # lessons may be Chinese

# Chinese is written without spaces, so a code span or a command may touch the words around it.
_SEAM: Final = re.compile(r"[\s`\u3000-\u303f\u3400-\u9fff\uff00-\uffef\u2018-\u201f]+")

Shape = TypeVar("Shape", bound=BaseModel)

# Values are put into shell commands as they stand, so they may hold nothing that a shell reads.
PlainWord = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+$")]


class Span(BaseModel):
    """Whole numbers from `low` to `high`, both included."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: int
    high: int

    @model_validator(mode="after")
    def _is_no_empty_span(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        return self


class Pitfall(BaseModel):
    """One kind of task: `@name@` in its texts is replaced by a value drawn for each task.

    The naive command falls into the trap, the remedy does not. A text teaches the remedy if one of its lines
    holds all `marks` as words. A pitfall without marks is a plain task: its naive command is a mere slip.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    title: str
    output: str
    setup: str
    naive: str
    remedy: str
    marks: tuple[str, ...]
    check: str
    answer: str
    values: Mapping[str, Annotated[tuple[PlainWord, ...], Field(min_length=1)] | Span]

    @property
    def plain(self) -> bool:
        """Tell whether there is no trap in it, hence nothing that a lesson could teach."""
        return not self.marks

    @model_validator(mode="after")
    def _names_only_its_own_values(self) -> Self:
        texts = (self.title, self.output, self.setup, self.naive, self.remedy, self.check, self.answer)
        unknown = {place for text in texts for place in _PLACE.findall(text)} - set(self.values)
        if unknown:
            raise ValueError(f"no values for @{'@, @'.join(sorted(unknown))}@; add them under [values]")
        return self

    @model_validator(mode="after")
    def _can_be_taught(self) -> Self:
        if not self.plain and not names(self.remedy, self.marks):
            raise ValueError(
                f"the remedy does not hold all marks {list(self.marks)} as words, without quotes"
            )
        return self


class Trouble(BaseModel):
    """A fault of the environment: whatever the worker does, this is what really runs, and it fails."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    command: str = Field(min_length=1)


def load(*folders: Path) -> tuple[Pitfall, ...]:
    """Read every `*.toml` of the folders, by file name; of the built-in one if none is named.

    A file that cannot be used, or that has the name of another, is an error naming it.
    """
    found: dict[str, tuple[Pitfall, Path]] = {}
    for folder in folders or (OWN,):
        for path, pitfall in _read_all(folder, Pitfall, "pitfall"):
            if pitfall.name in found:
                raise PermanentError(
                    f"{path}: {found[pitfall.name][1]} is a pitfall named {pitfall.name!r} already"
                )
            found[pitfall.name] = pitfall, path
    return tuple(pitfall for pitfall, _ in found.values())


def load_troubles(folder: Path = TROUBLES) -> tuple[Trouble, ...]:
    """Read the faults of the environment in the same way."""
    return tuple(trouble for _, trouble in _read_all(folder, Trouble, "trouble"))


def _read_all(folder: Path, shape: type[Shape], what: str) -> list[tuple[Path, Shape]]:
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise PermanentError(f"{folder}: no {what} there; a {what} is a file that ends in .toml")
    return [(path, _read(path, shape, what)) for path in paths]


def _read(path: Path, shape: type[Shape], what: str) -> Shape:
    try:
        return shape.model_validate(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        raise PermanentError(f"{path}: not a {what}: {faults(error)}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PermanentError(f"{path}: not a {what}: {error}") from error


def draw_values(pitfall: Pitfall, dice: Dice) -> dict[str, str]:
    """Draw one value for each of the pitfall's names."""
    return {
        name: str(dice.between(name, choice.low, choice.high))
        if isinstance(choice, Span)
        else dice.pick(name, choice)
        for name, choice in pitfall.values.items()
    }


def render(text: str, values: Mapping[str, str]) -> str:
    """Put the values into the places of a pitfall's text."""
    return _PLACE.sub(lambda place: values[place[1]], text).strip()


def teaches(text: str, pitfall: Pitfall) -> bool:
    """Tell whether one line of the text names the remedy's own command and options."""
    return not pitfall.plain and names(text, pitfall.marks)


def names(text: str, marks: Iterable[str]) -> bool:
    """Tell whether one line of the text holds all marks as words, however they are quoted."""
    return any(set(marks) <= _words(line) for line in text.splitlines())


def _words(line: str) -> set[str]:
    return {word.strip(_AROUND) for words in (line.split(), _SEAM.split(line)) for word in words}
