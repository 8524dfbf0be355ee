"""A dream over files: counts, lessons with where they came from, and what is bounded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from yume import over_files
from yume.clients.rules import Rules
from yume.domain.files_report import as_markdown
from yume.domain.reading import record_of
from yume.domain.taxonomy import shipped
from yume.importers.records import Imported, Unread

NOW = datetime(2026, 6, 1, tzinfo=UTC)
AT = "2026-05-01T10:00:00Z"


def run(number, *attempts, version="v1", task=None):
    """A task whose attempts are (command, what the check says; None: it passed)."""
    name = task or f"rank-figures-{number}"
    rows = [
        {
            "id": f"{name}-{place}",
            "task_id": name,
            "attempt": place,
            "verdict": "fail" if said else "pass",
            "verdict_details": {"message": said},
            "template_version": version,
        }
        for place, (_, said) in enumerate(attempts, start=1)
    ]
    events = [
        {"at": AT, "kind": "tool_call", "run_id": row["id"], "text": command}
        for row, (command, _) in zip(rows, attempts, strict=True)
    ]
    status = "failed" if attempts[-1][1] else "succeeded"
    whole = {
        "task": {"id": name, "series_id": "s", "status": status, "finished_at": AT},
        "runs": rows,
        "events": events,
    }
    return Imported(f"runs.jsonl line {number}", whole), record_of(whole)


def recovered(number):
    said = f"expected 9 before 11 in 'out.txt', line {number} holds 11"
    return run(number, (f"sort in{number}.txt > out.txt", said), (f"sort -n in{number}.txt > out.txt", None))


@pytest.fixture
def dreamt():
    async def review(*pieces, language="en"):
        evidence = over_files.gather(pieces, now=NOW)
        made = await over_files.review(evidence, shipped(), Rules(), series="s", language=language)
        return over_files.facts(made, source="runs.jsonl", format_="contract")

    return review


async def test_a_way_out_that_several_tasks_show_becomes_a_lesson_with_its_places(dreamt):
    facts = await dreamt(*map(recovered, range(1, 6)))
    (lesson,) = facts["lessons"]
    assert lesson["decision"] == "approve"
    assert "sort -n" in lesson["rule"]
    assert len(lesson["tasks"]) >= 2
    for cited in lesson["evidence"]:
        number = cited["task"].rpartition("-")[2]
        assert cited["place"] == f"runs.jsonl line {number}"
        assert cited["run"].startswith(cited["task"])
    assert lesson["rule"] in facts["text"]
    assert facts["outcomes"]["success"] == facts["runs"] == 5


async def test_the_same_files_give_the_same_report(dreamt):
    pieces = [recovered(number) for number in range(1, 6)]
    assert await dreamt(*pieces) == await dreamt(*pieces)


async def test_lessons_are_written_in_the_language_asked_for(dreamt):
    facts = await dreamt(*map(recovered, range(1, 6)), language="zh")
    assert "使用 `sort -n" in facts["lessons"][0]["rule"]


async def test_without_a_failure_nobody_is_asked_and_nothing_is_drafted(dreamt):
    facts = await dreamt(run(1, ("true", None)))
    assert (facts["lessons"], facts["classes"], facts["text"], facts["model_calls"]) == ([], {}, "", 0)


async def test_one_task_run_many_times_is_one_task(dreamt):
    said = "expected 9 before 11"
    pieces = [
        run(number, ("sort in.txt", said), ("sort -n in.txt", None), task="same") for number in range(1, 6)
    ]
    facts = await dreamt(*pieces)
    assert [each["decision"] for each in facts["lessons"]] == ["hold"]
    assert any(reason.startswith("tasks: ") for reason in facts["lessons"][0]["unmet"])


async def test_evidence_of_one_failure_is_kept_of_so_many_runs_and_the_rest_is_counted(dreamt, monkeypatch):
    monkeypatch.setattr(over_files, "RUNS_OF_A_KIND", 3)
    pieces = [run(number, ("false", "the sum is wrong")) for number in range(1, 41)]
    evidence = over_files.gather(pieces, now=NOW)
    assert len(evidence.places) == 3
    facts = await dreamt(*pieces)
    assert [each["runs"] for each in facts["lessons"]] == [40]
    assert facts["classes"] == {"wrong_result": 40}
    assert facts["versions"][0]["failures"] == 40


async def test_kinds_of_failure_beyond_the_limit_are_counted_as_unclassified(dreamt, monkeypatch):
    monkeypatch.setattr(over_files, "KINDS", 1)
    words = ("apples", "pears", "plums")
    facts = await dreamt(
        *(run(place, ("false", f"the {word} are wrong")) for place, word in enumerate(words))
    )
    assert facts["classes"] == {"unclassified": 2, "wrong_result": 1}


async def test_what_could_not_be_read_is_counted_and_shown(dreamt, monkeypatch):
    monkeypatch.setattr(over_files, "UNREAD_KEPT", 2)
    broken = [Unread(f"runs.jsonl line {number}", "no JSON | at all") for number in range(3)]
    facts = await dreamt(run(1, ("true", None)), *broken)
    assert facts["unread"]["count"] == 3
    assert len(facts["unread"]["first"]) == 2
    shown = as_markdown(facts)
    assert "- runs.jsonl line 0: no JSON \\| at all" in shown
    assert "- and 1 more" in shown


async def test_the_report_calls_the_rules_what_they_are_and_gives_no_rate_without_its_interval(dreamt):
    facts = await dreamt(*map(recovered, range(1, 6)), run(6, ("false", "the sum is wrong")))
    shown = as_markdown(facts)
    assert "`rules` answered" in shown
    assert "it is code and no language model" in shown
    assert "| v1 | 6 | 1 | 16.7% (3.0% to 56.4%) | 0 |" in shown
    assert "nothing was written anywhere" in shown


async def test_of_many_lessons_the_report_shows_the_approved_and_those_most_seen(dreamt):
    words = [f"the {chr(97 + number // 26)}{chr(97 + number % 26)} sum is wrong" for number in range(30)]
    waiting = [
        run(100 * kind + number, ("false", said))
        for kind, said in enumerate(words)
        for number in range(kind + 1)
    ]
    facts = await dreamt(*waiting, *(recovered(9000 + number) for number in range(5)))
    assert len(facts["lessons"]) > 25
    section = as_markdown(facts).partition("## Lessons")[2].partition("## The text")[0]
    heads = [line for line in section.splitlines() if line.startswith("- **")]
    assert "would be approved" in heads[0]
    assert "seen in 30 runs" in heads[1]
    assert len(heads) == 21
    assert f"- and {len(facts['lessons']) - 21} more" in section


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tests/test_a.py::test_b[1-2]", "tests/test_a.py::test_b[1-2]"),
        ("[here](http://x) <b>*`|", "[here]\\(http://x) \\<b>\\*\\`\\|"),
        ("x" * 500, "x" * 119 + "…"),
    ],
)
async def test_a_name_from_outside_is_shown_as_written_and_short(dreamt, name, shown):
    facts = await dreamt(run(1, ("false", "the sum is wrong"), task=name))
    assert f"  - from task {shown}, runs.jsonl line 1\n" in as_markdown(facts)
