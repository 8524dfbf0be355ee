"""Loads the named queries of a `.sql` file that lies beside its module."""

from __future__ import annotations

import re
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(filename: str) -> dict[str, str]:
    """Return each query of the file under the name in the comment above it."""
    text = resources.files("yume.store").joinpath(filename).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return dict(zip(parts[::2], (part.strip() for part in parts[1::2]), strict=True))
