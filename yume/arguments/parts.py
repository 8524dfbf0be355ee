"""What the commands' parsers are made of: the command itself, options that many have, and kinds of values."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from typing import Any, Final

_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_KEY_LIMIT: Final = 200


def command(commands: Any, name: str, command: str, help_: str) -> argparse.ArgumentParser:
    """Add a command; `command` is the room in yume/commands/ and the function there that does it."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=help_, description=help_)
    parser.set_defaults(command=command, refuse=parser.error)
    return parser


def of_series(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Have a command be about one series, and able to print JSON."""
    parser.add_argument("platform")
    parser.add_argument("series")
    with_json(parser)
    return parser


def with_why(
    parser: argparse.ArgumentParser, *, required: bool = False, default: str | None = "asked for by hand"
) -> None:
    """Have a command keep a reason."""
    help_ = "the reason, kept for good" + ("" if required or default is None else f" (default: {default})")
    parser.add_argument("--why", type=reason, required=required, default=default, metavar="TEXT", help=help_)


def with_boundary(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Have a command take the boundary of verdicts."""
    help_ = "the interval of verdicts: always_valid at any number of looks (what a series starts with); "
    help_ += "pocock is narrower and ends with a version's 15th look"
    parser.add_argument("--boundary", choices=["always_valid", "pocock"], default=default, help=help_)


def with_json(parser: argparse.ArgumentParser) -> None:
    """Have a command able to print JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def positive(text: str) -> int:
    """Read a whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def duration(text: str) -> timedelta:
    """Read a time such as `90s`, `30m`, `6h` or `2d`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: a number and s, m, h or d, such as 6h")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def reason(text: str) -> str:
    """Read a reason: anything but nothing."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the reason is empty")
    return text


def key(text: str) -> str:
    """Read the key of a replay."""
    if not 0 < len(text) <= _KEY_LIMIT:
        raise argparse.ArgumentTypeError(f"a key has 1 to {_KEY_LIMIT} characters, this one {len(text)}")
    return text


def share(text: str) -> float:
    """Read a share from 0 to 1."""
    if not 0 <= (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"{number} is not between 0 and 1")
    return number
