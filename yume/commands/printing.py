"""How commands print, and what their exit codes are."""

from __future__ import annotations

import argparse
import json
from typing import Any, Final

DONE: Final = 0
REFUSED: Final = 1


def rows(
    found: list[dict[str, Any]], arguments: argparse.Namespace, columns: tuple[str, ...], *, empty: str
) -> None:
    """Print rows as JSON or as a table."""
    if arguments.json:
        print(as_json(found))
        return
    if not found:
        print(empty)
        return
    table = [[column.replace("_", " ") for column in columns]]
    table += [
        ["-" if row[column] is None else escaped(str(row[column])) for column in columns] for row in found
    ]
    widths = [max(len(line[place]) for line in table) for place in range(len(columns) - 1)]
    for line in table:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]))


def as_json(value: Any) -> str:
    """Return a value as JSON in one line that is as safe to look at as `escaped` text, and means the same."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text).replace(
        "\x7f", "\\u007f"
    )


def escaped(text: str) -> str:
    """Return text from outside in one line: what is no visible character, such as a colour, is spelt out."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "backslashreplace").decode()
        for each in text
    )
