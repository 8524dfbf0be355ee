"""What an operator types while a whole Yume is at work, and what comes of it."""

from __future__ import annotations

import json
from importlib import import_module
from types import SimpleNamespace

import pytest

from yume.arguments import make_parser
from yume.errors import YumeError

PS = ("practice", "kamila")
WHY = ("--why", "a test")
TEXT = "# House rules\n\n- Keep the names of the files as they are.\n- Use no colours.\n"


@pytest.fixture
def run(capsys):
    """Do what a command line says, as `yume` does, and return its exit code and what it printed."""

    async def ran(world, *words):
        capsys.readouterr()
        arguments = make_parser().parse_args([str(word) for word in words])
        room, _, name = arguments.command.partition(":")
        command = getattr(import_module(f"yume.commands.{room}"), name)
        try:
            code, refusal = await command(arguments, world.settings), ""
        except YumeError as error:
            code, refusal = 1, str(error)
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=_lines(printed.out), err=printed.err + refusal)

    return ran


def _lines(printed):
    """Leave out what the workers in this process log meanwhile."""
    return "\n".join(line for line in printed.splitlines() if not line.startswith("20"))


async def test_a_replay_is_waited_for_and_its_difference_is_shown(auto, run):
    await auto.dream(10)
    ended = await run(auto, "replay", *PS, 1, "--from", "s3")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("practice/kamila dream 2, a replay of 1 from s3_classify, is ")
    assert "is finished, s9_measure is done" in ended.out
    assert lines[-2:] == ["result replayed, reason equal body", "no difference: the same rules"]
    document = json.loads((await run(auto, "replay", *PS, 1, "--from", "s3", "--json")).out)
    assert (document["result"], document["difference"], document["of"]) == ("replayed", [], 1)
    assert "yume: nothing" not in ended.err
    subject = ("replay", "--subject", "yume.dream.classified.practice.kamila", "--since", "1h")
    several = await run(auto, *subject, "--key", "k")
    assert (several.code, several.out.splitlines()[-1]) == (0, "1 queued, 2 skipped, 0 refused; key k")
    await auto.dreamt(4)
    await auto.check_oracle()


async def test_a_release_a_rollback_and_a_kill_are_carried_out(auto, run):
    await auto.dream(10)
    await auto.add_owners_rule("Look twice.")
    released = await run(auto, "release", *PS, "--now", *WHY)
    assert released.out.splitlines()[-1] == "practice/kamila: the release is queued as dream 2"
    await auto.dreamt(2)
    back = await run(auto, "rollback", *PS, *WHY)
    assert back.code == 0
    assert back.out == (
        "the slot of practice/kamila holds v1 again (platform version 3), "
        "by restoring the platform's own old version"
    )
    assert auto.slot().restored_from == 1
    again = json.loads((await run(auto, "rollback", *PS, "--to", 2, "--json", *WHY)).out)
    assert (again["from"], again["to"], again["status"], again["how"]) == (1, 2, "written", "restored")
    killed = await run(auto, "kill", *PS, *WHY)
    assert killed.out == (
        "the slot of practice/kamila holds v3, 1 rules of the owner's and no other (platform version 5), "
        "by posting it; the series only reports"
    )
    emptied = await run(auto, "kill", *PS, "--all", *WHY)
    assert "the slot of practice/kamila is empty (platform version 6)" in emptied.out
    assert auto.slot().text == ""
    shown = await run(auto, "series", "show", *PS)
    assert "report_only, by cli:" in shown.out
    assert "kill by cli:" in shown.out


async def test_a_text_that_is_not_yumes_is_shown_and_then_adopted(world, run):
    await world.dream(5)
    world.write_slot(TEXT)
    looked = await run(world, "series", "adopt", *PS)
    assert looked.code == 0, looked.err
    assert "    # House rules" in looked.out
    assert "It would become 2 rules of the owner's" in looked.out
    document = json.loads((await run(world, "series", "adopt", *PS, "--json")).out)
    assert (document["text"], len(document["rules"])) == (TEXT, 2)
    command = looked.out.splitlines()[-1].split()
    assert command[:4] == ["yume", "series", "adopt", "practice"]
    assert command[-2:] == ["--why", "..."]
    assert document["next"].split() == command

    world.write_slot(TEXT + "- Work by day.\n")
    refused = await run(world, *command[1:-1], "a test")
    assert refused.code == 1
    assert "the text was not adopted: conflict, slot holds foreign text" in refused.err

    world.write_slot(TEXT)
    adopted = await run(world, *command[1:-1], "a test")
    assert adopted.out.startswith("practice/kamila has 2 rules of its owner's; its slot stays as it is")
    assert world.slot().text == TEXT
    assert await world.value("SELECT count(*) FROM yume.lessons WHERE origin = 'owner'") == 2
    refused = await run(world, "series", "adopt", *PS)
    assert (refused.code, refused.out) == (1, "")
    assert "the slot holds a text that Yume wrote" in refused.err


async def test_a_text_that_steers_a_terminal_is_shown_spelt_out_and_cannot_be_adopted(world, run):
    await world.dream(5)
    world.write_slot("- Use \x1b[31mno colours.\n")
    refused = await run(world, "series", "adopt", *PS)
    assert refused.code == 1
    assert r"    - Use \x1b[31mno colours." in refused.out
    assert "\x1b" not in refused.out
    assert "edit it first: line 1 holds control" in refused.err


async def test_a_rollback_that_meets_somebody_elses_text_is_refused(auto, run):
    await auto.dream(10)
    await auto.add_owners_rule("Look twice.")
    await auto.release()
    auto.write_slot("somebody else's")
    refused = await run(auto, "rollback", *PS, *WHY)
    assert (refused.code, refused.out) == (1, "")
    assert "practice/kamila: rollback: conflict: slot holds foreign text" in refused.err
    assert auto.slot().text == "somebody else's"


async def test_nobody_is_late_where_everybody_is_at_work(auto, run):
    await auto.dream(10)
    shown = await run(auto, "status")
    assert "nobody is late" in shown.out
    assert "dead letters: 0" in shown.out
    assert "v1 for" in shown.out
