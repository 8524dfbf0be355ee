"""The measurement on runs that really happened: where lessons helped, and where nobody can tell."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from yume.domain.measurement.cells import Cell
from yume.domain.measurement.comparison import compare
from yume.domain.measurement.effects import TaskCell

SHARED = Path(__file__).parents[4] / "shared" / "data"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the real run data (../shared/data) is not here")


def rows(name: str) -> Iterable[dict]:
    with (SHARED / name).open(encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def compared(runs: Iterable[tuple[str, int, str, bool]]):
    """Compare runs given as (arm, batch, task, failed), clustered by task."""
    counted: Counter = Counter()
    by_task: Counter = Counter()
    for arm, batch, task, failed in runs:
        counted[arm, batch, failed] += 1
        by_task[arm, task, failed] += 1
    cells = [
        Cell(
            arm,
            batch,
            "all",
            counted[arm, batch, True] + counted[arm, batch, False],
            counted[arm, batch, True],
        )
        for arm, batch in sorted({(arm, batch) for arm, batch, _ in counted})
    ]
    tasks = [
        TaskCell(
            "all", arm, task, by_task[arm, task, True] + by_task[arm, task, False], by_task[arm, task, True]
        )
        for arm, task in sorted({(arm, task) for arm, task, _ in by_task})
    ]
    return compare(cells, tasks=tasks)


def hotpotqa(trials):
    for row in rows("reflexion/hotpotqa.jsonl"):
        failed = row["_section"] != "CORRECT"
        if row["_arm"] == "base":
            yield "reference", row["_trial"], row["_question"], failed
        elif row["_trial"] in trials:
            yield "new", 100 + row["_trial"], row["_question"], failed


def test_lessons_in_context_lowered_the_failures_of_hotpotqa_over_four_trials():
    made = compared(hotpotqa({2, 3, 4, 5}))
    assert (made.verdict, made.reason) == ("improved", "observational")
    assert made.effect.cs95.high < 0
    assert made.effect.se_task > made.effect.se_null


@pytest.mark.parametrize("trial", [2, 3, 4, 5])
def test_of_one_trial_alone_nobody_can_tell_and_the_direction_is_shown(trial):
    made = compared(hotpotqa({trial}))
    assert made.verdict == "no_evidence"
    assert made.effect.rd < 0
    assert made.effect.cs95.low < 0 < made.effect.cs95.high


def test_nothing_is_said_of_programming_where_the_runs_are_too_few():
    runs = [
        (
            "new" if "reflexion" in row["_source"] else "reference",
            int("reflexion" in row["_source"]),
            row.get("name") or row.get("task_id"),
            not row["is_solved"],
        )
        for row in rows("reflexion/programming.jsonl")
        if "mbpp" in row["_source"]
    ]
    made = compared(runs)
    assert made.verdict == "no_evidence"


def test_the_control_arm_of_alfworld_improves_as_well_and_stands_beside():
    def arm(name):
        return [
            ("reference" if row["_trial"] == 0 else "new", row["_trial"], row["name"], not row["is_success"])
            for row in rows("reflexion/alfworld.jsonl")
            if row["_arm"] == name and row["_trial"] <= 6
        ]

    base, lessons = compared(arm("base")), compared(arm("reflexion"))
    assert base.effect.rd < 0
    assert lessons.effect.rd < base.effect.rd


def test_a_flat_series_is_never_called_improved():
    runs = [(row["trial"], row["task_id"], row["reward"] < 1) for row in rows("tau_airline/runs.jsonl")]
    for first in range(1, 4):
        made = compared(
            ("new" if trial >= first else "reference", trial, str(task), failed)
            for trial, task, failed in runs
        )
        assert made.verdict == "no_evidence"
