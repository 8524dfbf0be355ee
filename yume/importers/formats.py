"""The formats that can be read, by name, and each of their pieces checked against the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yume.domain.reading import record_of, write_document
from yume.domain.runs import BrokenRecord, Record
from yume.errors import PermanentError
from yume.importers import (
    agbench,
    ci_log,
    contract,
    inspect_ai,
    junit,
    swe_bench,
    tau_bench,
    terminal_bench,
)
from yume.importers.records import Imported, Read, Unread


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the first of its names is the one that is shown."""

    names: tuple[str, ...]
    about: str
    read: Read

    @property
    def name(self) -> str:
        """The name by which it is shown."""
        return self.names[0]


FORMATS: Final = tuple(
    Format(module.NAMES, module.ABOUT, module.read)
    for module in (
        contract,
        terminal_bench,
        tau_bench,
        swe_bench,
        agbench,
        inspect_ai,
        junit,
        ci_log,
    )
)


def named(name: str) -> Format:
    """Find a format by one of its names, whatever the case and the dashes; PermanentError lists them all."""
    wanted = _plain(name)
    for each in FORMATS:
        if wanted in map(_plain, each.names):
            return each
    raise PermanentError(
        f"{name!r} is no format that Yume reads; these are: {', '.join(each.name for each in FORMATS)}"
    )


def checked(format_: Format, root: Path, *, series: str) -> Iterator[tuple[Imported, Record] | Unread]:
    """Read a format's records one by one; one that breaks the contract is left out, named by its place."""
    try:
        for piece in format_.read(root, series=series):
            yield piece if isinstance(piece, Unread) else _checked(piece)
    except OSError as error:
        raise PermanentError(f"{error.filename or root} cannot be read: {error.strerror}") from error


def _checked(piece: Imported) -> tuple[Imported, Record] | Unread:
    try:
        write_document(piece.record)
        return piece, record_of(piece.record)
    except BrokenRecord as error:
        return Unread(piece.place, str(error))
    except RecursionError:
        return Unread(piece.place, "nested too deeply to be kept")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
