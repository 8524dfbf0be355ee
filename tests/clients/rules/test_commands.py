from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.clients.rules.commands import OPEN, common, open_up, skeleton


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [
        ("sort -n figures.txt > ranked.txt", "sort -n amounts.txt > ordered.txt", "sort -n … > …"),
        (
            "find inbox -name '*.txt' -print0 | xargs -0 cat > merged.txt",
            "find notes -name '*.txt' -print0 | xargs -0 cat > all.txt",
            "find … -name '*.txt' -print0 | xargs -0 cat > …",
        ),
        (
            r"cut -d, -f2 prices.csv | tr -d '\r' > column.txt",
            r"cut -d, -f2 stock.csv | tr -d '\r' > values.txt",
            r"cut -d, -f2 … | tr -d '\r' > …",
        ),
        ("LC_ALL=C sort a.txt", "LC_ALL=C sort b.txt", "LC_ALL=C sort …"),
        ("$ sort -n a.txt", "sort -n b.txt", "sort -n …"),
    ],
)
def test_what_two_tasks_have_in_common_stays_and_the_rest_is_left_open(left, right, shared):
    found = skeleton({1: [left], 2: [right]})
    assert (str(found), found.tasks) == (shared, (1, 2))


def test_of_one_task_alone_files_figures_and_paths_are_left_open():
    command = r"grep -F -c '4.2' logs/releases.txt | awk '{print $2}' | tr -d '\r' > count"
    assert str(skeleton({7: [command]})) == r"grep -F -c … | awk '{print $2}' | tr -d '\r' > …"


def test_the_command_that_most_tasks_share_wins_over_a_longer_one_of_a_single_task():
    commands = {
        1: ["ls -la", "sort -n a.txt > x.txt"],
        2: ["python -m build --verbose --no-isolation --outdir out", "sort -n b.txt > y.txt"],
        3: ["sort -n c.txt > z.txt"],
    }
    found = skeleton(commands)
    assert (str(found), found.tasks) == ("sort -n … > …", (1, 2, 3))


def test_commands_of_different_programs_are_not_mixed():
    assert skeleton({1: ["sort -n a.txt"], 2: ["grep -n a.txt"]}).tasks == (1,)


@pytest.mark.parametrize("command", ["", "  ", "echo `date`", "cat <<X\na\nX", "x " * 300])
def test_what_no_code_span_can_hold_gives_nothing(command):
    assert skeleton({1: [command]}) is None


words = st.lists(st.sampled_from(["sort", "-n", "a.txt", ">", "b", "|", "'\\r'"]), max_size=8)


@given(words, words)
def test_what_is_common_stands_in_both_in_that_order(left, right):
    kept = [word for word in common(left, right) if word != OPEN]
    for whole in (left, right):
        rest = iter(whole)
        assert all(word in rest for word in kept)
    assert common(left, left) == tuple(left)


@given(words)
def test_opening_up_twice_is_opening_up_once_and_keeps_the_program(words):
    once = open_up(words)
    assert open_up(once) == once
    assert once[:1] == tuple(words[:1])


def test_where_a_command_writes_to_stays_open_even_if_two_tasks_chose_one_name():
    shared = skeleton({1: ["sort -n a.txt > ranked.txt"], 2: ["sort -n b.txt > ranked.txt"]})
    assert str(shared) == "sort -n … > …"
