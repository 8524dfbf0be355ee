"""A report says the same for programs and for people, and the same dream gives the same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from yume.domain.dreams import Dream, Series
from yume.domain.lessons import Lesson, Quote
from yume.domain.report import SlotResult, as_json, as_markdown, facts
from yume.ids import DreamId, LessonId, SeriesId, SignalId, TaxonomyId

AT = datetime(2026, 11, 30, tzinfo=UTC)
ID = UUID(int=7)
SERIES = Series(
    SeriesId(ID), "tobatsu", "kamila", "report_only", 40, timedelta(hours=24), 1500, "en", "", TaxonomyId(ID)
)
DREAM = Dream(
    id=DreamId(ID),
    series=SERIES,
    number=3,
    trigger="callback",
    status="running",
    step="s7_compile",
    announced="s7_compile",
    attempt=1,
    fence=1,
    applies=True,
    forced=False,
    asked_by=None,
    why=None,
    root=DreamId(ID),
    root_number=3,
    root_compiled=None,
    frozen_at=AT,
    taxonomy_id=TaxonomyId(ID),
    base_lesson_set_id=None,
    after=None,
    before=AT,
    started_at=AT,
    result=None,
    reason=None,
    report_key=None,
    draft_ids=None,
    standing_ids=None,
    operations=(),
    gate={"decisions": [{"lesson": str(ID), "decision": "hold", "unmet": ["tasks: 1 of 2"]}]},
    compiled=None,
    lesson_set_id=None,
    counters={"runs": 30, "failures": 9},
    usage={"s3_classify": {"model": "rules", "calls": 2, "from_archive": 1}},
    broken=({"task_id": "t9", "why": "/task/finished_at: a time without zone", "raw_key": "k"},),
    error=None,
)
LESSON = Lesson(
    id=LessonId(ID),
    lineage_id=LessonId(ID),
    revision=1,
    origin="dream",
    state="draft",
    symptom="order",
    root_cause="text order",
    rule="Use `sort -n`.",
    category="wrong_result",
    scope="all",
    evidence=(SignalId(ID),),
    quotes=(Quote(SignalId(ID), "expected 9 before 10"),),
    trust="agent_text",
    fingerprints=("f",),
    confidence=0.8,
)
WITHHELD = SlotResult("report_only", None, 1, "# Observations\n\n- Use `sort -n`.\n", None)


def test_the_report_names_counts_model_lessons_unmet_reasons_and_what_was_left_out():
    text = as_markdown(facts(DREAM, WITHHELD, [LESSON])).decode()
    for part in (
        "# Dream 3 of tobatsu/kamila",
        "nothing was written",
        "| failures | 9 |",
        "Asked rules 2 times.",
        "Answers that lay in the archive: 1.",
        "task `t9`: /task/finished_at: a time without zone",
        "Use `sort -n`.",
        "unmet: tasks: 1 of 2",
        "    - Use `sort -n`.",
    ):
        assert part in text


def test_the_report_for_programs_holds_the_same_facts():
    report = json.loads(as_json(facts(DREAM, WITHHELD, [LESSON])))
    assert report["result"] == "report_only"
    assert report["lessons"][0]["decision"] == "hold"
    assert report["slot"] == {
        "version": 1,
        "platform_version": None,
        "text": WITHHELD.text,
        "waits": None,
        "left_out": [],
    }
    assert (report["replay_of"], report["difference"]) == (None, [])
    assert report["broken"][0]["task_id"] == "t9"


def test_the_same_dream_gives_the_same_bytes():
    again = replace(DREAM, counters=dict(reversed(DREAM.counters.items())))
    assert as_json(facts(DREAM, WITHHELD, [LESSON])) == as_json(facts(again, WITHHELD, [LESSON]))
    assert as_markdown(facts(DREAM, WITHHELD, [LESSON])) == as_markdown(facts(again, WITHHELD, [LESSON]))


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ("published", "was written into the slot"),
        ("held", "Nothing was written: it waits."),
        ("no_signal", "no model was asked"),
    ],
)
def test_every_ending_is_said_in_words(result, says):
    assert says in as_markdown(facts(DREAM, replace(WITHHELD, result=result), [])).decode()


def test_a_dream_without_lessons_says_so():
    text = as_markdown(facts(DREAM, SlotResult("no_change", None, None, "", None), [])).decode()
    assert "None." in text
    assert "(empty)" in text


def test_a_version_that_is_still_measured_is_said_to_stay_and_what_waits_is_counted():
    left_out = [{"lesson_id": str(ID), "why": "quota"}, {"lesson_id": str(ID), "why": "budget"}]
    waiting = replace(DREAM, compiled={"left_out": left_out})
    outcome = replace(WITHHELD, result="held", reason="dwell", waits="1 of 2 batches")
    report = facts(waiting, outcome, [])
    text = as_markdown(report).decode()
    assert "Reason: dwell." in text
    assert "stays until it has been measured: it has 1 of 2 batches." in text
    assert "Approved, but not in the text: 1 (budget), 1 (quota)." in text
    assert report["slot"]["waits"] == "1 of 2 batches"


@pytest.mark.parametrize(
    ("difference", "shown"),
    [
        ((), "None: the same bytes."),
        (("- old", "+ new"), "    - old\n    + new"),
    ],
)
def test_a_replay_shows_what_differs_from_its_original(difference, shown):
    replay = replace(DREAM, trigger="replay", applies=False, root_number=2)
    report = facts(replay, replace(WITHHELD, result="replayed", difference=difference), [])
    assert f"## Difference from dream 2\n\n{shown}\n" in as_markdown(report).decode()
    assert (report["replay_of"], report["difference"]) == (2, list(difference))


def test_a_dream_that_is_no_replay_shows_no_difference():
    assert "Difference" not in as_markdown(facts(DREAM, WITHHELD, [])).decode()
