"""Commands on series."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, Final

from yume import operate
from yume.acts import series as acts
from yume.acts import slot
from yume.acts.overview import SeriesNow
from yume.acts.series import Act, Change, Shown
from yume.commands.asked import operator, where
from yume.commands.printing import DONE, as_json, escaped, rows
from yume.domain.adopting import rules_of
from yume.domain.measurement.cells import DEFAULTS
from yume.domain.schedule import Schedule
from yume.errors import PermanentError
from yume.resources import Resources, open_resources
from yume.settings import Settings
from yume.store.effects import Command

BOUNDARIES: Final = {
    "always_valid": "always-valid: at any number of looks",
    "pocock": f"Pocock bound: at a version's first {DEFAULTS.planned_looks} looks, and none after",
}


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
        found, arguments.platform, arguments.series, arguments.mode, by=operator(), why=arguments.why
    )
    was = "is now" if changed else "was already"
    _say(arguments, f"{was} in mode {arguments.mode}", mode=arguments.mode, changed=changed)
    return DONE


async def series_add(arguments: argparse.Namespace, found: Settings) -> int:
    """Add a series, or change a known one."""
    wanted = _change(arguments)
    async with open_resources(operate.located(found), "cli") as resources:
        made, new = await acts.add(*where(arguments), wanted, resources, **_who(arguments))
    was = "is new and only reports" if new else f"was known, its mode is {made.mode}"
    _say(arguments, was, new=new, mode=made.mode)
    return DONE


async def series_set(arguments: argparse.Namespace, found: Settings) -> int:
    """Change what is given of a series' policy."""
    wanted = _change(arguments)
    if wanted.empty:
        arguments.refuse("nothing is given to be set")
    async with open_resources(operate.located(found), "cli") as resources:
        await acts.change(*where(arguments), wanted, resources, **_who(arguments))
    _say(arguments, "is as wanted: see `yume series show`", changed=True)
    return DONE


async def series_pause(arguments: argparse.Namespace, found: Settings) -> int:
    """Start no more dreams."""
    async with open_resources(operate.located(found), "cli") as resources:
        changed = await acts.pause(*where(arguments), resources, **_who(arguments))
    _say(arguments, "is paused: no dream starts" if changed else "was paused already", changed=changed)
    return DONE


async def series_resume(arguments: argparse.Namespace, found: Settings) -> int:
    """Start dreams again."""
    async with open_resources(operate.located(found), "cli") as resources:
        changed = await acts.resume(*where(arguments), resources, **_who(arguments))
    _say(arguments, "goes on: dreams start again" if changed else "was not paused", changed=changed)
    return DONE


async def series_show(arguments: argparse.Namespace, found: Settings) -> int:
    """Show all that there is to see of a series."""
    async with open_resources(operate.located(found), "cli") as resources:
        shown = await acts.shown(*where(arguments), resources)
    if arguments.json:
        print(as_json(shown.to_json()))
        return DONE
    for name, value in _lines(shown):
        print(f"{name:14}{escaped(value)}")
    print()
    columns = ("number", "trigger", "status", "result", "reason", "error")
    rows([dict(each) for each in shown.dreams], arguments, columns, empty="no dream yet")
    return DONE


async def series_adopt(arguments: argparse.Namespace, found: Settings) -> int:
    """Show a text that is not Yume's, or make the one that was shown the owner's rules."""
    if arguments.sha256 is not None and arguments.why is None:
        arguments.refuse("--sha256 adopts the text: say --why")
    async with open_resources(operate.located(found), "cli") as resources:
        if arguments.sha256 is None:
            return await _look(arguments, found, resources)
        command = await slot.adopt(
            *where(arguments), arguments.sha256, resources, by=operator(), why=arguments.why
        )
        series = await slot.series_of(*where(arguments), resources)
        done = await operate.carried_out(found, resources, series, command)
        if done.status != "written":
            raise PermanentError(f"the text was not adopted: {done.status}, {done.error}")
        rules = rules_of(await _text(arguments, done, resources))
    _say(
        arguments,
        f"has {len(rules)} rules of its owner's; its slot stays as it is "
        f"(platform version {done.platform_version})",
        rules=rules,
        platform_version=done.platform_version,
        sha256=done.text_sha256,
    )
    return DONE


