"""One failure in a thousand runs is one fingerprint: what varies is masked before it is hashed."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

from yume.domain.text import clean

_MASKED_CHARS: Final = 2_000  # of a text; a fingerprint needs no more
_PASSES: Final = 6
_UNITS: Final = (
    r"(?:[ ]?(?:ms|msec|secs?|seconds?|mins?|minutes?|hrs?|hours?|days?|bytes?|[kmgt]i?b)|[smhdbkg]|us|ns)"
    r"(?![a-z_])|[ ]?(?:毫秒|秒钟?|分钟?|小时|天|字节)"
)
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_SUFFIX: Final = (
    r"(?:py|pyi|js|mjs|jsx|tsx?|go|rs|java|kt|cc?|cpp|hpp?|rb|php|cs|json|ya?ml|toml|txt|md|log|sh|csv|xml"
    r"|html?|css|sql|lock|cfg|ini|ipynb|pdf|png|zip|tar|gz)(?![a-z0-9_])"
)

# One pass from left to right; the first alternative that fits at a place wins. Every class of variable
# text has one mask: "12:5" and "12:15" must not differ because one of them looks like a time.
_VARIABLE: Final = re.compile(
    rf"""
    (?P<mask> <(?:n|path|text|url)> )
  | (?P<url> \b[a-z][a-z0-9+.-]{{1,20}}://[^\s"'`<>「」“”()]+ )
  | (?P<text>
        "(?:[^"\\\n]|\\.)*" | `[^`\n]+` | “[^”\n]*” | 「[^」\n]*」 | 『[^』\n]*』 | 《[^》\n]*》
      | \u2018[^\u2019\n]*\u2019 | (?<![a-z0-9>])'(?:[^'\\\n]|\\.)*'(?![a-z0-9<]) )
  | (?P<path>
        (?: (?<![a-z0-9<>/\\.~_-]) (?:[a-z]:[\\/]|~?/|\.{{1,2}}/|\\\\)           # /a, ./a, ~/a, c:\a
            (?:[^\s/\\:;,'"()<>\[\]{{}}|]{{1,120}}[/\\])* [a-z0-9_.~@+%=-]*
          | (?<![a-z0-9_.~@+-]) (?:[a-z0-9_.~@+-]{{1,120}}[/\\]){{1,40}}           # a/b.py
            [a-z0-9_@+-]{{0,120}}\.[a-z][a-z0-9]{{0,7}}(?![a-z0-9_])
          | (?<![a-z0-9_.~@+-]) (?:[a-z0-9_.~@+-]{{1,120}}[/\\]){{2,40}} [a-z0-9_.~@+-]*  # a/b/c
          | (?<![a-z0-9_.@+-]) [a-z0-9_@+-]{{1,120}}\.{_SUFFIX}
          | (?<![a-z0-9_]) (?:tmp|temp)[a-z0-9_.-]{{6,80}} )
        (?: :\d+ ){{0,3}} )
  | (?P<n>
        (?<![a-z0-9]) [0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}} (?![a-z0-9])
      | (?<![a-z0-9]) 0x[0-9a-f]+
      | (?<![a-z0-9_]) (?: (?=[a-f]{{0,99}}[0-9]) (?=[0-9]{{0,99}}[a-f]) [0-9a-f]{{7,128}} | [a-f]{{8,128}} )
        (?![a-z0-9_])
      | (?<![a-z0-9_]) (?=[a-z]{{0,60}}[0-9][a-z]{{0,60}}[0-9]) (?=[0-9]{{0,60}}[a-z])  # a random name
        [a-z0-9]{{16,256}} (?![a-z0-9_])
      | (?<![a-z0-9_]) (?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}},?[ ])?
        (?:{_MONTH}[ ]\d{{1,2}}|\d{{1,2}}[ -]{_MONTH})(?![a-z])
      | \d{{4}}年\d{{1,2}}月\d{{1,2}}日
      | (?:(?<![a-z0-9_>)\]])[-+])? \d+ (?:(?:[.:,/-]|t(?=\d\d:))\d+)* (?:e[-+]?\d+(?![a-z0-9]))?
        (?: [ ]?(?:z|utc|gmt|am|pm)(?![a-z0-9]) | {_UNITS} )? )
    """,
    re.ASCII | re.VERBOSE,
)
_REPEATED: Final = re.compile(r"(<(?:n|path|text|url)>)(?:[\s,;]*\1)+")
_SPACES: Final = re.compile(r"[^\S\n]+")


def normalise(text: str) -> str:
    """Mask what differs between two sights of one failure: numbers, paths, quoted names, ids, times.

    Masking goes on until it changes nothing, so that normalising twice is normalising once.
    """
    current = text[:_MASKED_CHARS]
    for _ in range(_PASSES):
        masked = _masked(current)[:_MASKED_CHARS]
        if masked == current:
            break
        current = masked
    return current


def fingerprint(text: str) -> str:
    """Return 16 hex digits of the SHA-256 of the normalised text."""
    return hashlib.sha256(normalise(text).encode()).hexdigest()[:16]


def _masked(text: str) -> str:
    plain = unicodedata.normalize("NFKC", clean(text)).lower()
    masked = _REPEATED.sub(r"\1", _VARIABLE.sub(_mask, plain))
    rows = (_SPACES.sub(" ", row).strip() for row in masked.split("\n"))
    return "\n".join(row for row in rows if row)


def _mask(found: re.Match[str]) -> str:
    return found[0] if found.lastgroup == "mask" else f"<{found.lastgroup}>"
