from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from yume.domain.lessons import Draft, Quote
from yume.domain.projection import LeftOut
from yume.domain.rounds import Compiled
from yume.ids import LessonId, LessonSetId, new_id
from yume.store import lessons


@pytest.fixture
def draft(signal):
    return Draft(
        id=LessonId(new_id()),
        symptom="the copy is short",
        root_cause="head cuts it",
        rule='Use `cat`, not "head".',
        category="wrong_result",
        scope="copying",
        evidence=(signal,),
        quotes=(Quote(signal, 'boom "夢" \\'),),
        trust="exit_code",
        confidence=0.7,
        fingerprints=("f1", "f2"),
        advice="warning",
    )


@pytest.fixture
def stage(db, series, dream, now):
    async def staged(*drafts: Draft, at=now) -> None:
        await lessons.add_drafts(
            *(db, series.id, dream, drafts), origin="dream", written_by="rules:1", now=at
        )

    return staged


@pytest.fixture
def stand(db, now):
    async def moved(lesson: LessonId, source, target) -> bool:
        return await lessons.move(db, lesson, source, target, by="yume:s6_gate", why="add", now=now)

    return moved


async def _staged(db, series) -> list[Draft]:
    waiting = [each.id for each in await lessons.lessons_in(db, series.id, "draft")]
    return list((await lessons.drafts_by_id(db, series.id, waiting)).values())


async def test_a_draft_is_read_as_it_was_staged(db, series, dream, draft, stage):
    await stage(draft)
    assert await _staged(db, series) == [draft]
    assert await db.fetchval("SELECT dream_id FROM yume.lessons") == dream


async def test_a_draft_is_the_first_revision_of_a_lineage_of_its_own(db, series, draft, stage, now):
    await stage(draft)
    (lesson,) = await lessons.lessons_in(db, series.id, "draft")
    assert (lesson.id, lesson.lineage_id, lesson.revision, lesson.origin) == (draft.id, draft.id, 1, "dream")
    assert (lesson.rule, lesson.evidence, lesson.quotes) == (draft.rule, draft.evidence, draft.quotes)
    assert (lesson.fingerprints, lesson.trust) == (draft.fingerprints, draft.trust)
    history = await db.fetchval("SELECT history FROM yume.lessons")
    assert history == [
        {"from": None, "to": "draft", "by": "yume:rules:1", "why": "drafted", "at": now.isoformat()}
    ]


async def test_drafts_that_are_staged_twice_are_one_row_each_and_stay(db, series, draft, stage, now):
    other = replace(draft, id=LessonId(new_id()))
    await stage(draft, other)
    await stage(replace(draft, rule="Another."), replace(other, confidence=0.1), at=now + timedelta(hours=1))
    assert await _staged(db, series) == [draft, other]


async def test_a_draft_that_was_decided_on_is_not_staged_anew(db, series, draft, stage, stand):
    await stage(draft)
    await stand(draft.id, "draft", "archived")
    await stage(draft)
    assert await _staged(db, series) == []
    assert [row["state"] for row in await db.fetch("SELECT state FROM yume.lessons")] == ["archived"]


async def test_one_draft_that_breaks_a_rule_lets_none_in(db, draft, stage):
    with pytest.raises(asyncpg.IntegrityConstraintViolationError):
        await stage(draft, replace(draft, id=LessonId(new_id()), evidence=()))
    with pytest.raises(asyncpg.CheckViolationError):
        await stage(draft, replace(draft, id=LessonId(new_id()), rule="x" * 301))
    assert await db.fetchval("SELECT count(*) FROM yume.lessons") == 0


async def test_no_draft_at_all_is_no_error(db, stage):
    await stage()
    assert await db.fetchval("SELECT count(*) FROM yume.lessons") == 0


async def test_a_lesson_moves_from_the_state_that_it_was_seen_in(db, series, draft, stage, stand):
    await stage(draft)
    assert await stand(draft.id, "draft", "approved")
    assert not await stand(draft.id, "draft", "archived")
    assert [each.state for each in await lessons.lessons_in(db, series.id, "approved", "archived")] == [
        "approved"
    ]
    history = await db.fetchval("SELECT history FROM yume.lessons")
    assert [(entry["from"], entry["to"], entry["by"]) for entry in history] == [
        (None, "draft", "yume:rules:1"),
        ("draft", "approved", "yume:s6_gate"),
    ]


