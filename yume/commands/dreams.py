"""Commands on dreams: shown, started, ended, and run once more."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

from yume import operate
from yume.acts import again
from yume.acts import dreams as acts
from yume.acts import series as known
from yume.acts.again import Passed, Queued, Wish
from yume.acts.replays import STEPS, step_named
from yume.commands import files
from yume.commands.asked import operator
from yume.commands.printing import DONE, REFUSED, as_json, escaped, rows
from yume.errors import PermanentError
from yume.ids import new_id
from yume.resources import Resources, open_resources
from yume.settings import Settings
from yume.store import access
from yume.store.dreams import Progress

LOOKED_AT: Final = "a dream is looked at once more"
BY_HAND: Final = "asked for by hand"
LONG_AGO: Final = timedelta(days=36_500)


async def report(arguments: argparse.Namespace, found: Settings) -> int:
    """Print a report as it lies in the archive."""
    where = (arguments.platform, arguments.series, arguments.dream)
    print(await operate.report_of(found, *where, as_json=arguments.json), end="")
    return DONE


async def dreams(arguments: argparse.Namespace, found: Settings) -> int:
    """List the dreams of a series."""
    listed = await operate.dreams_of(found, arguments.platform, arguments.series)
    columns = ("number", "trigger", "of", "status", "result", "reason", "step", "error")
    rows(listed, arguments, columns, empty="no dream yet")
    return DONE


async def dream(arguments: argparse.Namespace, found: Settings) -> int:
    """Close the open batch and queue its dream, or review the runs that lie in files."""
    if arguments.runs is not None:
        return await _over_files(arguments, found)
    if arguments.series is None or any(
        (arguments.format, arguments.language, arguments.name, arguments.output)
    ):
        arguments.refuse("say PLATFORM and SERIES, or --runs PATH with its options")
    by, why = operator(), arguments.why or BY_HAND
    async with open_resources(operate.located(found), "cli") as resources:
        queued = await acts.start_now(arguments.platform, arguments.series, resources, by=by, why=why)
        starts = await _starts(arguments, resources)
    _say(arguments, queued.number, f"is queued: {starts}", status=queued.status)
    return DONE


async def _over_files(arguments: argparse.Namespace, found: Settings) -> int:
    if arguments.platform is not None or arguments.why is not None:
        arguments.refuse("--runs reviews files: it takes no PLATFORM, SERIES or --why")
    arguments.format = arguments.format or "contract"
    arguments.language = arguments.language or "en"
    return await files.dream(arguments, found)


async def cancel(arguments: argparse.Namespace, found: Settings) -> int:
    """End a dream that has not ended."""
    by, why = operator(), arguments.why
    async with open_resources(operate.located(found), "cli") as resources:
        was = await acts.cancel(*_dream(arguments), resources, by=by, why=why)
    _say(arguments, was.number, f"is cancelled; it was {was.status}", status="cancelled", was=was.status)
    return DONE


async def resume(arguments: argparse.Namespace, found: Settings) -> int:
    """Queue a parked dream again."""
    by, why = operator(), arguments.why
    async with open_resources(operate.located(found), "cli") as resources:
        was = await acts.resume(*_dream(arguments), resources, by=by, why=why)
        starts = await _starts(arguments, resources)
    _say(arguments, was.number, f"is queued again: {starts}", status="queued", was=was.status)
    return DONE


async def replay(arguments: argparse.Namespace, found: Settings) -> int:
    """Run one dream once more, or every dream that stored messages name."""
    if arguments.apply and arguments.why is None:
        arguments.refuse("--apply changes lessons: say --why")
    key = arguments.key or str(new_id())
    wish = Wish(key=key, applies=arguments.apply, by=operator(), why=arguments.why or LOOKED_AT)
    if arguments.subject is not None:
        if arguments.platform is not None or arguments.step is not None or arguments.since is None:
            arguments.refuse(
                "--subject says which dreams and from which step: it takes --since, nothing else"
            )
        return await _replay_stored(arguments, wish, found)
    if arguments.number is None or arguments.since is not None:
        arguments.refuse("PLATFORM SERIES NUMBER, or --subject with --since, say what is to be replayed")
    async with open_resources(operate.located(found), "cli") as resources:
        queued = await again.replay(
            *_dream(arguments), wish, resources, step=step_named(arguments.step or STEPS[0])
        )
        if not arguments.wait:
            _show(arguments, {**_named(queued), "key": key}, f"{_title(queued)} is queued; key {key}")
            return DONE
        return await _wait(arguments, queued, key, resources)


async def _wait(arguments: argparse.Namespace, queued: Queued, key: str, resources: Resources) -> int:
    """Tell how far the replay is, in the end what came of it."""
    ended: Progress | None = None
    async for ended in again.progress(queued, resources):
        if not arguments.json:
            after = "" if ended.step is None else f", {ended.step} is done"
            print(f"{_title(queued)} is {ended.status}{after}", flush=True)
    assert ended is not None
    well = ended.status == "finished"
    differs = await again.difference(queued, resources) if well else None
    told = {"key": key, "status": ended.status, "result": ended.result, "reason": ended.reason}
    _show(
        arguments,
        {**_named(queued), **told, "error": ended.error, "difference": differs},
        f"result {ended.result or '-'}, reason {ended.reason or '-'}",
        *([] if not well or queued.applies else differs or ["no difference: the same rules"]),
    )
    if well:
        return DONE
    why = ended.error or ended.reason or "no reason is known"
    raise PermanentError(escaped(f"dream {queued.again} is {ended.status}: {why}"))


async def _replay_stored(arguments: argparse.Namespace, wish: Wish, found: Settings) -> int:
    """Queue the dreams that stored messages name: a line each, and a sum."""
    made: list[Queued] = []
    passed: list[Passed] = []
    async with (
        operate.open_jetstream(found) as js,
        open_resources(operate.located(found), "cli") as resources,
    ):
        since = resources.now() - min(arguments.since, LONG_AGO)
        async for each in again.replay_stored(arguments.subject, since, wish, resources, js):
            if isinstance(each, Queued):
                made.append(each)
                line, stream = f"{_title(each)} is queued", sys.stdout
            else:
                passed.append(each)
                line = f"{each.about} is {each.kind}: {each.why}"
                stream = sys.stderr if each.kind == "refused" else sys.stdout
            if not arguments.json or stream is sys.stderr:
                print(escaped(line), file=stream, flush=True)
    refused = sum(each.kind == "refused" for each in passed)
    _show(
        arguments,
        {
            "key": wish.key,
            "queued": [_named(each) for each in made],
            "passed": [asdict(each) for each in passed],
        },
        f"{len(made)} queued, {len(passed) - refused} skipped, {refused} refused; key {wish.key}",
    )
    return REFUSED if refused else DONE


async def _starts(arguments: argparse.Namespace, resources: Resources) -> str:
    """Say who starts what is queued."""
    async with resources.db.acquire() as db:
        series = await known.find(db, arguments.platform, arguments.series)
        paused = (await access.policy_of(db, series.id))["paused_at"] is not None
    return (
        "the series is paused, `yume series resume` lets it start" if paused else "the orchestrator starts it"
    )


def _title(queued: Queued) -> str:
    where = escaped(f"{queued.platform}/{queued.series}")
    return f"{where} dream {queued.again}, a replay of {queued.original} from {queued.step},"


def _named(queued: Queued) -> dict[str, Any]:
    return {
        "platform": queued.platform,
        "series": queued.series,
        "dream": queued.again,
        "dream_id": str(queued.id),
        "of": queued.original,
        "from": queued.step,
        "applies": queued.applies,
    }


def _dream(arguments: argparse.Namespace) -> tuple[str, str, int]:
    return arguments.platform, arguments.series, arguments.number


def _say(arguments: argparse.Namespace, number: int, what: str, **facts: Any) -> None:
    """Print what became of a dream, or for programs what it is made of."""
    named = {"platform": arguments.platform, "series": arguments.series, "dream": number}
    where = f"{arguments.platform}/{arguments.series}"
    _show(arguments, named | facts, f"dream {number} of {where} {what}")


def _show(arguments: argparse.Namespace, facts: dict[str, Any], *lines: str) -> None:
    print(as_json(facts) if arguments.json else "\n".join(escaped(line) for line in lines))
