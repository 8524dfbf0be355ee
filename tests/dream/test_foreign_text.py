"""A text in the slot that Yume did not write: left alone by every command, until a person adopts it."""

from __future__ import annotations

import hashlib

import pytest

from yume.acts import series as known
from yume.acts import slot
from yume.errors import PermanentError

WHERE = ("practice", "kamila")
FIRST = "Always ask before you delete anything."
SECOND = "Write numbers with a point, not a comma."
FOREIGN = f"# House rules\n\n- {FIRST}\n* {SECOND}\n"
LATER = "Never mind the house rules.\n"
WHY = "slot holds foreign text"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def look(world):
    return await world.done(await slot.look(*WHERE, world.resources, by="a person"))


async def adopt(world, text: str):
    asked = await slot.adopt(*WHERE, digest(text), world.resources, by="a person", why="they are ours")
    return await world.done(asked)


async def rules(world, state: str = "approved") -> dict[str, str]:
    rows = await world.rows("SELECT rule, origin FROM yume.lessons WHERE state = $1", state)
    return {row["rule"]: row["origin"] for row in rows}


@pytest.mark.parametrize("kind", ["rollback", "kill", "kill_all"])
async def test_a_command_leaves_it_alone_and_the_series_only_reports_from_then_on(auto, kind):
    await auto.dream(10)
    await auto.add_owners_rule(FIRST)
    await auto.release()
    before = await rules(auto)
    auto.write_slot(FOREIGN)
    done = await (auto.rollback(1) if kind == "rollback" else auto.kill(everything=kind == "kill_all"))
    assert (done.status, done.error) == ("conflict", WHY)
    assert (auto.slot().text, auto.slot().version) == (FOREIGN, 3)
    assert await rules(auto) == before
    ((mode, why, promotions),) = await auto.rows("SELECT mode, mode_reason, promotions FROM yume.series")
    because = WHY if kind == "rollback" else "kill: a test"  # a kill stops the writing when it is asked for
    assert (mode, why) == ("report_only", because)
    assert (promotions[-1]["to"], promotions[-1]["why"]) == ("report_only", because)
    (conflict,) = await auto.told("slot.conflict")
    reviews = [each for each in await auto.told("review.requested") if each.data["kind"] == "slot"]
    assert (conflict.data["by"], len(reviews)) == ("a person", 1)
    assert not await auto.told("slot.rolled_back")
    kept = await auto.resources.archive.get(f"slots/practice/kamila/{digest(FOREIGN)}.txt")
    assert kept.decode() == FOREIGN
    await auto.dream(4)
    assert auto.slot().text == FOREIGN
    await auto.check_oracle()


async def test_a_look_shows_it_and_changes_nothing(auto):
    auto.write_slot(FOREIGN)
    seen = await look(auto)
    assert (seen.status, seen.text_sha256, seen.platform_version) == ("withheld", digest(FOREIGN), "1")
    async with auto.resources.db.acquire() as db:
        series = await known.find(db, *WHERE)
    assert await slot.shown_text(series, digest(FOREIGN), auto.resources) == FOREIGN
    assert await auto.value("SELECT mode FROM yume.series") == "auto"
    assert await rules(auto) == {}
    assert await auto.told("slot.conflict") == []


async def test_there_is_nothing_to_adopt_in_an_empty_slot_or_in_one_that_holds_yumes_own_text(auto):
    seen = await look(auto)
    assert (seen.status, seen.error) == ("failed", "the slot is empty: there is nothing to adopt")
    await auto.dream(10)
    seen = await look(auto)
    assert (seen.status, seen.error) == (
        "failed",
        "the slot holds a text that Yume wrote or that was adopted: there is nothing to adopt",
    )
    with pytest.raises(PermanentError, match="no look has found a text with sha256"):
        await adopt(auto, auto.slot().text)


async def test_what_is_adopted_becomes_owners_rules_and_version_1_without_a_slot_write(auto):
    auto.write_slot(FOREIGN)
    await look(auto)
    writes: list[str] = []
    auto.on_write(lambda write, body: (writes.append("written"), write())[1])
    done = await adopt(auto, FOREIGN)
    assert (done.status, done.kind, done.how, done.platform_version) == ("written", "adopted", "current", "1")
    assert (writes, auto.slot().text, auto.slot().version) == ([], FOREIGN, 1)
    assert await rules(auto) == {FIRST: "owner", SECOND: "owner"}
    ((version, text, body),) = await auto.rows("SELECT version, text, body FROM yume.lesson_sets")
    assert (version, text, body) == (1, FOREIGN, f"- {FIRST}\n- {SECOND}\n")
    (told,) = await auto.told("lesson.published")
    assert (told.data["text"], told.data["how"], told.data["platform_version"]) == (FOREIGN, "adopted", "1")
    assert not await auto.told("slot.rolled_back")

    row = await auto.dream(10)
    assert (row["result"], auto.slot().version) == ("published", 2)
    assert all(f"- {rule}\n" in auto.slot().text for rule in (FIRST, SECOND))
    assert row["base_lesson_set_id"] == await auto.value("SELECT id FROM yume.lesson_sets WHERE version = 1")
    assert "owner" not in await rules(auto, "retired")
    await auto.check_oracle()


async def test_one_may_go_back_to_what_was_adopted_and_it_stands_there_byte_for_byte(auto):
    auto.write_slot(FOREIGN)
    await look(auto)
    await adopt(auto, FOREIGN)
    await auto.dream(10)
    done = await auto.rollback()
    assert (done.status, done.platform_version, auto.slot().text) == ("written", "3", FOREIGN)
    assert await rules(auto) == {FIRST: "owner", SECOND: "owner"}


async def test_a_dream_without_anything_new_leaves_the_adopted_text_as_it_is(open_world, spotless):
    async with open_world(habits=spotless) as world:
        await world.promote()
        world.write_slot(FOREIGN)
        await look(world)
        await adopt(world, FOREIGN)
        assert (await world.dream(4))["result"] == "no_signal"
        assert (world.slot().text, world.slot().version) == (FOREIGN, 1)


async def test_what_was_adopted_is_not_adopted_twice(auto):
    auto.write_slot(FOREIGN)
    await look(auto)
    await adopt(auto, FOREIGN)
    again = await adopt(auto, FOREIGN)
    assert again.status == "failed"
    assert "or that was adopted: there is nothing to adopt" in again.error
    assert await rules(auto) == {FIRST: "owner", SECOND: "owner"}
    assert await auto.stored("dead") == []


async def test_a_text_that_changed_after_the_look_is_not_adopted(auto):
    auto.write_slot(FOREIGN)
    await look(auto)
    auto.write_slot(LATER)
    done = await adopt(auto, FOREIGN)
    assert (done.status, done.error) == ("conflict", WHY)
    assert (auto.slot().text, auto.slot().version) == (LATER, 2)
    assert await rules(auto) == {}
    assert await auto.value("SELECT mode FROM yume.series") == "report_only"
    assert await auto.value("SELECT count(*) FROM yume.lesson_sets") == 0
    assert len(await auto.told("slot.conflict")) == 1
    seen = await look(auto)
    assert seen.text_sha256 == digest(LATER)
    assert (await adopt(auto, LATER)).status == "written"


async def test_what_cannot_be_rules_is_refused_before_it_is_asked_for(auto):
    auto.write_slot("A word with a hidden\u202e turn.\n")
    await look(auto)
    with pytest.raises(PermanentError, match="edit it first: line 1 holds"):
        await adopt(auto, auto.slot().text)
    assert await auto.value("SELECT count(*) FROM yume.injections WHERE status = 'pending'") == 0
