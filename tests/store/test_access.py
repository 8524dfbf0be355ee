from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from yume.domain.runs import Capabilities
from yume.errors import PermanentError
from yume.ids import PlatformId, TaxonomyId, new_id
from yume.store import access
from yume.store.access import Platform

TOBATSU = Platform(PlatformId("tobatsu"), "https://one.example", b"export", b"slot", {})


async def test_a_platform_is_read_as_it_was_added(db):
    await access.add_platform(db, TOBATSU)
    assert await access.platform_of(db, "tobatsu") == TOBATSU


async def test_a_known_platform_gets_its_new_address_and_credentials(db):
    await access.add_platform(db, TOBATSU)
    changed = replace(TOBATSU, base_url="https://two.example", slot_credential=b"another")
    await access.add_platform(db, changed)
    assert await access.platform_of(db, "tobatsu") == changed
    assert len(await access.platforms(db)) == 1


async def test_a_platforms_credentials_are_in_no_text(db):
    await access.add_platform(
        db, replace(TOBATSU, export_credential=b"sealed-1", slot_credential=b"sealed-2")
    )
    shown = f"{await access.platform_of(db, 'tobatsu')!r} {[dict(row) for row in await access.platforms(db)]}"
    assert "tobatsu" in shown
    assert "sealed" not in shown


async def test_a_platform_that_is_unknown_or_switched_off_is_refused(db, now):
    with pytest.raises(PermanentError, match="'nobody' is not known: add it"):
        await access.platform_of(db, "nobody")
    await access.add_platform(db, TOBATSU)
    await db.execute("UPDATE yume.platforms SET disabled_at = $1", now)
    with pytest.raises(PermanentError, match="was switched off at 2026-05-01 12:00Z"):
        await access.platform_of(db, "tobatsu")


async def test_a_platforms_own_words_are_those_it_was_found_to_have(db):
    await access.add_platform(db, TOBATSU)
    assert (await access.platform_of(db, "tobatsu")).words == Capabilities({}, {})
    found = {"statuses": {"done": "succeeded"}, "verifier": {"code": True}}
    await db.execute("UPDATE yume.platforms SET capabilities = $1", found)
    assert (await access.platform_of(db, "tobatsu")).words == Capabilities(
        {"done": "succeeded"}, {"code": True}
    )


async def test_a_new_series_of_a_known_platform_is_made_in_report_only(db):
    await access.add_platform(db, TOBATSU)
    assert await access.find_series(db, "tobatsu", "kamila") is None
    series = await access.series_named(db, "tobatsu", "kamila")
    assert (series.mode, series.batch_max_runs, series.projection_budget_tokens) == ("report_only", 40, 1500)
    newest = await db.fetchval("SELECT id FROM yume.taxonomies ORDER BY version DESC LIMIT 1")
    assert series.taxonomy_id == newest
    assert await access.series_named(db, "tobatsu", "kamila") == series
    assert await access.find_series(db, "tobatsu", "kamila") == series


async def test_a_series_of_an_unknown_platform_is_refused_and_not_made(db):
    with pytest.raises(PermanentError, match="'nobody' is not known"):
        await access.series_named(db, "nobody", "kamila")
    assert await db.fetchval("SELECT count(*) FROM yume.series") == 0


async def test_a_series_that_several_announce_at_once_is_one_row(database, db):
    await access.add_platform(db, TOBATSU)

    async def make():
        async with database.acquire() as own:
            return await access.series_named(own, "tobatsu", "kamila")

    made = await asyncio.gather(make(), make(), make())
    assert len({series.id for series in made}) == 1


async def test_a_promotion_says_who_changed_what_why_and_when(db, series, now):
    assert await access.promote(db, series, "gated", by="person:ada", why="four clean weeks", now=now)
    assert (await access.find_series(db, "tobatsu", "kamila")).mode == "gated"
    assert await db.fetchval("SELECT promotions FROM yume.series") == [
        {
            "from": "report_only",
            "to": "gated",
            "by": "person:ada",
            "why": "four clean weeks",
            "at": now.isoformat(),
        }
    ]


async def test_a_promotion_to_the_same_mode_is_none(db, series, now):
    assert not await access.promote(db, series, "report_only", by="person:ada", why="again", now=now)
    assert await db.fetchval("SELECT promotions FROM yume.series") == []


async def test_a_demotion_says_from_what_by_whom_why_and_when_and_happens_once(db, rows, series, now):
    other = await rows.series("another")
    for each in (series, other):
        await access.promote(db, each, "auto", by="person:ada", why="four clean weeks", now=now)
    told = {"by": "person:bob", "why": "kill: it makes things worse", "now": now}
    assert await access.demote(db, series.id, **told)
    assert not await access.demote(db, series.id, **told)
    row = await db.fetchrow("SELECT * FROM yume.series WHERE id = $1", series.id)
    assert (row["mode"], row["mode_reason"]) == ("report_only", "kill: it makes things worse")
    assert row["promotions"][1:] == [
        {
            "from": "auto",
            "to": "report_only",
            "by": "person:bob",
            "why": "kill: it makes things worse",
            "at": now.isoformat(),
        }
    ]
    assert (await access.find_series(db, "tobatsu", "another")).mode == "auto"


async def test_a_series_that_only_reports_cannot_be_demoted(db, series, now):
    assert not await access.demote(db, series.id, by="person:ada", why="again", now=now)
    assert await db.fetchval("SELECT promotions FROM yume.series") == []


async def test_every_version_of_the_taxonomy_can_be_read(db):
    for row in await db.fetch("SELECT id, version, classes FROM yume.taxonomies"):
        taxonomy = await access.taxonomy_of(db, TaxonomyId(row["id"]))
        assert (taxonomy.name, taxonomy.version) == ("yume", row["version"])
        assert [each.code for each in taxonomy.classes] == [each["code"] for each in row["classes"]]


async def test_a_taxonomy_that_does_not_exist_is_refused(db):
    with pytest.raises(PermanentError, match="there is no taxonomy"):
        await access.taxonomy_of(db, TaxonomyId(new_id()))
