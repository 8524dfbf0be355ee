"""Commands on series."""

from __future__ import annotations

import argparse
from getpass import getuser

from yume import operate
from yume.commands.printing import DONE, rows
from yume.settings import Settings


async def series_list(arguments: argparse.Namespace, found: Settings) -> int:
    """List the series."""
    columns = ("platform_id", "external_id", "mode", "mode_reason", "paused_at")
    rows(
        await operate.all_series(found), arguments, columns, empty="no series yet: a finished task brings one"
    )
    return DONE


async def series_mode(arguments: argparse.Namespace, found: Settings) -> int:
    """Change a series' mode, on the record."""
    changed = await operate.set_mode(
        found, arguments.platform, arguments.series, arguments.mode, by=f"cli:{getuser()}", why=arguments.why
    )
    was = "is now" if changed else "was already"
    print(f"{arguments.platform}/{arguments.series} {was} in mode {arguments.mode}")
    return DONE
