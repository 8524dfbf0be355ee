"""Whether a text may be put before an agent: a deterministic scan with named reasons."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from yume.errors import PermanentError

ScanVerdict = Literal["pass", "hold", "block"]

SIZE_LIMIT: Final = 20_000

_HIDDEN: Final = {
    "bidi": re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"),
    "variation_selector": re.compile(r"[\ufe00-\ufe0e\U000e0100-\U000e01ef]"),
    "tag": re.compile(r"[\U000e0000-\U000e0fff]"),
    "invisible": re.compile(
        r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u2065\u2800\u3164\uffa0\ufff0-\ufff8]"
    ),
}
_CATEGORIES: Final = {"Cc": "control", "Cf": "zero_width", "Co": "private_use", "Cs": "surrogate"}
_JOINERS: Final = frozenset("\u200c\u200d")
_EMOJI_STYLE: Final = "\ufe0f"
_JOINED: Final = re.compile(r"[\u0600-\u06ff\u0900-\u0dff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff]")

_SECRETS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[opsu]_[A-Za-z0-9]{20}|\bsk-[A-Za-z0-9_-]{20}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10}|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}"
)

_ALTERNATIVES: Final = {
    "url": (r"\b(?:https?|ftp|wss?|file|ssh|git)://", r"\b(?:data|javascript):\S", r"\bwww\."),
    "host": (
        r"\b[a-z0-9-]{2,63}\.(?:com|net|org|io|ai|dev|invalid|example|internal|local|cn|ru|xyz|top)\b",
        r"\b[a-z0-9-]{2,63}\.(?:app|cloud|info|co|me|biz|site|online|click|link)\b",
    ),
    "ip": (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", r"\b(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{0,4}"),
    "email": (r"[\w.+-]{1,64}@[\w-]{1,63}\.\w",),
    "markdown_link": (r"\[[^\]\n]{0,500}\]\(", r"^[ \t]*\[[^\]\n]{1,500}\]:\s"),
    "html": (r"<!--", r"</?[a-z][^<>\n]{0,500}>"),
    "prose_in_command": (r"`[^`\n]*\s#\s[^`\n]*`", r"`[^`\n]*(?:[.!?]\s+[A-Z]|[\u3002\uff01\uff1f])[^`\n]*`"),
    "fence": (r"```", r"~~~"),
    "role_tag": (
        r"<\|",
        r"\[/?INST\]",
        r"<<SYS",
        r"^[ \t]*(?:user|human)\s*[:\uff1a]",
        r"\b(?:system|assistant|developer)\s*[:\uff1a]",
        r"^[ \t]*#{1,6}\s*(?:system|instruction)",
        r"系统\s*[:\uff1a]",
    ),
    "pipe_to_shell": (
        # An interpreter anywhere in what a pipe leads to, however it is quoted, wrapped or given options.
        r"\|[^|\n]{0,80}?(?<![\w.-])(?:ba|z|da|k|c|fi)?sh(?![\w.-])",
        r"\|[^|\n]{0,80}?(?<![\w.-])(?:python[\d.]*|perl|node|ruby|php|pwsh|powershell|eval|source)(?![\w-])",
        r"\|&?\s*\.\s",
        r"\bxargs\s+(?:-\S+\s+)*(?:\S{0,100}/)?(?:ba|z|da)?sh\b",
        r"<\(",
        r"\$\(\s*(?:curl|wget)\b",
    ),
    "long_token": (r"[a-z0-9+/_=-]{28,}",),
    "override": (
        r"\b(?:ignore|disregard|forget|overlook|override|bypass)\b.{0,40}\b(?:instruction|prompt|rule|guideline)",
        r"\b(?:ignore|disregard|forget|overlook|override|bypass)\b.{0,40}\b(?:previous|prior|above|earlier)",
        r"\b(?:ignore|disregard|forget|overlook|override|bypass)\b.{0,40}\b(?:directive|polic|everything|safety)",
        r"(?:忽略|无视|不要理会|不必理会|忘掉|忘记|绕过|推翻).{0,16}(?:指令|提示|规则|要求|约束|限制|审批)",
        r"(?:忽略|无视|不要理会|不必理会|忘掉|忘记|绕过|推翻).{0,16}(?:之前|上述|以上)",
        r"\bsystem prompt\b",
        r"系统提示|新的?(?:系统)?指令",
    ),
    "secret_word": (
        r"\bapi[_ -]?keys?\b|\bpasswords?\b|\bpasswd\b|\bcredentials?\b|\bsecrets?\b|\bprivate[_ ]key",
        r"\b(?:access|auth\w*|bearer|session)[_ -]?tokens?\b",
        r"\.env\b|\bid_(?:rsa|ed25519)\b",
        r"密钥|私钥|口令|密码|令牌|凭证|凭据",
    ),
}
_HOLDS: Final = {
    name: re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)
    for name, patterns in _ALTERNATIVES.items()
}


@dataclass(frozen=True, slots=True)
class Scan:
    """The verdict on one text, and every reason for it."""

    verdict: ScanVerdict
    reasons: tuple[str, ...]


def scan(text: str) -> Scan:
    """Judge a text: `block` must be edited, `hold` needs a person, `pass` may stand."""
    blocking = _unique(_hidden(text))
    if _SECRETS.search(text):
        blocking += ("secret",)
    holding = _held(text)
    if blocking:
        return Scan("block", blocking + holding)
    return Scan("hold" if holding else "pass", holding)


def check_bytes(text: str) -> None:
    """Refuse a compiled text that holds what no lesson may hold: a last look, before it is kept and sent."""
    scanned = scan(text)
    if scanned.verdict == "block":
        raise PermanentError(
            f"the compiled text holds {', '.join(scanned.reasons)}: a lesson in it has to be edited"
        )


def _held(text: str) -> tuple[str, ...]:
    """Name what a person has to look at, in the text itself and in its compatibility form."""
    if len(text) > SIZE_LIMIT:
        return (f"oversize:{len(text)}",)
    views = (text, unicodedata.normalize("NFKC", text))
    return tuple(name for name, pattern in _HOLDS.items() if any(pattern.search(view) for view in views))


def _hidden(text: str) -> Iterator[str]:
    """Name each character that a reader would not see, or not where it stands."""
    for place, character in enumerate(text):
        if character in _JOINERS:
            if not _JOINED.match(text[place - 1 : place]):
                yield f"zero_width:{ord(character):04x}"
        elif reason := _reason(character):
            yield f"{reason}:{ord(character):04x}"


def _reason(character: str) -> str | None:
    if character in "\n\t" or character == _EMOJI_STYLE:
        return None
    for name, characters in _HIDDEN.items():
        if characters.match(character):
            return name
    return _CATEGORIES.get(unicodedata.category(character))


def _unique(reasons: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reasons))
