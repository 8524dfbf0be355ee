from __future__ import annotations

import re

import pytest

from yume.errors import PermanentError
from yume.local.practice import load, shell
from yume.local.practice.dice import Dice
from yume.local.practice.pitfalls import Span, draw_values, render, teaches

ALL = {pitfall.name: pitfall for pitfall in load()}
TRAPS = {name: pitfall for name, pitfall in ALL.items() if not pitfall.plain}
VARIANTS = range(12)
CORNERS = ("low", "high")


def corner(pitfall, end: str) -> dict[str, str]:
    """Return the values at one end of every list and span."""
    return {
        name: str(getattr(choice, end)) if isinstance(choice, Span) else choice[-1 if end == "high" else 0]
        for name, choice in pitfall.values.items()
    }


async def tried(pitfall, variant: int | str, command: str, folder) -> tuple[shell.Ended, shell.Ended]:
    at_a_corner = isinstance(variant, str)
    values = corner(pitfall, variant) if at_a_corner else draw_values(pitfall, Dice.of(pitfall.name, variant))
    folder.mkdir()
    setup = await shell.run(render(pitfall.setup, values), folder, limit_s=10)
    assert (setup.exit_code, setup.stderr) == (0, "")
    done = await shell.run(render(command, values), folder, limit_s=10)
    return done, await shell.run(render(pitfall.check, values), folder, limit_s=10)


def shape(text: str) -> str:
    return re.sub(r"[0-9]+", "<n>", re.sub(r"'[^']*'", "<name>", text))


def test_fourteen_pitfalls_and_two_plain_tasks_come_with_the_platform():
    assert len(TRAPS) == 14
    assert len(ALL) == 16


@pytest.mark.parametrize("name", ALL)
async def test_the_naive_command_really_fails_and_always_in_one_shape(name, tmp_path):
    texts = set()
    for variant in (*VARIANTS, *CORNERS):
        _, check = await tried(ALL[name], variant, ALL[name].naive, tmp_path / str(variant))
        assert check.exit_code == 1
        texts.add(check.stdout)
    assert len(texts) > len(VARIANTS) / 2
    assert len({shape(text) for text in texts}) == 1


@pytest.mark.parametrize("name", ALL)
async def test_the_remedy_really_passes(name, tmp_path):
    for variant in (*VARIANTS, *CORNERS):
        done, check = await tried(ALL[name], variant, ALL[name].remedy, tmp_path / str(variant))
        assert (done.exit_code, done.stderr, check.exit_code, check.stdout) == (0, "", 0, "")


async def test_each_pitfall_fails_in_a_shape_of_its_own(tmp_path):
    shapes = set()
    for name, pitfall in ALL.items():
        _, check = await tried(pitfall, 1, pitfall.naive, tmp_path / name)
        shapes.add(shape(check.stdout))
    assert len(shapes) == len(ALL)


@pytest.mark.parametrize("name", TRAPS)
def test_remedy_and_answer_teach_their_own_pitfall_and_no_other(name):
    values = draw_values(TRAPS[name], Dice.of("any"))
    for text in (render(TRAPS[name].remedy, values), render(TRAPS[name].answer, values)):
        assert [other for other, pitfall in ALL.items() if teaches(text, pitfall)] == [name]
    assert not teaches(render(TRAPS[name].naive, values), TRAPS[name])


def test_marks_count_as_words_of_one_line_however_they_are_quoted():
    pitfall = ALL["sorts-as-text"]
    assert teaches("# Lessons\n- Use `sort -n`, not plain sort.", pitfall)
    assert not teaches("sort the file\nhead -n 3", pitfall)
    assert not teaches("use sort -nr", pitfall)
    assert not teaches("resort -n", pitfall)
    assert not teaches("", pitfall)


@pytest.mark.parametrize(
    "line",
    ["请用`sort -n`排序。", "请用sort -n排序", "使用 `sort -n`，不要直接排序", "按数值排序（sort -n）即可"],  # noqa: RUF001
)
def test_marks_are_found_in_chinese_that_leaves_no_space_around_them(line):
    assert [name for name, pitfall in ALL.items() if teaches(line, pitfall)] == ["sorts-as-text"]


def test_a_plain_task_can_be_taught_by_nothing():
    assert not teaches("cat sort -n", ALL["plain-copy"])


def test_a_pitfall_is_added_by_dropping_a_file_into_a_folder(tmp_path):
    text = """
name = "new"
kind = "new kind"
title = "Write @word@"
output = "out.txt"
setup = ""
naive = "echo no > out.txt"
remedy = "echo @word@ > out.txt"
marks = ["echo"]
check = "grep @word@ out.txt"
answer = "echo it"
values = { word = ["yes"] }
"""
    (tmp_path / "new.toml").write_text(text)
    assert [pitfall.name for pitfall in load(tmp_path)] == ["new"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("@word@", "@other@"), "@other@"),
        (('["yes"]', '["yes; no"]'), "values"),
        (('["yes"]', "{ low = 2, high = 1 }"), "low 2 is above high 1"),
        (("setup", "setups"), "setups"),
        (('"new"', "new"), "not a pitfall"),
        (("marks = []", "marks = [\"'b'\"]"), "does not hold all marks"),
    ],
)
def test_a_file_that_is_no_pitfall_is_an_error_that_names_it(tmp_path, change, reason):
    text = 'name = "new"\nkind = "k"\ntitle = "@word@"\noutput = "o"\nsetup = ""\nnaive = "a"\nremedy = "b"\n'
    text += 'marks = []\ncheck = "true"\nanswer = ""\nvalues = { word = ["yes"] }\n'
    (tmp_path / "fine.toml").write_text(text)
    assert load(tmp_path)
    (tmp_path / "wrong.toml").write_text(text.replace(*change))
    with pytest.raises(PermanentError, match=re.escape(reason)) as raised:
        load(tmp_path)
    assert "wrong.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_without_pitfalls_is_an_error(tmp_path):
    with pytest.raises(PermanentError, match="no pitfall there"):
        load(tmp_path)
