"""Commands that show lessons, and where they come from."""

from __future__ import annotations

import argparse

from yume import operate
from yume.commands.printing import DONE, REFUSED, as_json, rows
from yume.settings import Settings


async def lessons(arguments: argparse.Namespace, found: Settings) -> int:
    """List the lessons of a series."""
    listed = await operate.lessons_of(found, arguments.platform, arguments.series)
    rows(listed, arguments, ("id", "state", "category", "signals", "rule"), empty="no lesson yet")
    return DONE


async def trail(arguments: argparse.Namespace, found: Settings) -> int:
    """Follow a lesson; refused if its trail does not hold."""
    followed = await operate.trail_of(found, arguments.platform, arguments.series, arguments.lesson)
    if arguments.json:
        print(as_json(followed.to_json()))
    else:
        print(operate.describe(followed))
    return DONE if followed.holds else REFUSED
