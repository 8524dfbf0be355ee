"""What a person asks of the slot: to go back, to switch off; whatever a dream is doing meanwhile."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.dream.tasks import ONE_TRAP
from yume import rollback
from yume.acts import dreams, releases
from yume.acts import series as known
from yume.clients.slot import Slot
from yume.errors import PermanentError
from yume.local.practice.problems import ProblemError

WHERE = ("practice", "kamila")
RULE = "Keep the names of the files as they are."
OTHER = "Write numbers with a point and not with a comma."


@pytest.fixture
def one_trap(keen):
    """A platform with one trap, into which everybody falls again whatever the slot says."""
    habits = replace(keen, plain=0.0, obedience=0.0)
    return {"habits": habits, "pitfalls": ONE_TRAP}


@pytest.fixture
def hold_write(monkeypatch, standstill):
    """Have the next slot write of a worker stand still, before it is sent or once it is carried out."""

    def hold(*, after: bool = False):
        still, real = standstill(after=after), Slot.write

        async def write(self, series, **what):
            return await still(partial(real, self), series, **what)

        monkeypatch.setattr(Slot, "write", write)
        return still

    return hold


async def states(world) -> dict[str, str]:
    return {row["rule"]: row["state"] for row in await world.rows("SELECT rule, state FROM yume.lessons")}


async def text_of(world, version: int) -> str:
    return await world.value("SELECT text FROM yume.lesson_sets WHERE version = $1", version)


async def last_move(world, rule: str) -> dict[str, str]:
    history = await world.value("SELECT history FROM yume.lessons WHERE rule = $1", rule)
    return {name: history[-1][name] for name in ("from", "to", "by", "why")}


async def seven_versions(world) -> tuple[str, str]:
    """Fill the slot seven times; the last time one lesson comes and one goes. Return the two rules."""
    await world.dream(10)
    for number in range(5):
        await world.add_owners_rule(f"Look at sheet {number} before the others.")
        await world.release()
    gone = await world.rows("SELECT id, rule FROM yume.lessons WHERE origin = 'dream' AND state = 'approved'")
    await world.move(gone[0]["id"], "approved", "retired")
    await world.add_owners_rule(RULE)
    await world.release()
    return RULE, gone[0]["rule"]


async def test_a_rollback_puts_back_the_old_text_byte_for_byte_and_the_lessons_follow(auto):
    came, went = await seven_versions(auto)
    assert auto.slot().version == 7
    before = await states(auto)
    old, new = await text_of(auto, 6), await text_of(auto, 7)
    assert auto.slot().text == new

    done = await auto.rollback()
    assert (done.status, done.kind, done.platform_version, done.how) == (
        "written",
        "rollback",
        "8",
        "restored",
    )
    assert (auto.slot().text, auto.slot().version, auto.slot().restored_from) == (old, 8, 6)
    after = await states(auto)
    assert {rule: (before[rule], after[rule]) for rule in after if after[rule] != before[rule]} == {
        came: ("approved", "retired"),
        went: ("retired", "approved"),
    }
    assert await last_move(auto, came) == {
        "from": "approved",
        "to": "retired",
        "by": "a person",
        "why": "rolled_back: a test",
    }
    assert (await last_move(auto, went))["to"] == "approved"
    (told,) = await auto.told("slot.rolled_back")
    expected = {"from": "7", "to": "8", "platform_version": "8", "previous_version": "7", "text": old}
    expected |= {"lesson_set_version": 6, "kind": "rollback", "how": "restored", "by": "a person"}
    assert {name: told.data[name] for name in expected} == expected
    await auto.check_oracle()


async def test_after_a_rollback_a_dream_without_new_evidence_writes_nothing_and_a_person_decides(auto):
    await auto.dream(10)
    await auto.add_owners_rule(RULE)
    await auto.release()
    await auto.add_owners_rule(OTHER)  # approved before, and waiting for its release
    await auto.rollback(1)
    held = auto.slot()
    with pytest.raises(PermanentError, match="holds all that is approved"):
        await auto.release()
    for _ in range(2):
        asked = await dreams.start_now(*WHERE, auto.resources, by="a person", why="a test")
        row = await auto.ended(asked.id)
        assert (row["result"], auto.slot()) == ("no_signal", held)
    (rule,) = await auto.rows("SELECT id FROM yume.lessons WHERE rule = $1", RULE)
    await auto.move(rule["id"], "retired", "approved")
    assert (await auto.release())["result"] == "published"
    assert all(rule in auto.slot().text for rule in (RULE, OTHER))
    await auto.check_oracle()


async def test_a_lesson_that_was_rolled_back_comes_again_only_as_a_new_one(open_world, one_trap):
    async with open_world(**one_trap) as world:
        await world.promote()
        await world.add_owners_rule(RULE)
        await world.release()
        first = await world.dream(10)
        assert (first["result"], first["reason"]) == ("held", "dwell")
        await world.release()
        ((old, rule),) = await world.rows(
            "SELECT id, rule FROM yume.lessons WHERE origin = 'dream' AND state = 'approved'"
        )
        assert rule in world.slot().text
        await world.rollback(1)
        assert await world.value("SELECT state FROM yume.lessons WHERE id = $1", old) == "retired"
        assert rule not in world.slot().text
        row = await world.dream(10)
        ((new, again),) = await world.rows(
            "SELECT id, rule FROM yume.lessons WHERE origin = 'dream' AND state = 'approved'"
        )
        assert new != old
        assert row["result"] == "published"
        assert again in world.slot().text
        assert await world.value("SELECT state FROM yume.lessons WHERE id = $1", old) == "retired"
        await world.check_oracle()


async def test_where_the_platform_cannot_restore_the_old_text_is_posted_again(auto):
    await auto.dream(10)
    old = auto.slot().text
    await auto.add_owners_rule(RULE)
    await auto.release()

    def refused(write, body):
        if body.get("restore_version") is not None:
            raise ProblemError(422, "this platform restores nothing")
        return write()

    auto.on_write(refused)
    done = await auto.rollback()
    assert (done.status, done.how, done.platform_version) == ("written", "posted", "3")
    assert (auto.slot().text, auto.slot().restored_from) == (old, None)
    (told,) = await auto.told("slot.rolled_back")
    assert told.data["how"] == "reposted"
    await auto.check_oracle()


@pytest.mark.parametrize("after", [False, True], ids=["before_it_is_sent", "once_it_is_carried_out"])
async def test_a_rollback_wins_over_a_dream_that_is_writing(auto, hold_write, told_soon, after):
    await auto.dream(10)
    await auto.add_owners_rule(RULE)
    await auto.release()
    await auto.add_owners_rule(OTHER)
    old = await text_of(auto, 1)
    still = hold_write(after=after)
    released = await releases.release_now(*WHERE, auto.resources, by="a person", why="a test")
    await still.reached.wait()
    done = await auto.rollback(1)
    assert (done.status, auto.slot().text) == ("written", old)
    still.go.set()
    row = await auto.ended(released)
    assert (row["status"], row["result"]) == ("cancelled", "cancelled")
    assert row["reason"] == "rollback by a person: a test"
    await auto.settled()
    assert auto.slot().text == old
    own = "SELECT status, platform_version FROM yume.injections WHERE dream_id = $1"
    assert tuple((await auto.rows(own, released))[0]) == (("written", "3") if after else ("failed", None))
    assert [each.data["result"] for each in await finished(auto, released)] == ["cancelled"]
    assert len(await auto.told("slot.rolled_back")) == 1
    await auto.check_oracle()


async def finished(world, dream):
    return [each for each in await world.told("dream.finished") if each.data["dream_id"] == str(dream)]


@pytest.mark.parametrize("mode", ["report_only", "gated", "auto"])
async def test_a_kill_leaves_the_owners_rules_alone_in_every_mode(auto, mode):
    await auto.dream(10)
    await auto.add_owners_rule(RULE)
    await auto.release()
    await auto.promote(mode)
    done = await auto.kill()
    assert (done.status, done.kind) == ("written", "kill")
    assert [line for line in auto.slot().text.splitlines() if line.startswith("- ")] == [f"- {RULE}"]
    approved = await auto.rows("SELECT rule FROM yume.lessons WHERE state = 'approved'")
    assert [row["rule"] for row in approved] == [RULE]
    ((now_in, why, promotions),) = await auto.rows("SELECT mode, mode_reason, promotions FROM yume.series")
    assert now_in == "report_only"
    if mode != "report_only":
        assert why == "kill: a test"
        last = promotions[-1]
        assert (last["from"], last["to"], last["by"]) == (mode, "report_only", "a person")
    (told,) = await auto.told("slot.rolled_back")
    assert (told.data["kind"], told.data["text"]) == ("kill", auto.slot().text)
    row = await auto.dream(4)
    assert row["result"] in ("report_only", "no_signal")
    assert auto.slot().version == 3
    await auto.check_oracle()


async def test_a_kill_of_everything_empties_the_slot_and_a_person_brings_a_rule_back(auto):
    await auto.dream(10)
    await auto.add_owners_rule(RULE)
    await auto.release()
    await auto.add_owners_rule(OTHER)  # it waits for its release, and must not come by itself afterwards
    await auto.kill(everything=True)
    assert (auto.slot().text, auto.slot().version) == ("", 3)
    assert await auto.value("SELECT mode FROM yume.series") == "report_only"
    assert set((await states(auto)).values()) <= {"retired", "archived", "draft"}
    assert await last_move(auto, RULE) == {
        "from": "approved",
        "to": "retired",
        "by": "a person",
        "why": "killed: a test",
    }
    await auto.promote()
    await auto.move(
        await auto.value("SELECT id FROM yume.lessons WHERE rule = $1", RULE), "retired", "approved"
    )
    await auto.release()
    assert auto.slot().text.endswith(f"\n\n- {RULE}\n")
    await auto.check_oracle()


async def test_a_kill_of_a_slot_that_was_never_written_changes_no_byte(world):
    await world.promote()
    done = await world.kill()
    assert (done.status, done.how, world.slot().version) == ("written", "current", 0)
    assert await world.value("SELECT mode FROM yume.series") == "report_only"


async def test_there_is_nothing_to_go_back_to_before_the_second_version(auto):
    async with auto.resources.db.acquire() as db:
        series = await known.find(db, *WHERE)
        with pytest.raises(PermanentError, match="was never written"):
            await rollback.plan_rollback(db, series, None)
    await auto.dream(10)
    with pytest.raises(PermanentError, match="v1 is the first version"):
        await auto.rollback()
    with pytest.raises(PermanentError, match="the slot holds v1 already"):
        await auto.rollback(1)
    with pytest.raises(PermanentError, match="never held v9; it held v1"):
        await auto.rollback(9)
