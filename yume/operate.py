"""What an operator's commands do: tables, streams, platforms, and a look at what is there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import structlog
from pydantic import SecretStr

from yume import jetstream, trail
from yume.acts import calls, slot
from yume.acts import series as known
from yume.clients.addresses import checked_base_url
from yume.clients.vault import Vault
from yume.domain.dreams import Mode
from yume.errors import PermanentError, TransientError, YumeError
from yume.ids import InjectionId, LessonId, PlatformId, SeriesId
from yume.jetstream import JetStream
from yume.resources import Resources, open_resources, vault_of
from yume.settings import Settings, contracts
from yume.store import access, dreams, lessons, migrations
from yume.store.access import Platform
from yume.store.effects import Command
from yume.topology import of_deployment
from yume.trail import Trail

if TYPE_CHECKING:
    pass

log = structlog.get_logger()

PATIENCE_S: Final = 60.0
CONNECT_S: Final = 5.0  # a worker tries for ever
_PLATFORM_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")  # as the table has it
RUNNING: Final = "running.json"
HOLDS: Final = "hold: sha256, excerpt and quotes match the archived bytes"


def located(settings: Settings) -> Settings:
    """Fill in the servers that `yume up` runs on this data folder, where no URL names others."""
    running = _running(settings)
    if not {"database_url", "nats_url"} <= running.keys():
        return settings  # nothing runs here: whoever needs a URL says so
    return settings.model_copy(
        update={
            "database_url": settings.database_url or SecretStr(running["database_url"]),
            "nats_url": settings.nats_url or SecretStr(running["nats_url"]),
        }
    )


def _running(settings: Settings) -> dict[str, str]:
    """Return what `running_here` told; nothing if nobody did or it cannot be read."""
    try:
        told = json.loads((settings.data_dir / RUNNING).read_bytes())
    except (OSError, ValueError):
        return {}
    return {name: str(value) for name, value in told.items()} if isinstance(told, dict) else {}


@contextmanager
def running_here(settings: Settings) -> Iterator[None]:
    """Tell other commands on this machine where the servers of this data folder listen."""
    assert settings.database_url is not None
    assert settings.nats_url is not None
    urls = {
        "database_url": settings.database_url.get_secret_value(),
        "nats_url": settings.nats_url.get_secret_value(),
        "sealed_with": vault_of(settings).name,
    }
    file = settings.data_dir / RUNNING
    file.touch(mode=0o600)
    file.write_text(json.dumps(urls))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


async def migrate(settings: Settings) -> list[str]:
    """Apply the migrations that are missing."""
    url = _named(located(settings).database_url, "YUME_DATABASE_URL")
    return await migrations.migrate(url, contracts("schemas") / "postgres")


def _named(url: SecretStr | None, setting: str) -> str:
    if url is None:
        raise PermanentError(f"{setting} is not set, and no `yume up` is running on this data folder")
    return url.get_secret_value()


async def apply_streams(settings: Settings) -> list[str]:
    """Make the server's streams and consumers what `streams/` says."""
    async with open_jetstream(settings) as js:
        return await js.apply(of_deployment(settings))


async def check_streams(settings: Settings) -> list[dict[str, Any]]:
    """Return every point in which the server differs from `streams/`."""
    async with open_jetstream(settings) as js:
        found = await js.check(of_deployment(settings))
    return [
        {"name": each.name, "field": each.field, "wanted": each.wanted, "live": each.live} for each in found
    ]


async def add_platform(
    settings: Settings, platform: str, *, base_url: str, export_token: SecretStr, slot_token: SecretStr
) -> None:
    """Add a platform with its two tokens, sealed."""
    if not _PLATFORM_ID.fullmatch(platform):
        raise PermanentError(
            f"{platform!r} is no platform id: lower-case letters, digits, - and _, at most 63"
        )
    vault = vault_of(settings)
    _check_key(settings, vault)
    row = Platform(
        PlatformId(platform),
        checked_base_url(base_url, allow_http=settings.platform_allow_http),
        vault.seal(export_token),
        vault.seal(slot_token),
        {},
    )
    async with open_resources(located(settings), "cli") as resources, resources.db.acquire() as db:
        await access.add_platform(db, row)


def _check_key(settings: Settings, vault: Vault) -> None:
    """Refuse to seal with a key that the processes of this data folder do not have."""
    if _running(settings).get("sealed_with", vault.name) != vault.name:
        raise PermanentError("`yume up` runs with other YUME_SECRET_KEYS than this shell: set the same here")


def token_in(file: Path) -> SecretStr:
    """Read a token from a file: one on the command line would stand in the list of processes."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PermanentError(f"the token file {file} cannot be read: {error}") from error
    if not token:
        raise PermanentError(f"the token file {file} is empty")
    return SecretStr(token)


async def platforms(settings: Settings) -> list[dict[str, Any]]:
    """Return the platforms, without their tokens."""
    async with open_resources(located(settings), "cli") as resources, resources.db.acquire() as db:
        return [dict(row) for row in await access.platforms(db)]


async def all_series(settings: Settings) -> list[dict[str, Any]]:
    """Return every series with its policy."""
    async with open_resources(located(settings), "cli") as resources, resources.db.acquire() as db:
        return [dict(row) for row in await access.all_series(db)]


async def set_mode(settings: Settings, platform: str, series: str, mode: Mode, *, by: str, why: str) -> bool:
    """Change a series' mode and record who did it and why; False if it is in that mode already."""
    async with open_resources(located(settings), "cli") as resources, resources.db.acquire() as db:
        found = await known.find(db, platform, series)
        return await access.promote(db, found, mode, by=by, why=why, now=resources.now())


