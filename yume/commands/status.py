"""The command that shows the whole on one screen."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from typing import Any, Final

from yume import operate
from yume.acts.overview import COUNTED, OpenDream, SeriesNow, Traffic, overview_of, traffic_of
from yume.commands.printing import DONE, as_json, escaped, rows
from yume.errors import YumeError
from yume.resources import open_resources
from yume.settings import Settings
from yume.topology import of_deployment

COLUMNS: Final = ("series", "mode", "slot", "batch", "queue", "running", "parked", "asked", "drafts", "last")


async def status(arguments: argparse.Namespace, found: Settings) -> int:
    """Show every series and what lies in NATS; a NATS that does not answer hides nothing else."""
    async with open_resources(operate.located(found), "cli") as resources:
        whole = await overview_of(resources)
    traffic = await _traffic(found)
    if arguments.json:
        nats = {"error": traffic} if isinstance(traffic, str) else traffic.to_json()
        print(as_json(whole.to_json() | {"nats": nats}))
        return DONE
    table = [_row(each, whole.at) for each in whole.series]
    rows(table, arguments, COLUMNS, empty="no series yet: a finished task brings one")
    print("\n" + "\n".join(escaped(line) for line in [*_nats(traffic), *_silent(whole.silent)]))
    return DONE


async def _traffic(found: Settings) -> Traffic | str:
    if operate.located(found).nats_url is None:
        return "YUME_NATS_URL is not set"
    try:
        async with operate.open_jetstream(found) as js:
            return await traffic_of(js, of_deployment(found))
    except YumeError as error:
        return str(error)


def _row(series: SeriesNow, at: datetime) -> dict[str, Any]:
    running, held, batch, last = series.running, series.slot, series.batch, series.last
    mode: str = series.mode
    mode += " (paused)" if series.paused_at is not None else ""
    mode += " (platform off)" if series.switched_off else ""
    return {
        "series": f"{series.platform}/{series.series}",
        "mode": mode,
        "slot": None if held is None else f"v{held.version or '?'} for {_ago(held.since, at)}",
        "batch": None if batch is None else batch.tasks,
        "queue": len(series.numbers("queued")) or None,
        "running": None if running is None else _running(running, at),
        "parked": ", ".join(str(each) for each in series.numbers("parked")) or None,
        "asked": ", ".join(each.kind for each in series.commands) or None,
        "drafts": series.drafts or None,
        "last": None
        if last is None
        else f"{last.number} {last.result or last.status} {_ago(last.finished_at, at)} ago",
    }


def _running(dream: OpenDream, at: datetime) -> str:
    """Say which step a dream is at, and since when, or until when it waits."""
    if dream.not_before is not None and dream.not_before > at:
        return f"{dream.number} waits at {dream.step} {_span(dream.not_before - at)} more"
    return f"{dream.number} at {dream.step} for {_ago(dream.step_since or dream.since, at)}"


def _nats(traffic: Traffic | str) -> list[str]:
    if isinstance(traffic, str):
        return [f"NATS: {traffic}"]
    dead = "no such stream" if traffic.dead is None else str(traffic.dead)
    if traffic.dead == COUNTED:
        dead = f"{COUNTED} or more"
    waits = ", ".join(f"{name} {count}" for name, count in traffic.backlog.items() if count) or "nothing"
    lines = [f"dead letters: {dead}" + (": see `yume dead list`" if traffic.dead else "")]
    lines.append(f"backlog: {waits}")
    if traffic.missing:
        lines.append(f"consumers that the server lacks: {', '.join(traffic.missing)}: `yume streams apply`")
    return lines


def _silent(silent: Any) -> list[str]:
    return [f"silent: {line}" for line in silent] or ["nobody is late: no row tells of a part that is down"]


def _ago(then: datetime, at: datetime) -> str:
    return _span(max(at - then, timedelta()))


def _span(time: timedelta) -> str:
    """Return a time in its largest unit."""
    seconds = int(time.total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
