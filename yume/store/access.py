"""Reads and writes `platforms`, `series` and `taxonomies`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from yume.domain.dreams import Language, Mode, Series
from yume.domain.measurement.cells import Boundary
from yume.domain.runs import Capabilities
from yume.domain.schedule import Schedule
from yume.domain.taxonomy import Taxonomy, read_classes
from yume.errors import PermanentError
from yume.ids import PlatformId, SeriesId, TaxonomyId, new_id
from yume.store import queries

if TYPE_CHECKING:
    import asyncpg

    from yume.store.database import Db

SQL: Final = queries.load("access.sql")


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform as its row says it: the credentials are still encrypted."""

    id: PlatformId
    base_url: str
    export_credential: bytes | None = field(repr=False)
    slot_credential: bytes | None = field(repr=False)
    capabilities: dict[str, Any]

    @property
    def words(self) -> Capabilities:
        """The platform's own words for a task's end, and which kinds of task have a verifier."""
        return Capabilities(self.capabilities.get("statuses", {}), self.capabilities.get("verifier", {}))


async def platform_of(db: Db, platform: str) -> Platform:
    """Return a platform that is known and not switched off."""
    row = await db.fetchrow(SQL["platform_of"], platform)
    if row is None:
        raise PermanentError(f"platform {platform!r} is not known: add it with `yume platform add`")
    if row["disabled_at"] is not None:
        raise PermanentError(
            f"platform {platform!r} was switched off at {row['disabled_at']:%Y-%m-%d %H:%M}Z"
        )
    return Platform(
        PlatformId(row["id"]),
        row["base_url"],
        row["export_credential"],
        row["slot_credential"],
        row["capabilities"],
    )


async def add_platform(db: Db, platform: Platform) -> None:
    """Add a platform, or give a known one another address and credentials."""
    await db.execute(
        SQL["add_platform"],
        platform.id,
        platform.base_url,
        platform.export_credential,
        platform.slot_credential,
    )


async def platforms(db: Db) -> list[asyncpg.Record]:
    """Return all platforms, without their credentials, as rows for display."""
    return list(await db.fetch(SQL["platforms"]))


async def find_series(db: Db, platform: str, external_id: str) -> Series | None:
    """Return a series that is known."""
    row = await db.fetchrow(SQL["series_named"], platform, external_id)
    if row is None:
        return None
    values = dict(row)
    return Series(platform=values.pop("platform_id"), **values)


async def series_named(db: Db, platform: str, external_id: str) -> Series:
    """Return a series of a known platform; one that is new is made in report_only."""
    if known := await find_series(db, platform, external_id):
        return known
    await platform_of(db, platform)
    await db.execute(SQL["add_series"], new_id(), platform, external_id)
    made = await find_series(db, platform, external_id)
    if made is None:
        raise PermanentError("there is no taxonomy named 'yume': run `yume db migrate`")
    return made


async def all_series(db: Db) -> list[asyncpg.Record]:
    """Return every series with its policy, as rows for display."""
    return list(await db.fetch(SQL["all_series"]))


async def promote(db: Db, series: Series, mode: Mode, *, by: str, why: str, now: datetime) -> bool:
    """Change a series' mode and record who did it; False if it is in that mode already."""
    entry = {"from": series.mode, "to": mode, "by": by, "why": why, "at": now.isoformat()}
    return str(await db.execute(SQL["promote"], series.id, mode, why, [entry])) == "UPDATE 1"


async def demote(db: Db, series: SeriesId, *, by: str, why: str, now: datetime) -> bool:
    """Set a series back to report_only and record why; False if it only reports already."""
    entry = {"to": "report_only", "by": by, "why": why, "at": now.isoformat()}
    return str(await db.execute(SQL["demote"], series, why, entry)) == "UPDATE 1"


async def policy_of(db: Db, series: SeriesId) -> asyncpg.Record:
    """Return a series' whole policy and what persons did to it, as a row for display."""
    row = await db.fetchrow(SQL["policy_of"], series)
    if row is None:
        raise PermanentError(f"there is no series {series}")
    return row


async def set_policy(
    db: Db,
    series: SeriesId,
    *,
    batch_max_runs: int | None,
    batch_max_wait: timedelta | None,
    budget_tokens: int | None,
    language: Language | None,
    instructions: str | None,
    schedule: Schedule | None,
    no_schedule: bool,
    auto_rollback: bool | None,
    boundary: Boundary | None,
    by: str,
    why: str,
    now: datetime,
) -> None:
    """Change what is given of a series' policy, and record who did; None leaves a value as it is."""
    cron = None if schedule is None else schedule.to_json()
    told: dict[str, Any] = {
        "batch_max_runs": batch_max_runs,
        "batch_max_wait_s": None if batch_max_wait is None else batch_max_wait.total_seconds(),
        "projection_budget_tokens": budget_tokens,
        "language": language,
        "instructions": instructions,
        "schedule": cron,
        "auto_rollback": auto_rollback,
        "boundary": boundary,
    }
    changed = {name: value for name, value in told.items() if value is not None}
    if no_schedule:
        changed["schedule"] = None
    entry = {"act": "set", "changed": changed, "by": by, "why": why, "at": now.isoformat()}
    values = (batch_max_runs, batch_max_wait, budget_tokens, language, instructions, cron, no_schedule)
    await db.execute(SQL["set_policy"], series, *values, auto_rollback, boundary, [entry])


async def pause(db: Db, series: SeriesId, *, by: str, why: str, now: datetime) -> bool:
    """Let no dream of a series start any more, and record who wanted it; False if it is paused already."""
    entry = {"act": "pause", "by": by, "why": why, "at": now.isoformat()}
    return str(await db.execute(SQL["pause"], series, now, [entry])) == "UPDATE 1"


async def unpause(db: Db, series: SeriesId, *, by: str, why: str, now: datetime) -> bool:
    """Let dreams of a series start again, and record who wanted it; False if it is not paused."""
    entry = {"act": "resume", "by": by, "why": why, "at": now.isoformat()}
    return str(await db.execute(SQL["unpause"], series, [entry])) == "UPDATE 1"


async def taxonomy_of(db: Db, taxonomy: TaxonomyId) -> Taxonomy:
    """Return one version of a taxonomy."""
    row = await db.fetchrow(SQL["taxonomy_of"], taxonomy)
    if row is None:
        raise PermanentError(f"there is no taxonomy {taxonomy}")
    return Taxonomy(TaxonomyId(row["id"]), row["name"], row["version"], read_classes(row["classes"]))


async def experiment_of(db: Db, series: SeriesId) -> dict[str, Any] | None:
    """Return a series' last experiment as its row keeps it."""
    found: dict[str, Any] | None = await db.fetchval(SQL["experiment_of"], series)
    return found


async def save_experiment(db: Db, series: SeriesId, experiment: dict[str, Any]) -> None:
    """Keep how far an experiment is."""
    await db.execute(SQL["save_experiment"], series, experiment)
