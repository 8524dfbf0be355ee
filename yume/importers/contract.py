"""Records in the shape of the platform contract, one a line: what `yume import` writes and Yume archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from yume.importers.records import Imported, Json, Piece, needed
from yume.importers.streams import File, files, json_pieces

NAMES: Final = ("contract", "jsonl")
ABOUT: Final = "records of the platform contract: task, runs, events, inquiries"


def read(root: Path, /, *, series: str) -> Iterator[Piece]:
    """Read the records as they stand; their own series stays."""
    del series
    for file in files(root, "*.jsonl", "*.json"):
        yield from json_pieces(file, _made)


def _made(file: File, place: str, item: Json) -> Imported:
    del file
    needed(item, "task")
    return Imported(place, item)
