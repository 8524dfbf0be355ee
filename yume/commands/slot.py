"""Commands on a series' slot: what would come next, and what a person wants there."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from yume import operate
from yume.acts import releases
from yume.acts import series as known
from yume.acts import slot as acts
from yume.acts.releases import Preview
from yume.commands.asked import operator, where
from yume.commands.printing import DONE, REFUSED, as_json, escaped
from yume.domain.lessons import Lesson
from yume.errors import PermanentError
from yume.resources import Resources, open_resources
from yume.rollback import Rollback, plan_rollback
from yume.settings import Settings
from yume.store import dreams, lessons
from yume.store.effects import Command

BY_WAY: dict[str | None, str] = {
    "posted": "by posting it",
    "restored": "by restoring the platform's own old version",
    "current": "which it held already",
}


async def preview(arguments: argparse.Namespace, found: Settings) -> int:
    """Show the next release, and change nothing."""
    async with open_resources(operate.located(found), "cli") as resources:
        shown = await releases.preview(*where(arguments), resources)
    _print_preview(arguments, shown)
    return DONE


async def release(arguments: argparse.Namespace, found: Settings) -> int:
    """Release what is approved at once, and say what that costs; refused without --now."""
    if arguments.now and arguments.why is None:
        arguments.refuse("--now does not wait for the measurement: say --why")
    async with open_resources(operate.located(found), "cli") as resources:
        shown = await releases.preview(*where(arguments), resources)
        if not arguments.now:
            _print_preview(arguments, shown)
            print("yume: nothing is released: that takes --now and --why", file=sys.stderr)
            return REFUSED
        if not arguments.json:
            print(f"price: {shown.price or 'none'}", flush=True)
        dream = await releases.release_now(*where(arguments), resources, by=operator(), why=arguments.why)
        async with resources.db.acquire() as db:
            queued = await dreams.dream_named(db, dream)
    assert queued is not None
    facts = {"dream": queued.number, "dream_id": str(dream), "price": shown.price}
    _say(arguments, f"{_title(arguments)}: the release is queued as dream {queued.number}", **facts)
    return DONE


async def rollback(arguments: argparse.Namespace, found: Settings) -> int:
    """Put an old version back, or show what that would do."""
    if not arguments.dry_run and arguments.why is None:
        arguments.refuse("the reason is wanted: say --why, or --dry-run to change nothing")
    async with open_resources(operate.located(found), "cli") as resources:
        if arguments.dry_run:
            async with resources.db.acquire() as db:
                series = await known.find(db, *where(arguments))
                plan = await plan_rollback(db, series, arguments.to)
            _print_plan(arguments, plan)
            return DONE
        command, plan = await acts.rollback(
            *where(arguments), arguments.to, resources, by=operator(), why=arguments.why
        )
        done = await operate.carried_out(found, resources, plan.series.id, command)
    _check(arguments, done)
    again = f"holds v{plan.target.version} again"
    _say(arguments, _done(arguments, done, again), **_plan(plan), **_came(done))
    return DONE


async def kill(arguments: argparse.Namespace, found: Settings) -> int:
    """Leave the owner's rules alone in the slot, or nothing."""
    async with open_resources(operate.located(found), "cli") as resources:
        command = await acts.kill(
            *where(arguments), resources, everything=arguments.all, by=operator(), why=arguments.why
        )
        series = await acts.series_of(*where(arguments), resources)
        done = await operate.carried_out(found, resources, series, command)
        version, rules = await _held(done, resources)
    _check(arguments, done)
    left = f"holds v{version}, {rules} rules of the owner's and no other" if rules else "is empty"
    said = f"{_done(arguments, done, left)}; the series only reports"
    _say(arguments, said, version=version, rules=rules, **_came(done))
    return DONE


async def _held(done: Command, resources: Resources) -> tuple[int, int]:
    """Return the version and the number of rules of the set that a command was about."""
    assert done.lesson_set_id is not None
    async with resources.db.acquire() as db:
        target = await lessons.set_by_id(db, done.lesson_set_id)
    assert target is not None
    return target.version, len(target.lesson_ids)


def _check(arguments: argparse.Namespace, done: Command) -> None:
    if done.status != "written":
        raise PermanentError(f"{_title(arguments)}: {done.kind}: {done.status}: {escaped(str(done.error))}")


