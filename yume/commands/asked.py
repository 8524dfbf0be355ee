"""Who asks, and about which series: the same in every command."""

from __future__ import annotations

import argparse
from getpass import getuser


def operator() -> str:
    """Return under which name the rows keep what is done from this command line."""
    return f"cli:{getuser()}"


def where(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the platform and the series that the command is about."""
    return arguments.platform, arguments.series
