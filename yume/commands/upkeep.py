"""Commands on the tables, the streams, the platforms and the dead letters."""

from __future__ import annotations

import argparse
import base64
import sys
from typing import Any

from yume import letters, operate
from yume.commands.asked import operator
from yume.commands.printing import DONE, REFUSED, as_json, escaped, rows
from yume.errors import PermanentError
from yume.letters import About, Letter
from yume.resources import open_resources
from yume.settings import Settings


async def migrate(arguments: argparse.Namespace, found: Settings) -> int:
    """Bring the tables up to date."""
    del arguments
    applied = await operate.migrate(found)
    print("\n".join(f"applied {name}" for name in applied) or "nothing to apply: the tables are up to date")
    return DONE


async def streams_apply(arguments: argparse.Namespace, found: Settings) -> int:
    """Bring the streams up to date."""
    del arguments
    print("\n".join(await operate.apply_streams(found)) or "nothing to do: the server is as streams/ says")
    return DONE


async def streams_check(arguments: argparse.Namespace, found: Settings) -> int:
    """Show where the streams differ; refused if they do."""
    listed = await operate.check_streams(found)
    rows(listed, arguments, ("name", "field", "wanted", "live"), empty="the server is as streams/ says")
    return REFUSED if listed else DONE


async def platform_add(arguments: argparse.Namespace, found: Settings) -> int:
    """Add a platform with its two tokens."""
    export_token = operate.token_in(arguments.export_token_file)
    slot_token = operate.token_in(arguments.slot_token_file)
    await operate.add_platform(
        found,
        arguments.platform,
        base_url=arguments.base_url,
        export_token=export_token,
        slot_token=slot_token,
    )
    if export_token == slot_token:
        print("warning: both tokens are the same: who may read the export may then write the slot")
    print(f"platform {arguments.platform} is known; its series start in report_only")
    return DONE


async def platform_list(arguments: argparse.Namespace, found: Settings) -> int:
    """List the platforms."""
    rows(
        await operate.platforms(found), arguments, ("id", "base_url", "disabled_at"), empty="no platform yet"
    )
    return DONE


async def dead_list(arguments: argparse.Namespace, found: Settings) -> int:
    """List the dead letters, oldest first."""
    async with operate.open_jetstream(found) as js:
        listed = [_row(each) async for each in letters.every_letter(js)]
    columns = ("sequence", "died_at", "stream", "consumer", "tries", "bytes", "about", "reason")
    rows(listed, arguments, columns, empty="no dead letter")
    return DONE


async def dead_show(arguments: argparse.Namespace, found: Settings) -> int:
    """Show one dead letter with its body."""
    async with operate.open_jetstream(found) as js:
        letter, body = await letters.letter(js, arguments.sequence)
    told = dict(letter.to_json())
    if arguments.json:
        print(as_json(told | _body(body)))
        return DONE
    for name, value in told.items():
        print(f"{name.replace('_', ' '):18}{'-' if value is None else escaped(str(value))}")
    print(f"\n{escaped(body.decode('utf-8', 'backslashreplace')) if letter.kept else 'the body is not kept'}")
    return DONE


async def dead_requeue(arguments: argparse.Namespace, found: Settings) -> int:
    """Send letters once more; one that is refused holds up no other."""
    end = DONE
    async with (
        operate.open_jetstream(found) as js,
        open_resources(operate.located(found), "cli") as resources,
        resources.db.acquire() as db,
    ):
        for sequence in arguments.sequences:
            try:
                letter = await letters.requeue(js, db, sequence)
            except PermanentError as error:
                print(f"yume: {escaped(str(error))}", file=sys.stderr)
                end = REFUSED
            else:
                print(f"requeued {sequence} into stream {letter.stream}")
    return end


async def dead_drop(arguments: argparse.Namespace, found: Settings) -> int:
    """Remove letters for good; the log says who and why."""
    end = DONE
    async with operate.open_jetstream(found) as js:
        for sequence in arguments.sequences:
            try:
                await letters.drop(js, sequence, by=operator(), why=arguments.why)
            except PermanentError as error:
                print(f"yume: {error}", file=sys.stderr)
                end = REFUSED
            else:
                print(f"dropped {sequence}")
    return end


def _row(letter: Letter) -> dict[str, Any]:
    return {**letter.to_json(), "about": letter.about and _about(letter.about)}


def _about(told: About) -> str:
    if told.dream is not None:
        return f"dream {told.dream}"
    return f"task {told.task}" if told.task is not None else f"{told.platform}/{told.series}"


def _body(body: bytes) -> dict[str, str | None]:
    """Return the body for programs: as text, or in base64 where it is none."""
    try:
        return {"body": body.decode(), "body_base64": None}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": base64.b64encode(body).decode()}