def _done(arguments: argparse.Namespace, done: Command, holds: str) -> str:
    version = f"platform version {done.platform_version}"
    return f"the slot of {_title(arguments)} {holds} ({version}), {BY_WAY.get(done.how, 'done')}"


def _came(done: Command) -> dict[str, Any]:
    return {
        "command": str(done.id),
        "status": done.status,
        "platform_version": done.platform_version,
        "how": done.how,
    }


def _print_plan(arguments: argparse.Namespace, plan: Rollback) -> None:
    """Say what going back would do; the owner's rules that would go are named apart."""
    if arguments.json:
        print(as_json({"platform": arguments.platform, "series": arguments.series, **_plan(plan)}))
        return
    print(f"the slot of {_title(arguments)} would go from v{plan.left.version} to v{plan.target.version}")
    _print_rules("would go", [each.rule for each in plan.retired if each.origin != "owner"], "-")
    _print_rules("would go, though they are the owner's", [each.rule for each in plan.owners], "-")
    _print_rules("would come back", [each.rule for each in plan.approved], "+")


def _plan(plan: Rollback) -> dict[str, Any]:
    return {
        "from": plan.left.version,
        "to": plan.target.version,
        "retired": [_lesson(each) for each in plan.retired],
        "approved": [_lesson(each) for each in plan.approved],
    }


def _lesson(lesson: Lesson) -> dict[str, str]:
    return {"id": str(lesson.id), "origin": lesson.origin, "rule": lesson.rule}


def _print_preview(arguments: argparse.Namespace, shown: Preview) -> None:
    facts = _preview(shown)
    if arguments.json:
        print(as_json({"platform": arguments.platform, "series": arguments.series, **facts}))
        return
    made = shown.release.compiled
    held = "none" if facts["from"] is None else f"v{facts['from']}"
    budget = shown.series.projection_budget_tokens
    print(f"{_title(arguments)}: {held} -> v{facts['version']}, {made.tokens} of {budget} tokens")
    _print_rules("added", [each["rule"] for each in facts["added"]], "+")
    _print_rules("removed", [f"{each['rule']} ({each['why']})" for each in facts["removed"]], "-")
    _print_rules("left out", [f"{each['rule']} ({each['why']})" for each in facts["left_out"]], "~")
    print(f"\nmay be released now: {'yes' if facts['may_release'] else 'no: ' + facts['why_not']}")
    if shown.price is not None:
        print(f"price of not waiting: {shown.price}")
    print("\n" + ("\n".join(f"    {escaped(line)}" for line in made.text.splitlines()) or "    (empty)"))


def _preview(shown: Preview) -> dict[str, Any]:
    """Collect what a preview says."""
    release, made = shown.release, shown.release.compiled
    left_out = {each.lesson_id: each.why for each in made.left_out}
    return {
        "from": None if release.base is None else release.base.version,
        "version": made.version if release.target is None else release.target.version,
        "changed": release.changed,
        "may_release": _why_not(shown) is None,
        "why_not": _why_not(shown),
        "price": shown.price,
        "added": [_rule(shown, each) for each in release.added],
        "removed": [
            _rule(shown, each) | {"why": left_out.get(each, "no longer approved")} for each in release.removed
        ],
        "left_out": [_rule(shown, each) | {"why": why} for each, why in left_out.items()],
        "tokens": made.tokens,
        "text": made.text,
    }


def _why_not(shown: Preview) -> str | None:
    """Return why the next text is not released by itself; None if it may be."""
    if not shown.release.changed:
        return "the slot holds all that is approved"
    if shown.series.mode == "report_only":
        return "the series only reports"
    return shown.price


def _rule(shown: Preview, lesson: Any) -> dict[str, str]:
    return {"id": str(lesson), "rule": shown.rules.get(str(lesson), "?")}


def _print_rules(title: str, rules: Sequence[str], mark: str) -> None:
    if rules:
        print("\n".join([f"\n{title}:", *(f"  {mark} {escaped(each)}" for each in rules)]))


def _title(arguments: argparse.Namespace) -> str:
    return escaped(f"{arguments.platform}/{arguments.series}")


def _say(arguments: argparse.Namespace, line: str, **facts: Any) -> None:
    named = {"platform": arguments.platform, "series": arguments.series}
    print(as_json(named | facts) if arguments.json else line)
