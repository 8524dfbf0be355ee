"""One process a trust zone: which steps it serves, and the environment that it is given and no more."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from yume.local.processes import Program
from yume.pipeline import STAGES
from yume.resources import HOLDINGS, Zone
from yume.settings import PREFIX, Settings, inherited

ZONES: Final[tuple[Zone, ...]] = ("ingest", "dream", "gate", "slot", "measure", "orchestrator", "api")

_NOT_SHARED: Final = frozenset({"health_port"})  # one port cannot serve several processes

# Settings that only a zone with the holding gets to see.
_GUARDED: Final[Mapping[str, frozenset[str]]] = {
    "archive_url": frozenset({"archive"}),
    "archive_endpoint": frozenset({"archive"}),
    "archive_region": frozenset({"archive"}),
    "archive_access_key": frozenset({"archive"}),
    "archive_secret_key": frozenset({"archive"}),
    "secret_keys": frozenset({"export", "slot"}),
}


def command(zone: Zone) -> list[str]:
    """Return the command line that serves a zone."""
    if zone in ("orchestrator", "api"):
        return [sys.executable, "-m", "yume.cli", zone]
    return [sys.executable, "-m", "yume.cli", "worker", *(each.name for each in STAGES if each.zone == zone)]


def environment(settings: Settings, zone: Zone) -> dict[str, str]:
    """Return the whole environment of a zone's process: what its steps need, and no other zone's secret."""
    values = dict(inherited())
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if value is None or not _may_see(zone, name):
            continue
        shown = value.get_secret_value() if isinstance(value, SecretStr) else value
        values[f"{PREFIX}{name.upper()}"] = str(shown.absolute() if isinstance(shown, Path) else shown)
    return values


def _may_see(zone: Zone, setting: str) -> bool:
    needed = _GUARDED.get(setting)
    if setting in _NOT_SHARED:
        return False
    return needed is None or bool(needed & HOLDINGS[zone])


def programs(settings: Settings, logs: Path, zones: tuple[Zone, ...] = ZONES) -> list[Program]:
    """Return the processes of the zones, ready to be supervised."""
    return [Program(zone, command(zone), logs=logs, env=environment(settings, zone)) for zone in zones]
