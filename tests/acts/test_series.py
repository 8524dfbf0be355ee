"""A series' policy is what a person set and nothing else, within what the tables allow, on the record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from yume.acts.series import Change, add, change, pause, resume, shown
from yume.domain.schedule import Schedule
from yume.errors import PermanentError
from yume.store import access, batches, effects

WHERE = ("tobatsu", "kamila")
ACT = {"by": "cli:ada", "why": "a test"}
NIGHTLY = Schedule("0 3 * * *", "Asia/Shanghai")
COLUMNS = """batch_max_runs, batch_max_wait, schedule, projection_budget_tokens, language, instructions, mode,
             boundary, paused_at"""
AS_MADE = (40, timedelta(hours=24), None, 1500, "en", "", "report_only", "always_valid", None)


async def policy(db, series="kamila"):
    return tuple(await db.fetchrow(f"SELECT {COLUMNS} FROM yume.series WHERE external_id = $1", series))


async def acts(db):
    return [dict(each) for each in await db.fetchval("SELECT promotions FROM yume.series")]


async def test_a_series_is_added_with_its_policy_and_only_reports(db, series, resources):
    wanted = Change(batch_max_runs=7, batch_max_wait=timedelta(hours=6), schedule=NIGHTLY, language="zh")
    made, new = await add("tobatsu", "mirai", wanted, resources, **ACT)
    assert (made.external_id, made.mode, new) == ("mirai", "report_only", True)
    assert await policy(db, "mirai") == (
        *(7, timedelta(hours=6), NIGHTLY.to_json(), 1500, "zh", "", "report_only", "always_valid", None),
    )
    assert await policy(db) == AS_MADE


async def test_adding_a_known_series_changes_what_is_given_and_leaves_its_mode(db, series, resources, now):
    await access.promote(db, series, "auto", by="ada", why="it is good", now=now)
    _, new = await add(*WHERE, Change(budget_tokens=50), resources, **ACT)
    assert not new
    assert await policy(db) == (40, timedelta(hours=24), None, 50, "en", "", "auto", "always_valid", None)


async def test_a_series_of_an_unknown_platform_and_one_without_a_name_are_refused(series, resources):
    with pytest.raises(PermanentError, match="platform 'nobody' is not known"):
        await add("nobody", "kamila", Change(), resources, **ACT)
    for name in ("", "x" * 513):
        with pytest.raises(PermanentError, match=f"1 to 512 characters, this one {len(name)}"):
            await add("tobatsu", name, Change(), resources, **ACT)


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ({"batch_max_runs": 10_000}, 0),
        ({"batch_max_wait": timedelta(seconds=1)}, 1),
        ({"batch_max_wait": timedelta(days=366)}, 1),
        ({"schedule": NIGHTLY}, 2),
        ({"budget_tokens": 100_000}, 3),
        ({"language": "zh"}, 4),
        ({"instructions": "x" * 4096}, 5),
        ({"boundary": "pocock"}, 7),
    ],
)
async def test_only_what_is_given_changes_and_the_row_says_by_whom(db, series, resources, wanted, place):
    (value,) = [each.to_json() if each is NIGHTLY else each for each in wanted.values()]
    await change(*WHERE, Change(**wanted), resources, **ACT)
    assert await policy(db) == (*AS_MADE[:place], value, *AS_MADE[place + 1 :])
    (entry,) = await acts(db)
    assert entry | ACT == entry
    assert (entry["act"], len(entry["changed"]), entry["at"]) == ("set", 1, resources.now().isoformat())


async def test_a_change_of_nothing_leaves_no_record(db, series, resources):
    await change(*WHERE, Change(), resources, **ACT)
    assert (await policy(db), await acts(db)) == (AS_MADE, [])


async def test_a_schedule_goes_only_where_that_is_said(db, series, resources):
    await change(*WHERE, Change(schedule=NIGHTLY), resources, **ACT)
    await change(*WHERE, Change(batch_max_runs=3), resources, **ACT)
    assert (await policy(db))[2] == NIGHTLY.to_json()
    await change(*WHERE, Change(no_schedule=True), resources, **ACT)
    assert (await policy(db))[2] is None
    assert (await acts(db))[-1]["changed"] == {"schedule": None}


async def test_a_boundary_is_set_and_set_back_and_any_other_change_leaves_it(db, series, resources):
    for wanted in ({"boundary": "pocock"}, {"budget_tokens": 50}):
        await change(*WHERE, Change(**wanted), resources, **ACT)
        assert (await shown(*WHERE, resources)).policy["boundary"] == "pocock"
    await change(*WHERE, Change(boundary="always_valid"), resources, **ACT)
    assert (await shown(*WHERE, resources)).policy["boundary"] == "always_valid"
    changed = [each["changed"] for each in await acts(db)]
    assert changed == [{"boundary": "pocock"}, {"projection_budget_tokens": 50}, {"boundary": "always_valid"}]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"batch_max_runs": 0}, "a batch of 0 tasks: 1 to 10000 are allowed"),
        ({"batch_max_runs": 10_001}, "a batch of 10001 tasks: 1 to 10000"),
        ({"batch_max_wait": timedelta(0)}, "a wait of 0:00:00: 1 second to 366 days"),
        ({"batch_max_wait": timedelta(days=367)}, "a wait of 367 days, 0:00:00: 1 second to 366 days"),
        ({"budget_tokens": 49}, "a budget of 49 tokens: 50 to 100000"),
        ({"budget_tokens": 100_001}, "a budget of 100001 tokens: 50 to 100000"),
        ({"instructions": "x" * 4097}, "4097 characters, 4096 are allowed"),
        ({"instructions": "a\0b"}, "a NUL character"),
        ({"schedule": NIGHTLY, "no_schedule": True}, "only one of them"),
        ({"boundary": "bonferroni"}, "a boundary 'bonferroni': always_valid and pocock are allowed"),
    ],
)
def test_what_is_beyond_a_limit_is_refused_with_the_value_and_the_limit(wanted, says):
    with pytest.raises(PermanentError, match=says):
        Change(**wanted)


async def test_the_longest_wait_is_one_that_the_orchestrator_can_reckon_with(
    db, series, rows, resources, now
):
    await change(*WHERE, Change(batch_max_wait=timedelta(days=366)), resources, **ACT)
    await rows.dream(series, "collecting")
    assert await batches.overdue_batches(db, now) == []
    assert await batches.to_look_at(db, now) == []


async def test_a_paused_series_starts_no_dream_until_it_is_resumed(db, series, rows, resources, now):
    await rows.dream(series, "queued")
    assert await pause(*WHERE, resources, **ACT)
    assert not await pause(*WHERE, resources, **ACT)
    assert (await policy(db))[-1] == now
    assert await batches.start_next(db, series.id, now) is None
    assert await resume(*WHERE, resources, **ACT)
    assert not await resume(*WHERE, resources, **ACT)
    assert await batches.start_next(db, series.id, now) is not None
    assert [each["act"] for each in await acts(db)] == ["pause", "resume"]
    assert all(each | ACT == each for each in await acts(db))


async def test_a_series_is_shown_with_all_that_concerns_it(db, series, rows, resources, now):
    await change(*WHERE, Change(schedule=NIGHTLY), resources, **ACT)
    await access.promote(db, series, "auto", by="ada", why="it is good", now=now)
    await pause(*WHERE, resources, by="ben", why="holidays")
    held = await rows.lesson(series, origin="owner", state="approved")
    await rows.lesson(series, origin="owner", state="approved")
    lesson_set = await rows.lesson_set(series, None, 3, holds=(held,))
    write = await rows.injection(series, lesson_set)
    await effects.written(db, series.id, write, "9", now, how="restored")
    for _ in range(7):
        await rows.dream(series, "cancelled")
    seen = await shown(*WHERE, resources)
    assert seen.next_tick == datetime(2026, 5, 1, 19, tzinfo=UTC)
    assert (seen.mode_set.what, seen.mode_set.by, seen.mode_set.why) == ("auto", "ada", "it is good")
    assert (seen.paused.by, seen.paused.why) == ("ben", "holidays")
    assert (seen.now.slot.version, seen.now.slot.platform_version, seen.now.slot.how) == (3, "9", "restored")
    assert [each["number"] for each in seen.dreams] == [7, 6, 5, 4, 3]
    assert len(seen.waiting) == 1
    assert seen.policy["schedule"] == NIGHTLY.to_json()


async def test_a_series_as_it_was_made_has_no_acts_to_show(series, resources):
    seen = await shown(*WHERE, resources)
    assert (seen.next_tick, seen.mode_set, seen.paused, seen.now.slot) == (None, None, None, None)
    assert (list(seen.dreams), list(seen.waiting)) == ([], [])


@pytest.mark.parametrize("act", [pause, resume])
async def test_an_act_on_a_series_that_is_not_known_is_refused(series, resources, act):
    with pytest.raises(PermanentError, match="has no series 'nobody'"):
        await act("tobatsu", "nobody", resources, **ACT)