async def test_lessons_are_found_in_the_states_asked_for_and_the_series_alone(db, rows, series, draft, stage):
    await stage(draft)
    assert await lessons.lessons_in(db, series.id, "approved", "archived") == []
    assert await lessons.lessons_in(db, series.id) == []
    other = await rows.series("another")
    assert await lessons.lessons_in(db, other.id, "draft") == []
    assert await lessons.lessons_by_id(db, other.id, [draft.id]) == {}
    assert list(await lessons.lessons_by_id(db, series.id, [draft.id, LessonId(new_id())])) == [draft.id]


async def test_a_lesson_is_read_as_it_was_drafted_whatever_its_state(rows, series, draft, stage, stand):
    await stage(draft)
    await stand(draft.id, "draft", "approved")
    owners = await rows.lesson(series, origin="owner", state="approved")
    assert await lessons.drafts_by_id(rows.db, series.id, [draft.id, owners]) == {draft.id: draft}


# Lesson sets


@pytest.fixture
def add_set(db, series, dream, draft, now):
    async def added(
        version: int, *, name: LessonSetId | None = None, parent=None, text="text"
    ) -> LessonSetId:
        name = name or LessonSetId(new_id())
        body, sha = "- a\n", f"{version:064x}"
        left_out = (LeftOut(draft.id, "budget"),)
        compiled = Compiled(version, body, sha, text, sha, 12, (draft.id,), left_out)
        await lessons.add_set(
            *(db, name, series.id, compiled),
            parent=parent,
            gate={"decisions": []},
            dream=dream,
            now=now,
        )
        return name

    return added


async def test_the_newest_set_is_that_of_the_highest_version(db, rows, series, add_set):
    assert await lessons.newest_set(db, series.id) is None
    for version in (1, 10, 9):
        await add_set(version)
    assert (await lessons.newest_set(db, series.id)).version == 10
    assert await lessons.newest_set(db, (await rows.series("another")).id) is None


async def test_a_set_is_read_as_it_was_compiled(db, series, dream, draft, add_set):
    name = await add_set(1, text="the whole text 夢\n")
    found = await lessons.set_by_id(db, name)
    assert (found.id, found.version, found.lesson_ids, found.tokens) == (name, 1, [draft.id], 12)
    assert (found.body, found.text, found.dream_id) == ("- a\n", "the whole text 夢\n", dream)
    row = await db.fetchrow("SELECT left_out, gate, token_counter FROM yume.lesson_sets")
    assert row["left_out"] == [{"lesson_id": str(draft.id), "why": "budget"}]
    assert (row["gate"], row["token_counter"]) == ({"decisions": []}, "yume-1")


async def test_a_set_that_is_added_twice_is_one_row_and_stays(db, add_set):
    name = await add_set(1)
    await add_set(1, name=name, text="another text")
    assert (await lessons.set_by_id(db, name)).text == "text"
    assert await db.fetchval("SELECT count(*) FROM yume.lesson_sets") == 1


async def test_one_version_of_a_series_is_one_set(add_set):
    await add_set(1)
    with pytest.raises(asyncpg.UniqueViolationError):
        await add_set(1)


async def test_a_set_knows_what_it_was_compiled_after(db, add_set):
    first = await add_set(1)
    second = await add_set(2, parent=first)
    parents = await db.fetch("SELECT id, parent_id FROM yume.lesson_sets ORDER BY version")
    assert [tuple(row) for row in parents] == [(first, None), (second, first)]


async def test_yume_knows_its_own_text_by_the_hash(db, rows, series, add_set):
    await add_set(1)
    second = await add_set(2)
    assert (await lessons.set_with_text(db, series.id, f"{2:064x}")).id == second
    assert await lessons.set_with_text(db, series.id, f"{3:064x}") is None
    assert await lessons.set_with_text(db, (await rows.series("another")).id, f"{2:064x}") is None
