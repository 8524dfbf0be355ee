"""What Yume makes of the practice platform's records: every pitfall can be learnt, no trouble ever is."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from yume import over_files
from yume.clients.rules import Rules
from yume.domain.dreams import Language
from yume.domain.guard import scan
from yume.domain.lessons import wrong_with
from yume.domain.reading import record_of
from yume.domain.runs import Capabilities, judge
from yume.domain.taxonomy import shipped
from yume.errors import PermanentError
from yume.importers.records import Imported
from yume.local.practice import HARMFUL, OWN, Habits, Practice, load
from yume.local.practice.pitfalls import load_troubles, teaches

NOW = datetime(2999, 1, 1, tzinfo=UTC)
ALL = load()
RECOVERS = Habits(plain=0, trouble=0, knows=0, discovers=1, answers=0)

UNSEEN = {
    "leading-dash": '''
name = "leading-dash"
kind = "gathering"
title = "Put the lines of all .log files into @output@"
output = "@output@"
setup = """
for i in 1 2 3; do echo line > "@word@-$i.log"; done
echo line > ./-@word@.log
"""
naive = "cat *.log > @output@"
remedy = "cat -- *.log > @output@"
marks = ["cat", "--"]
check = """
n=$(awk 'END { print NR }' @output@)
[ $n -eq 4 ] && exit 0
echo "gathered $n lines of the logs in '@output@', there are 4"
exit 1
"""
answer = "One name starts with a dash: cat -- ends the options."
[values]
output = ["all.txt", "lines.txt"]
word = ["north", "south", "east", "west"]
''',
    "hidden-files": '''
name = "hidden-files"
kind = "inventory"
title = "Count all files of the folder @folder@ into @output@"
output = "@output@"
setup = """
mkdir @folder@
i=1
while [ $i -le @count@ ]; do touch @folder@/file-$i @folder@/.hidden-$i; i=$((i + 1)); done
"""
naive = "ls @folder@ | wc -l > @output@"
remedy = "ls -A @folder@ | wc -l > @output@"
marks = ["ls", "-A"]
check = """
n=$(cat @output@)
[ $n -eq $((@count@ * 2)) ] && exit 0
echo "'@output@' 写的是 $n 个文件, 文件夹里共有 $((@count@ * 2)) 个"
exit 1
"""
answer = "隐藏文件也要算, 请用 ls -A。"
[values]
folder = ["home", "store", "shelf"]
output = ["files.txt", "count.txt"]
count = { low = 2, high = 9 }
''',
}


async def records(folder, habits, *, pitfalls=None, size=8, lesson=""):
    """Run a batch and return its records as an export would give them."""
    practice = Practice(folder, habits=habits, seed=11, pitfalls=pitfalls)
    with contextlib.closing(practice):
        practice.add_series("kamila")
        if lesson:
            practice.book.slot.write("kamila", None, {"text": lesson}, now="2026-01-01T00:00:00Z")
        tasks = await practice.run_batch("kamila", size)
        found = []
        for task in tasks:
            kinds = {"runs": "run", "events": "event", "inquiries": "inquiry"}
            parts = {
                name: [item for _, item in practice.book.parts(kind, [task["id"]], (), 10_000)]
                for name, kind in kinds.items()
            }
            found.append(Imported(task["id"], {"task": task, **parts}))
        return found


async def dream(pieces, *, language: Language = "en"):
    read = [(each, record_of(each.record)) for each in pieces]
    made = await over_files.review(
        over_files.gather(read, now=NOW), shipped(), Rules(), series="kamila", language=language
    )
    return over_files.facts(made, source="practice", format_="contract")


def outcomes(pieces):
    return [judge(record_of(each.record), Capabilities(), now=NOW).outcome for each in pieces]


def unseen(folder):
    for name, text in UNSEEN.items():
        (folder / f"{name}.toml").write_text(text)
    return load(folder)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", [*(each.name for each in ALL if not each.plain), *UNSEEN])
async def test_a_pitfall_is_learnt_from_the_attempts_that_came_through(tmp_path, name, language):
    (tmp_path / "more").mkdir()
    everyone = (*ALL, *unseen(tmp_path / "more"))
    (pitfall,) = (each for each in everyone if each.name == name)
    pieces = await records(tmp_path / "platform", RECOVERS, pitfalls=(pitfall,))
    facts = await dream(pieces, language=language)
    rules = [each["rule"] for each in facts["lessons"] if each["decision"] == "approve"]
    assert rules, facts["lessons"]
    for rule in rules:
        assert [each.name for each in everyone if teaches(rule, each)] == [name], rule


async def test_a_pitfall_that_the_code_has_never_seen_is_failed_and_passed_for_real(tmp_path):
    (tmp_path / "more").mkdir()
    for pitfall in unseen(tmp_path / "more"):
        pieces = await records(tmp_path / pitfall.name, RECOVERS, pitfalls=(pitfall,), size=4)
        for piece in pieces:
            assert [run["verdict"] for run in piece.record["runs"]] == ["fail", "pass"]


def test_pitfalls_of_a_folder_are_added_to_the_own_ones(tmp_path):
    unseen(tmp_path)
    assert {each.name for each in load(OWN, tmp_path)} == {*UNSEEN, *(each.name for each in ALL)}


async def test_the_example_of_the_readme_is_failed_and_passed_for_real(tmp_path):
    example = (OWN / "README.md").read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "example.toml").write_text(example)
    pieces = await records(tmp_path / "platform", RECOVERS, pitfalls=load(tmp_path), size=4)
    for piece in pieces:
        assert [run["verdict"] for run in piece.record["runs"]] == ["fail", "pass"]


def test_a_pitfall_with_the_name_of_another_is_refused_with_both_files(tmp_path):
    (tmp_path / "mine.toml").write_text((OWN / "sorts-as-text.toml").read_text())
    with pytest.raises(PermanentError, match=r"mine\.toml: .*sorts-as-text\.toml is a pitfall named"):
        load(OWN, tmp_path)


def test_pitfalls_speak_english_and_chinese():
    speaking = [
        each for each in ALL if any("\u4e00" <= sign <= "\u9fff" for sign in each.check + each.answer)
    ]
    assert len(speaking) >= 5
    assert len(ALL) - len(speaking) >= 8


@pytest.mark.parametrize("trouble", load_troubles(), ids=lambda each: each.name)
async def test_a_fault_of_the_environment_is_no_failure_and_teaches_nothing(tmp_path, trouble, monkeypatch):
    monkeypatch.setattr("yume.local.practice.host.load_troubles", lambda: (trouble,))
    pieces = await records(tmp_path, Habits(trouble=1, answers=1), size=6)
    assert outcomes(pieces) == ["infrastructure"] * 6
    facts = await dream(pieces)
    assert facts["lessons"] == []
    assert facts["classes"] == {"environment_fault": 6}


async def test_every_trouble_strikes_sooner_or_later(tmp_path):
    pieces = await records(tmp_path, Habits(trouble=1), size=20)
    reasons = {run["failure_reason"] for piece in pieces for run in piece.record["runs"]}
    assert len(reasons) == len(load_troubles()) >= 3


def test_the_harmful_rule_would_pass_the_scan_and_teaches_no_pitfall():
    assert wrong_with(HARMFUL.rule) is None
    assert scan(HARMFUL.rule).verdict == "pass"
    assert not [each.name for each in ALL if teaches(HARMFUL.rule, each)]


async def test_a_harmful_lesson_that_is_followed_spoils_plain_tasks_too(tmp_path):
    able = Habits(trouble=0, knows=1, slips=0, answers=0)
    lesson = f"- {HARMFUL.rule}"
    good = outcomes(await records(tmp_path / "good", replace(able, harm=1), size=30))
    bad = outcomes(await records(tmp_path / "bad", replace(able, harm=1), size=30, lesson=lesson))
    deaf = outcomes(await records(tmp_path / "deaf", able, size=30, lesson=lesson))
    assert good == deaf == ["success"] * 30
    assert bad == ["failure"] * 30


async def test_harm_moves_no_other_draw(tmp_path):
    quiet = await records(tmp_path / "quiet", Habits(), size=20)
    harmful = await records(tmp_path / "harmful", Habits(harm=0.7), size=20)
    commands = [
        [
            [event["text"] for event in piece.record["events"] if event["kind"] == "tool_call"]
            for piece in each
        ]
        for each in (quiet, harmful)
    ]
    assert commands[0] == commands[1]
