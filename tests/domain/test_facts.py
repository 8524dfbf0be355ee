"""A row keeps short, clean facts of a record, whatever the record holds."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from yume.domain.facts import ARTIFACTS, TEXT_LIMIT, artifact_facts, attempt_facts, inquiry_facts, short
from yume.domain.reading import read_record

AT = "2026-11-30T12:00:00Z"


def record(**run):
    task = {"id": "t", "series_id": "kamila", "status": "failed", "finished_at": AT}
    runs = [{"id": "r", "task_id": "t", "attempt": 1, "started_at": AT, **run}]
    inquiries = [{"id": "q", "task_id": "t", "effect": "resumed", "by": "p\x00", "answered_at": AT}]
    return read_record(
        json.dumps({"task": task, "runs": runs, "events": [], "inquiries": inquiries}).encode()
    )


def test_an_attempts_ending_is_kept_clean_and_capped():
    (kept,) = attempt_facts(
        record(exit_code=1, failure_reason="no\x00thing " + "x" * 5_000, memory_version=3)
    )
    assert kept["exit_code"] == 1
    assert kept["memory_version"] == "3"
    assert kept["failure_reason"].startswith("nothing xx")
    assert len(kept["failure_reason"]) == TEXT_LIMIT
    assert kept["started_at"] == "2026-11-30T12:00:00+00:00"


def test_an_inquirys_course_is_kept():
    (kept,) = inquiry_facts(record())
    assert (kept["id"], kept["effect"], kept["by"]) == ("q", "resumed", "p")


def test_artifacts_are_pointers_and_not_too_many():
    kept = artifact_facts(
        record(artifacts=[{"name": f"f{n}", "uri": "u", "body": "secret"} for n in range(90)])
    )
    assert len(kept) == ARTIFACTS
    assert kept[0] == {"name": "f0", "uri": "u"}


def test_artifacts_of_another_shape_are_left_out():
    assert artifact_facts(record(artifacts={"name": "f"})) == []
    assert artifact_facts(record(artifacts=["f", None])) == []


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=[]), max_size=3_000))
def test_no_text_reaches_a_row_that_postgres_would_refuse(text):
    kept = short(text)
    assert "\x00" not in kept
    assert len(kept) <= TEXT_LIMIT
    kept.encode()