async def report_of(
    settings: Settings, platform: str, series: str, number: int | None, *, as_json: bool
) -> str:
    """Return a dream's report, the newest one's unless a number is given."""
    async with open_resources(located(settings), "cli") as resources:
        async with resources.db.acquire() as db:
            rows = await dreams.dreams_of_series(db, (await known.find(db, platform, series)).id)
        reported = {row["number"]: row["report_key"] for row in rows if row["report_key"]}
        if not reported or (number is not None and number not in reported):
            there = ", ".join(str(each) for each in reported) or "none"
            wanted = "has no report yet" if number is None else f"has no report of a dream {number}"
            raise PermanentError(f"{platform}/{series} {wanted}; dreams with one: {there}")
        key = reported[max(reported) if number is None else number]
        return (await resources.archive.get(key.removesuffix(".md") + ".json" if as_json else key)).decode()


async def dreams_of(settings: Settings, platform: str, series: str) -> list[dict[str, Any]]:
    """Return the dreams of a series, oldest first; `of` is the number of a replay's original."""
    async with open_resources(located(settings), "cli") as resources, resources.db.acquire() as db:
        found = await dreams.dreams_of_series(db, (await known.find(db, platform, series)).id)
    numbers = {row["id"]: row["number"] for row in found}
    return [{**row, "of": numbers.get(row["replay_of"])} for row in found]


async def carried_out(
    settings: Settings, resources: Resources, series: SeriesId, command: InjectionId
) -> Command:
    """Call S8's component where that can be done from here, and wait until it has done a command."""
    if located(settings).nats_url is not None:
        try:
            async with open_jetstream(settings) as js:
                await calls.call_at_once(series, resources, js)
        except YumeError as error:  # the orchestrator calls, too
            log.warning("call_failed", command=str(command), error=str(error))
    return await slot.outcome(command, resources, patience_s=PATIENCE_S)


async def lessons_of(settings: Settings, platform: str, series: str) -> list[dict[str, Any]]:
    """Return the lessons of a series in every state."""
    async with open_resources(located(settings), "cli") as resources, resources.db.acquire() as db:
        found = await lessons.lessons_in(
            db,
            (await known.find(db, platform, series)).id,
            "approved",
            "draft",
            "superseded",
            "retired",
            "archived",
        )
    return [
        {
            "id": str(each.id),
            "state": each.state,
            "category": each.category,
            "signals": len(each.evidence),
            "origin": each.origin,
            "trust": each.trust,
            "rule": each.rule,
        }
        for each in found
    ]


async def trail_of(settings: Settings, platform: str, series: str, lesson: str) -> Trail:
    """Follow a lesson down to its tasks."""
    try:
        name = LessonId(UUID(lesson))
    except ValueError as error:
        raise PermanentError(f"{lesson!r} is no lesson's id: `yume lessons` lists them") from error
    async with open_resources(located(settings), "cli") as resources:
        async with resources.db.acquire() as db:
            where = await known.find(db, platform, series)
        found = await trail.follow(where.id, name, resources)
    if found is None:
        raise PermanentError(f"series {series!r} has no lesson {lesson}: `yume lessons` lists them")
    return found


def describe(followed: Trail) -> str:
    """Return a trail for reading, a stop a paragraph."""
    lines = [f"lesson  {followed.lesson.id}", f"rule    {followed.lesson.rule}"]
    for stop in followed.stops:
        pointer = stop.signal.pointer
        lines += [
            "",
            f"signal  {stop.signal.id} ({stop.signal.kind}, written by {stop.signal.source_class})",
            f"quote   {' / '.join(repr(quote) for quote in stop.quotes) or '(none)'}",
            f"raw     {pointer.path} lines {pointer.first_line}-{pointer.last_line} of {stop.raw_key}",
            f"run     {stop.run}",
            f"task    {stop.task}",
            f"checks  {HOLDS if stop.holds else _faults(stop)}",
        ]
    return "\n".join(lines)


def _faults(stop: trail.Stop) -> str:
    checks = {
        "the archived bytes were changed or lost": stop.bytes_unchanged,
        "the excerpt is not at the pointer": stop.excerpt_found,
        "a quote is not in the lines": stop.quotes_found,
    }
    return "FAIL: " + ", ".join(fault for fault, passed in checks.items() if not passed)


@asynccontextmanager
async def open_jetstream(settings: Settings) -> AsyncGenerator[JetStream]:
    """Connect to the server that the settings name, or to that of `yume up`; a person is not kept waiting."""
    url = _named(located(settings).nats_url, "YUME_NATS_URL")
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(CONNECT_S):
                js = await stack.enter_async_context(jetstream.connect(url, name="yume-cli"))
        except TimeoutError as error:
            raise TransientError(
                f"NATS cannot be reached within {CONNECT_S:g} s: is the server up? See YUME_NATS_URL"
            ) from error
        yield js
