"""Lessons that a person writes, what is put aside, and whether anything moved since."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from yume.ids import LessonId, new_id
from yume.store import lessons

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


@pytest.fixture
def add(db, series, now):
    async def added(rule: str, *, name=None, at=now) -> LessonId:
        name = name or LessonId(new_id())
        told = {"by": "person:ada", "why": "adopted", "now": at}
        await lessons.add_owners_rule(db, name, series.id, rule, **told)
        return name

    return added


@pytest.fixture
def stand(db):
    async def moved(lesson, source, target, at) -> None:
        assert await lessons.move(db, lesson, source, target, by="person:ada", why="a test", now=at)

    return moved


# An owner's rules


async def test_a_persons_own_rule_is_approved_by_being_written(db, series, add, now):
    name = await add("Look first. 夢")
    (lesson,) = await lessons.lessons_in(db, series.id, "approved")
    assert (lesson.id, lesson.lineage_id, lesson.revision) == (name, name, 1)
    assert (lesson.rule, lesson.origin, lesson.trust) == ("Look first. 夢", "owner", None)
    assert list(lesson.evidence) == []
    row = await db.fetchrow("SELECT written_by, dream_id, history FROM yume.lessons")
    assert (row["written_by"], row["dream_id"]) == ("person:ada", None)
    assert row["history"] == [
        {"from": None, "to": "approved", "by": "person:ada", "why": "adopted", "at": now.isoformat()}
    ]


async def test_a_rule_that_is_written_twice_under_one_id_is_one_row_and_stays(db, series, add):
    name = await add("Look first.")
    await add("Something else.", name=name)
    assert [each.rule for each in await lessons.lessons_in(db, series.id, "approved")] == ["Look first."]


async def test_a_rule_that_is_too_long_is_refused(add):
    await add("x" * 300)
    with pytest.raises(asyncpg.CheckViolationError):
        await add("x" * 301)


# What is put aside


async def test_the_drafts_of_a_dream_that_nobody_decided_on_are_put_aside_on_the_record(
    rows, series, dream, signal, stand
):
    open_draft, decided = [await rows.lesson(series, [signal], dream=dream) for _ in range(2)]
    of_nobody = await rows.lesson(series, [signal])
    await stand(decided, "draft", "approved", rows.now)
    for _ in range(2):
        told = {"by": "yume:s6_gate", "why": "a replay shows and releases nothing", "now": rows.now + MINUTE}
        await lessons.archive_drafts(rows.db, dream, **told)
    found = await lessons.lessons_by_id(rows.db, series.id, [open_draft, decided, of_nobody])
    assert [found[each].state for each in (open_draft, decided, of_nobody)] == [
        *("archived", "approved", "draft"),
    ]
    history = await rows.db.fetchval("SELECT history FROM yume.lessons WHERE id = $1", open_draft)
    assert history[1:] == [
        {
            "from": "draft",
            "to": "archived",
            "by": "yume:s6_gate",
            "why": "a replay shows and releases nothing",
            "at": (rows.now + MINUTE).isoformat(),
        }
    ]


# Since when


async def test_a_rule_that_came_to_be_approved_since_is_a_move(db, rows, series, add, now):
    await add("Look first.", at=now + MINUTE)
    since = {"but_at": now + 9 * MINUTE}
    assert await lessons.moved_since(db, series.id, now, **since)
    assert await lessons.moved_since(db, series.id, now + MINUTE - INSTANT, **since)
    assert not await lessons.moved_since(db, series.id, now + MINUTE, **since)
    assert not await lessons.moved_since(db, (await rows.series("another")).id, now, **since)


async def test_a_lesson_that_ceased_to_be_approved_since_is_a_move(db, series, add, stand, now):
    name = await add("Look first.")
    assert not await lessons.moved_since(db, series.id, now, but_at=now)
    await stand(name, "approved", "retired", now + MINUTE)
    assert await lessons.moved_since(db, series.id, now, but_at=now)


async def test_what_moved_with_a_command_itself_is_no_move_beside_it(db, series, add, stand, now):
    name, done = await add("Look first."), now + MINUTE
    await stand(name, "approved", "retired", done)
    assert not await lessons.moved_since(db, series.id, now, but_at=done)
    await stand(name, "retired", "approved", done + INSTANT)
    assert await lessons.moved_since(db, series.id, now, but_at=done)


async def test_what_comes_and_goes_without_being_approved_is_no_move(rows, series, dream, signal, stand):
    draft = await rows.lesson(series, [signal], dream=dream)
    await stand(draft, "draft", "archived", rows.now + MINUTE)
    assert not await lessons.moved_since(rows.db, series.id, rows.now, but_at=rows.now)


# Sets by number


async def test_a_set_is_found_by_the_number_of_its_version_in_its_series(db, rows, series):
    other = await rows.series("another")
    first, second = [await rows.lesson_set(series, None, version) for version in (1, 2)]
    foreign = await rows.lesson_set(other, None, 2)
    found = [await lessons.set_numbered(db, series.id, version) for version in (1, 2, 3)]
    assert [each and each.id for each in found] == [first, second, None]
    assert (await lessons.set_numbered(db, other.id, 2)).id == foreign
