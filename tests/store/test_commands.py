"""What persons ask of a slot: in which order it is done, who is called for it, and who was told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.ids import InjectionId, new_id
from yume.store import dreams, effects
from yume.store.effects import Call

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)
SHA256 = "ef" * 32
KINDS = ["rollback", "kill", "adopted", "experiment"]


async def _waiting(db, series):
    return [each.id for each in await effects.commands_of(db, series.id)]


async def _called(db, asked_before):
    return [call.command for call in await effects.to_announce(db, asked_before)]


async def _untold(db, series):
    return [each.id for each in await effects.untold_commands(db, series.id)]


# What is to be done


async def test_commands_are_done_oldest_first_and_what_ended_dreams_have_left_after_them(
    db, rows, series, now
):
    ended = [await rows.dream(series, status) for status in ("finished", "failed", "cancelled")]
    later = await rows.injection(series, None, kind="kill", now=now + MINUTE)
    first = await rows.injection(series, None, kind="adopted", now=now)
    left = [
        await rows.injection(series, None, dream=each, now=now - minutes * MINUTE)
        for minutes, each in zip((3, 2, 1), ended, strict=True)
    ]
    assert await _waiting(db, series) == [first, later, *left]
    assert await _waiting(db, await rows.series("another")) == []


async def test_commands_of_every_kind_that_were_asked_at_one_instant_have_an_order(db, rows, series):
    made = [await rows.injection(series, None, kind=kind) for kind in KINDS]
    assert await _waiting(db, series) == sorted(made)


async def test_what_an_ended_dream_has_left_may_be_under_way_as_long_as_its_worker_had_the_lease(
    db, rows, series, dream, now
):
    await rows.injection(series, None, dream=dream)
    holder = new_id()
    assert await dreams.take_lease(db, dream, holder, now=now, until=now + MINUTE)
    await dreams.cancel(db, dream, "rollback by person:ada", now)
    (left,) = await effects.commands_of(db, series.id)
    assert left.held_until == now + MINUTE


async def test_what_an_ended_dream_has_left_is_free_where_its_worker_gave_the_lease_back(
    db, rows, series, dream, now
):
    await rows.injection(series, None, dream=dream)
    holder = new_id()
    await dreams.take_lease(db, dream, holder, now=now, until=now + MINUTE)
    await dreams.give_lease_back(db, dream, holder)
    await dreams.fail(db, dream, "no answer", now)
    (left,) = await effects.commands_of(db, series.id)
    assert left.held_until is None


async def test_a_set_is_known_by_the_version_under_which_it_last_stood_in_the_slot(db, rows, series, now):
    old, new, never = [await rows.lesson_set(series, None, version) for version in (1, 2, 3)]
    for minutes, (version, lesson_set) in enumerate([("5", old), ("6", new), ("7", old)]):
        injection = await rows.injection(series, lesson_set)
        await effects.written(db, series.id, injection, version, now + minutes * MINUTE)
    await effects.refused(db, await rows.injection(series, never), "failed", "no answer")
    found = [await effects.version_of_set(db, series.id, each) for each in (old, new, never)]
    assert found == ["7", "6", None]
    assert await effects.version_of_set(db, (await rows.series("another")).id, old) is None


@pytest.mark.parametrize("status", ["running", "parked"])
async def test_the_write_of_a_dream_that_has_not_ended_is_its_own(db, rows, series, status):
    await rows.injection(series, None, dream=await rows.dream(series, status))
    assert await _waiting(db, series) == []
    assert await _called(db, rows.now + MINUTE) == []


async def test_what_was_dealt_with_is_not_done_again(db, rows, series, now):
    done, refused = [await rows.injection(series, None) for _ in range(2)]
    await effects.written(db, series.id, done, "5", now)
    await effects.refused(db, refused, "conflict", "slot holds foreign text")
    assert await _waiting(db, series) == []


async def test_a_command_is_read_as_it_was_asked_and_as_it_was_done(db, rows, series, now):
    target, found_set = [await rows.lesson_set(series, None, version) for version in (1, 2)]
    command = InjectionId(new_id())
    await effects.request(
        *(db, command, series.id, target),
        kind="adopted",
        status="pending",
        expected_version="4",
        by="person:ada",
        why="it is ours",
        text_sha256=SHA256,
        now=now,
    )
    (asked,) = await effects.commands_of(db, series.id)
    assert (asked.series_id, asked.lesson_set_id, asked.kind, asked.status) == (
        *(series.id, target, "adopted", "pending"),
    )
    assert (asked.expected_version, asked.text_sha256, asked.by, asked.why) == (
        *("4", SHA256, "person:ada", "it is ours"),
    )
    assert (asked.requested_at, asked.written_at, asked.how, asked.error) == (now, None, None, None)
    await effects.written(db, series.id, command, "5", now + MINUTE, how="current", lesson_set=found_set)
    done = await effects.command_of(db, command)
    assert (done.status, done.platform_version, done.written_at, done.how) == (
        *("written", "5", now + MINUTE, "current"),
    )
    assert (done.lesson_set_id, done.text_sha256) == (found_set, SHA256)
    assert await effects.command_of(db, InjectionId(new_id())) is None


async def test_what_a_look_finds_is_noted_once_and_changes_nothing_in_the_slot(db, rows, series, now):
    look = await rows.injection(series, None, kind="adopted")
    await effects.saw(db, look, version="7", text_sha256=SHA256, what="three rules")
    await effects.saw(db, look, version="8", text_sha256="aa" * 32, what="another text")
    found = await effects.command_of(db, look)
    assert (found.status, found.platform_version, found.text_sha256, found.error) == (
        *("withheld", "7", SHA256, "three rules"),
    )
    assert (found.written_at, await effects.in_slot(db, series.id)) == (None, None)
    assert await _untold(db, series) == [look]


async def test_the_writes_of_a_slot_are_listed_newest_first_with_their_sets(db, rows, series, now):
    rule = await rows.lesson(series, origin="owner", state="approved")
    lesson_set = await rows.lesson_set(series, None, 3, holds=(rule,))
    written = await rows.injection(series, lesson_set, kind="write")
    await effects.written(db, series.id, written, "5", now + 2 * MINUTE)
    asked = await rows.injection(series, None, now=now + 3 * MINUTE)
    refused = await rows.injection(series, None, now=now + MINUTE)
    await effects.refused(db, refused, "failed", "no answer")
    await rows.injection(await rows.series("another"), None)
    listed = await effects.slot_writes(db, series.id)
    assert [(row["id"], row["version"], row["lessons"], row["error"]) for row in listed] == [
        (asked, None, None, None),
        (written, 3, 1, None),
        (refused, None, None, "no answer"),
    ]


# Who is called, and who was told


@pytest.mark.parametrize("kind", KINDS)
async def test_a_command_is_called_for_until_it_is_dealt_with_and_told(db, rows, series, now, kind):
    command = await rows.injection(series, None, kind=kind)
    call = Call(command, "tobatsu", "kamila", now)
    assert await effects.to_announce(db, now) == [call]  # nobody has heard of it
    await effects.mark_requested(db, command)
    assert await effects.to_announce(db, now) == []
    assert await effects.to_announce(db, now + INSTANT) == [call]  # it was left for long
    await effects.refused(db, command, "failed", "no answer")
    assert await effects.to_announce(db, now) == [call]  # nobody was told
    assert await _untold(db, series) == [command]
    await effects.mark_told(db, command)
    assert await effects.to_announce(db, now + MINUTE) == []
    assert await _untold(db, series) == []


async def test_the_write_that_an_ended_dream_has_left_is_called_for_until_it_is_settled(
    db, rows, series, dream, now
):
    left = await rows.injection(series, None, dream=dream)
    assert await _called(db, now) == []
    await dreams.cancel(db, dream, "rollback by person:ada", now)
    await effects.mark_requested(db, left)
    assert await _called(db, now) == [left]
    await effects.refused(db, left, "failed", "its dream ended before the slot was written")
    assert await _called(db, now + MINUTE) == []
    assert await _untold(db, series) == []  # its dream's ending tells of it


async def test_calls_come_by_age_over_all_series(db, rows, series, now):
    other = await rows.series("another")
    young = await rows.injection(series, None, now=now + MINUTE)
    old = await rows.injection(other, None, now=now)
    assert [(call.command, call.series) for call in await effects.to_announce(db, now)] == [
        *((old, "another"), (young, "kamila")),
    ]


async def test_a_call_that_is_noted_late_does_not_count_as_the_telling(db, rows, series, now):
    command = await rows.injection(series, None)
    await effects.written(db, series.id, command, "5", now)  # carried out before the note came
    await effects.mark_requested(db, command)
    assert await _untold(db, series) == [command]


async def test_what_is_not_dealt_with_cannot_count_as_told(db, rows, series, now):
    command = await rows.injection(series, None)
    await effects.mark_told(db, command)
    assert await _called(db, now) == [command]


async def test_what_is_told_comes_oldest_first(db, rows, series, now):
    young, old = [await rows.injection(series, None, now=now + later * MINUTE) for later in (1, 0)]
    for each in (young, old):
        await effects.refused(db, each, "failed", "no answer")
    assert await _untold(db, series) == [old, young]
    assert await _untold(db, await rows.series("another")) == []