async def _look(arguments: argparse.Namespace, found: Settings, resources: Resources) -> int:
    """Print the text that stands in the slot, the rules that it would become, and how to adopt it."""
    command = await slot.look(*where(arguments), resources, by=operator())
    series = await slot.series_of(*where(arguments), resources)
    seen = await operate.carried_out(found, resources, series, command)
    if seen.text_sha256 is None:
        raise PermanentError(str(seen.error))
    text = await _text(arguments, seen, resources)
    if not arguments.json:
        print(f"the slot of {escaped('/'.join(where(arguments)))} holds (version {seen.platform_version}):\n")
        print("\n".join(f"    {escaped(line)}" for line in text.splitlines()), flush=True)
    rules = rules_of(text)
    again = shlex.join(["yume", "series", "adopt", *where(arguments), "--sha256", seen.text_sha256])
    if arguments.json:
        told = {"text": text, "sha256": seen.text_sha256, "rules": rules, "next": f"{again} --why ..."}
        print(as_json({"platform": arguments.platform, "series": arguments.series, **told}))
        return DONE
    print(f"\nIt would become {len(rules)} rules of the owner's, and the slot would stay as it is:\n")
    print("\n".join(f"    - {escaped(rule)}" for rule in rules))
    print(f"\nTo adopt this text and no other:\n\n    {escaped(again)} --why ...")
    return DONE


async def _text(arguments: argparse.Namespace, seen: Command, resources: Resources) -> str:
    assert seen.text_sha256 is not None
    async with resources.db.acquire() as db:
        series = await acts.find(db, *where(arguments))
    return await slot.shown_text(series, seen.text_sha256, resources)


def _who(arguments: argparse.Namespace) -> dict[str, str]:
    return {"by": operator(), "why": arguments.why}


def _say(arguments: argparse.Namespace, what: str, **facts: Any) -> None:
    """Print what became of the series, or for programs what it is made of."""
    named = {"platform": arguments.platform, "series": arguments.series}
    where = escaped(f"{arguments.platform}/{arguments.series}")
    print(as_json(named | facts) if arguments.json else f"{where} {what}")


def _change(arguments: argparse.Namespace) -> Change:
    if (arguments.schedule is None) != (arguments.zone is None):
        arguments.refuse("--schedule and --zone belong together")
    return Change(
        batch_max_runs=arguments.batch_max_runs,
        batch_max_wait=arguments.batch_max_wait,
        schedule=None if arguments.schedule is None else Schedule(arguments.schedule, arguments.zone),
        no_schedule=getattr(arguments, "no_schedule", False),
        budget_tokens=arguments.budget_tokens,
        language=arguments.language,
        instructions=arguments.instructions,
        auto_rollback=arguments.auto_rollback,
        boundary=arguments.boundary,
    )


def _lines(shown: Shown) -> list[tuple[str, str]]:
    """Say what `series show` says above the dreams, a line each."""
    policy, now = shown.policy, shown.now
    schedule = policy["schedule"]
    by_clock = "none" if schedule is None else f"{schedule['cron']} in {schedule['zone']}"
    if shown.next_tick is not None:
        by_clock += f", next {shown.next_tick:%Y-%m-%d %H:%M}Z"
    return [
        ("series", f"{now.platform}/{now.series}"),
        ("mode", now.mode + _by(shown.mode_set)),
        ("paused", "no" if now.paused_at is None else f"{now.paused_at:%Y-%m-%d %H:%M}Z" + _by(shown.paused)),
        ("batch", f"{policy['batch_max_runs']} tasks at most, {policy['batch_max_wait']} at most"),
        ("schedule", by_clock),
        ("text", f"{policy['projection_budget_tokens']} tokens at most, in {policy['language']}"),
        ("instructions", policy["instructions"] or "none"),
        ("verdicts", BOUNDARIES[policy["boundary"]]),
        ("alarm", "rolls back by itself" if policy["auto_rollback"] else "proposes a rollback"),
        ("slot", _slot(now)),
        ("open batch", "none" if now.batch is None else f"{now.batch.tasks} tasks, dream {now.batch.number}"),
        ("queue", _queue(now)),
        ("commands", ", ".join(each.kind for each in now.commands) or "none"),
        ("drafts", f"{now.drafts} wait for a person"),
        ("approved", f"{len(shown.waiting)} wait for a release: see `yume preview`"),
    ]


def _by(act: Act | None) -> str:
    return "" if act is None else f", by {act.by} at {act.at[:16]}Z: {act.why}"


def _slot(now: SeriesNow) -> str:
    held = now.slot
    if held is None:
        return "Yume never wrote there"
    came = f"{held.kind} by {held.by}" + ("" if held.how is None else f", {held.how}")
    version = "?" if held.version is None else held.version
    return (
        f"v{version}, platform version {held.platform_version}, since {held.since:%Y-%m-%d %H:%M}Z ({came})"
    )


def _queue(now: SeriesNow) -> str:
    running = now.running
    parts = [] if running is None else [f"dream {running.number} runs {running.step}"]
    for status in ("queued", "parked"):
        numbers = ", ".join(str(each) for each in now.numbers(status))
        parts += [f"{status}: {numbers}"] if numbers else []
    return "; ".join(parts) or "empty"
