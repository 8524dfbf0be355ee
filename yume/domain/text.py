"""Text from outside: cleaned, split into lines, capped."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"  # colours and cursor moves; one cut in half goes too
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c\n\r]{0,256}(?:\x07|\x9c|\x1b\\|$)"
    r"|\x1b[ -/]*[0-~]",
    re.MULTILINE,
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_ENDS: Final = re.compile(r"\r\n|\r")


def clean(text: str) -> str:
    """Take out ANSI escapes, control characters other than newline and tab, and lone surrogates."""
    if _CONTROLS.search(text):
        return _CONTROLS.sub("", _ESCAPES.sub("", text))
    return text


def raw_lines(text: str) -> list[str]:
    r"""Split at \n, \r\n and a bare \r, uncleaned: as an editor numbers the lines."""
    return _LINE_ENDS.sub("\n", text).split("\n")


def lines(text: str) -> list[str]:
    """Split raw text into lines, each cleaned."""
    return [clean(line) for line in raw_lines(text)]


def cap(text: str, limit: int) -> str:
    """Keep the whole lines from the start that fit into `limit` characters; a first line too long is cut."""
    if len(text) <= limit:
        return text
    end = text.rfind("\n", 0, limit + 1)
    return text[: end if end > 0 else limit]


def rendered(value: Any) -> str:
    """Return a string as it is and anything else as compact JSON; "" where it is nested too deeply."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return ""
