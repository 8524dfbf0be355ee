"""From a signal back to the very lines of the raw record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yume.domain.reading import read_document
from yume.domain.signals import Pointer
from yume.domain.text import lines, rendered
from yume.errors import PermanentError


def resolve(raw: bytes, pointer: Pointer) -> str:
    """Return the cleaned lines at the pointer, uncapped; PermanentError where it points nowhere."""
    return resolve_in(read_document(raw), pointer)


def resolve_in(document: Mapping[str, Any], pointer: Pointer) -> str:
    """Do the same in a record that is parsed already: many pointers into one record parse it once."""
    rows = lines(rendered(_value_at(document, pointer.path)))
    if not 1 <= pointer.first_line <= pointer.last_line <= len(rows):
        span = f"{pointer.first_line}-{pointer.last_line}"
        raise PermanentError(f"{pointer.path} has {len(rows)} lines, the signal points at {span}")
    return "\n".join(rows[pointer.first_line - 1 : pointer.last_line])


def child(path: str, key: str | int) -> str:
    """Extend a JSON pointer by one token, escaped as RFC 6901 asks."""
    return f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"


def _value_at(document: Any, path: str) -> Any:
    value = document
    for token in path.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            raise PermanentError(f"the record has nothing at {path}: no {key!r}") from None
    return value
