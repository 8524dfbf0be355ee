"""A command is carried out whatever becomes of the call for it: lost, in vain, or in the way of a dream."""

from __future__ import annotations

from datetime import timedelta

import pytest

from yume.acts import slot
from yume.acts.calls import call_at_once
from yume.errors import TransientError
from yume.local.practice import Faults
from yume.local.practice.problems import ProblemError
from yume.stages import s8_commands

WHERE = ("practice", "kamila")
RULE = "Keep the names of the files as they are."


@pytest.fixture
async def deaf(open_world):
    """A world whose slot holds a version, and in which nobody serves S8 and its commands."""
    async with open_world(without=("s8_write",)) as world:
        await world.promote()
        async with world.serving("s8_write"):
            await world.dream(10)
        yield world


async def ask_to_kill(world):
    return await slot.kill(*WHERE, world.resources, everything=False, by="a person", why="a test")


async def calls(world) -> list[str]:
    return [each.id for each in await world.told("slot.requested")]


async def until_called(world, command) -> None:
    await world.until_true("SELECT announced FROM yume.injections WHERE id = $1", command)


async def test_a_kill_stops_the_writing_though_nobody_can_reach_the_slot_yet(deaf):
    command = await ask_to_kill(deaf)
    ((mode, why),) = await deaf.rows("SELECT mode, mode_reason FROM yume.series")
    assert (mode, why) == ("report_only", "kill: a test")
    assert await deaf.value("SELECT status FROM yume.injections WHERE id = $1", command) == "pending"


async def test_a_command_whose_call_got_lost_is_called_for_again_after_a_minute(deaf):
    command = await ask_to_kill(deaf)
    await until_called(deaf, command)
    context = deaf.js.client.jetstream()
    await context.delete_msg("lessons", (await context.stream_info("lessons")).state.last_seq)
    assert await calls(deaf) == []
    async with deaf.serving("s8_write"):
        await deaf.settled()
        assert await deaf.value("SELECT status FROM yume.injections WHERE id = $1", command) == "pending"
        await deaf.rows(
            "UPDATE yume.injections SET requested_at = requested_at - interval '61 seconds' WHERE id = $1",
            command,
        )
        assert (await deaf.done(command)).status == "written"
    assert await calls(deaf) == [f"{command}/requested/1"]
    assert (deaf.slot().text, deaf.slot().version) == ("", 2)
    assert len(await deaf.told("slot.rolled_back")) == 1


async def test_a_command_that_is_done_but_could_not_be_told_is_told_later_and_not_done_again(
    auto, monkeypatch
):
    await auto.dream(10)
    tell, tried = s8_commands.tell, []

    async def without_nats(about, resources, /):
        tried.append(auto.slot().version)
        if len(tried) == 1:
            raise TransientError("nothing can be stored just now", retry_in=timedelta(seconds=0.2))
        return await tell(about, resources)

    monkeypatch.setattr(s8_commands, "tell", without_nats)
    assert (await auto.kill()).status == "written"
    assert tried == [2, 2]
    assert auto.slot().version == 2
    assert len(await auto.told("slot.rolled_back")) == 1


async def test_commands_asked_for_at_once_and_by_the_orchestrator_are_carried_out_once(deaf):
    command = await ask_to_kill(deaf)
    await call_at_once(await deaf.series_id(), deaf.resources, deaf.js)
    await until_called(deaf, command)
    assert await calls(deaf) == [f"{command}/requested/0"]
    async with deaf.serving("s8_write"):
        assert (await deaf.done(command)).status == "written"
    assert deaf.slot().version == 2
    assert len(await deaf.told("slot.rolled_back")) == 1


async def test_two_commands_are_carried_out_in_the_order_in_which_they_were_asked_for(deaf):
    await deaf.add_owners_rule(RULE)
    async with deaf.serving("s8_write"):
        await deaf.release()
    back, _ = await slot.rollback(*WHERE, 1, deaf.resources, by="a person", why="first")
    killed = await ask_to_kill(deaf)
    async with deaf.serving("s8_write"):
        first, second = await deaf.done(back), await deaf.done(killed)
    assert (first.platform_version, second.platform_version) == ("3", "4")
    kinds = [each.data["kind"] for each in await deaf.told("slot.rolled_back")]
    assert kinds == ["rollback", "kill"]


async def test_no_dream_starts_before_a_command_that_waits(deaf):
    command = await ask_to_kill(deaf)
    await deaf.run_batch(4)
    row = await deaf.until_row(2, lambda row: row["status"] != "collecting")
    assert row["status"] == "queued"
    async with deaf.serving("s8_write"):
        done = await deaf.done(command)
        row = await deaf.dreamt(2)
    assert row["started_at"] >= done.written_at
    assert row["result"] in ("report_only", "no_signal")


async def test_a_platform_that_is_down_for_a_while_gets_the_command_afterwards(auto):
    await auto.dream(10)
    command = await ask_to_kill(auto)
    await auto.one_call_meets(Faults(path="/memory", status=503))
    done = await auto.done(command)
    assert (done.status, auto.slot().text) == ("written", "")
    assert not await auto.stored("dead")
    await auto.check_oracle()


async def test_a_write_that_was_carried_out_and_answered_503_is_one_version(auto):
    await auto.dream(10)

    def unanswered(write, body):
        write()
        auto.practice.book.slot.write = real
        raise ProblemError(503, "carried out, but nobody is told")

    real = auto.practice.book.slot.write
    auto.on_write(unanswered)
    assert (await auto.kill()).status == "written"
    assert (auto.slot().text, auto.slot().version) == ("", 2)
    assert len(await auto.told("slot.rolled_back")) == 1
    await auto.check_oracle()


async def test_a_series_that_is_paused_still_obeys_persons(auto):
    await auto.dream(10)
    await auto.rows("UPDATE yume.series SET paused_at = now()")
    await auto.run_batch(4)
    await auto.until_row(2, lambda row: row["status"] != "collecting")
    await auto.settled()
    command = await auto.kill()
    assert (command.status, auto.slot().text) == ("written", "")
    assert command.written_at - command.requested_at < timedelta(seconds=60)
    assert (await auto.row_of(2))["status"] == "queued"
    await auto.rows("UPDATE yume.series SET paused_at = NULL")
    assert (await auto.dreamt(2))["status"] == "finished"
