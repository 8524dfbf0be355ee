"""Whether a command is what a rule prescribes."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from yume.domain.following import followed, follows, prescribed
from yume.domain.reading import read_record
from yume.ids import LessonId

RULE = "Rank figures with `sort -n … > …`, never with `sort plain -u`."
LESSON = LessonId(UUID(int=1))


@pytest.mark.parametrize(
    ("rule", "commands"),
    [
        (RULE, [("sort", "-n", ">")]),
        ("Do not use `rm -rf build`; run `make clean first`.", [("make", "clean", "first")]),
        ("Don\u2019t run `git push --force`.", []),
        ("不要使用 `rm -rf build`, 请用 `make clean first`。", [("make", "clean", "first")]),
        ("Use `chmod +x <file>` before you run it.", [("chmod", "+x")]),
        ("Use `sort`.", []),
        ("Quote names that hold spaces.", []),
    ],
)
def test_commands_that_a_rule_advises_are_read_from_it_and_those_it_warns_of_are_not(rule, commands):
    assert prescribed(rule) == commands


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("sort -n data.txt > ranked.txt", True),
        ("cat data.txt | sort -r -n > ranked.txt", True),
        ("sort data.txt > ranked.txt", False),
        ("sort plain -u data.txt", False),
        ("-n sort", False),
    ],
)
def test_a_command_follows_a_rule_if_it_holds_its_words_in_their_order(command, does):
    assert follows(command, RULE) is does


def record(*events):
    at = "2026-05-01T12:00:00Z"
    task = {"id": "T", "series_id": "kamila", "status": "succeeded", "finished_at": at}
    rows = [{"at": at, "kind": kind, "run_id": None, "text": text} for kind, text in events]
    return read_record(json.dumps({"task": task, "runs": [], "events": rows, "inquiries": []}).encode())


def test_a_record_without_a_command_cannot_tell_who_followed():
    assert followed(record(("log", "sort -n a > b")), {LESSON: RULE}) is None
    assert followed(record(("tool_call", "ls -l")), {LESSON: RULE}) == []
    assert followed(record(("log", "x"), ("command", "sort -n a > b")), {LESSON: RULE}) == [LESSON]
