"""Commands that show dreams."""

from __future__ import annotations

import argparse

from yume import operate
from yume.commands.printing import DONE, rows
from yume.settings import Settings


async def report(arguments: argparse.Namespace, found: Settings) -> int:
    """Print a report as it lies in the archive."""
    where = (arguments.platform, arguments.series, arguments.dream)
    print(await operate.report_of(found, *where, as_json=arguments.json), end="")
    return DONE


async def dreams(arguments: argparse.Namespace, found: Settings) -> int:
    """List the dreams of a series."""
    listed = await operate.dreams_of(found, arguments.platform, arguments.series)
    rows(listed, arguments, ("number", "status", "result", "reason", "step", "error"), empty="no dream yet")
    return DONE
