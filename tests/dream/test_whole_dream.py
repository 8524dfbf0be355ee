"""A series' life from its first batch on: what is written, what is told, and what can be proven."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from datetime import datetime

import pytest

from yume import trail
from yume.pipeline import STAGES

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_dream_in_report_only_writes_nothing_and_says_what_it_would_have_written(story):
    row, slot = story.rows[0], story.slots[0]
    assert (row["status"], row["result"]) == ("finished", "report_only")
    assert (slot.version, slot.text) == (0, "")
    withheld = await story.world.rows(
        "SELECT status, platform_version FROM yume.injections WHERE dream_id = $1", row["id"]
    )
    assert [tuple(each) for each in withheld] == [("withheld", None)]
    report = await story.world.report(row)
    assert (report["mode"], report["result"]) == ("report_only", "report_only")
    assert report["slot"]["platform_version"] is None
    approved = [each["rule"] for each in report["lessons"] if each["state"] == "approved"]
    assert approved
    assert all(rule in report["slot"]["text"] for rule in approved)


async def test_the_report_for_people_says_the_same_as_the_one_for_programs(story):
    for row in story.rows:
        report = await story.world.report(row)
        text = (await story.world.resources.archive.get(row["report_key"])).decode()
        assert text.startswith(f"# Dream {row['number']} of practice/kamila\n")
        assert report["counters"] == {
            name: count for name, count in row["counters"].items() if name != "measurements"
        }
        for name, count in report["counters"].items():
            assert f"| {name.replace('_', ' ')} | {count} |" in text
        assert all(lesson["rule"] in text for lesson in report["lessons"])
        assert all(f"    {line}" in text for line in report["slot"]["text"].splitlines() if line)


async def test_after_the_promotion_the_slot_holds_the_lessons_byte_for_byte(story):
    row, slot = story.rows[1], story.slots[1]
    assert row["result"] == "published"
    ((text, digest, version),) = await story.world.rows(
        "SELECT text, lesson_sets.text_sha256, platform_version FROM yume.injections"
        " JOIN yume.lesson_sets ON lesson_sets.id = lesson_set_id WHERE injections.dream_id = $1",
        row["id"],
    )
    assert slot.text == text
    assert hashlib.sha256(slot.text.encode()).hexdigest() == digest == slot.sha256
    assert str(slot.version) == version == "1"


async def test_tasks_started_afterwards_report_the_version_that_they_read(story):
    versions = await story.world.rows(
        "SELECT dream_runs.number, memory_version, count(*) FROM yume.runs"
        " JOIN yume.dream_runs ON dream_runs.id = runs.dream_id GROUP BY 1, 2 ORDER BY 1"
    )
    assert [tuple(each) for each in versions] == [(1, "0", 20), (2, "0", 20), (3, "1", 20)]
    linked = await story.world.value(
        "SELECT count(*) FROM yume.runs JOIN yume.injections USING (lesson_set_id)"
        " WHERE memory_version = '1' AND injections.status = 'written'"
    )
    assert linked == 20


async def test_their_failure_rate_falls(story):
    rates = await story.world.rows(
        "SELECT details ->> 'memory_version' AS version, runs, failures, rate, verdict FROM yume.measurements"
        " WHERE dream_id = $1 AND scope = 'version' AND details ->> 'window' = 'cumulative' ORDER BY 1",
        story.rows[2]["id"],
    )
    before, after = rates
    assert (before["version"], before["runs"], after["version"], after["runs"]) == ("0", 40, "1", 20)
    assert before["rate"] == before["failures"] / 40 > 0.3
    assert after["rate"] < before["rate"] / 2
    assert after["verdict"] == "no_evidence"


async def test_every_approved_lesson_leads_down_to_a_real_task(story):
    world = story.world
    lessons = await world.rows("SELECT id, rule FROM yume.lessons WHERE state = 'approved'")
    assert lessons
    for lesson in lessons:
        followed = await trail.follow(await world.series_id(), lesson["id"], world.resources)
        assert followed.holds
        for stop in followed.stops:
            assert world.practice.book.has_task(stop.task)
            assert stop.quotes or stop.lines


async def test_one_byte_changed_in_the_archive_breaks_the_trail(story):
    world = story.world
    lesson = await world.value("SELECT id FROM yume.lessons WHERE state = 'approved' ORDER BY id LIMIT 1")
    intact = await trail.follow(await world.series_id(), lesson, world.resources)
    path = world.archived(intact.stops[0].raw_key)
    raw = path.read_bytes()
    place = raw.index(intact.stops[0].lines[:8].encode("utf-8"))
    for changed in (raw[:place] + b"~" + raw[place + 1 :], b"~" + raw[1:], raw[:-1], b""):
        path.write_bytes(changed)
        try:
            broken = await trail.follow(await world.series_id(), lesson, world.resources)
        finally:
            path.write_bytes(raw)
        assert not broken.holds
        assert not broken.stops[0].bytes_unchanged
    assert (await trail.follow(await world.series_id(), lesson, world.resources)).holds


async def test_a_missing_record_breaks_the_trail(story):
    world = story.world
    lesson = await world.value("SELECT id FROM yume.lessons WHERE state = 'approved' ORDER BY id LIMIT 1")
    intact = await trail.follow(await world.series_id(), lesson, world.resources)
    path = world.archived(intact.stops[0].raw_key)
    aside = path.rename(path.with_suffix(".aside"))
    try:
        broken = await trail.follow(await world.series_id(), lesson, world.resources)
    finally:
        aside.rename(path)
    assert not broken.holds


async def test_a_row_that_points_to_another_record_breaks_the_trail(story):
    world = story.world
    lesson = await world.value("SELECT id FROM yume.lessons WHERE state = 'approved' ORDER BY id LIMIT 1")
    stop = (await trail.follow(await world.series_id(), lesson, world.resources)).stops[0]
    ((run, key, digest),) = await world.rows(
        "SELECT id, raw_key, raw_sha256 FROM yume.runs WHERE task_id = $1", stop.task
    )
    ((other_key, other_digest),) = await world.rows(
        "SELECT raw_key, raw_sha256 FROM yume.runs WHERE task_id <> $1 ORDER BY task_id LIMIT 1", stop.task
    )
    point = "UPDATE yume.runs SET raw_key = $2, raw_sha256 = $3 WHERE id = $1 RETURNING id"
    for elsewhere in ((other_key, digest), (other_key, other_digest)):
        await world.value(point, run, *elsewhere)
        try:
            broken = await trail.follow(await world.series_id(), lesson, world.resources)
        finally:
            await world.value(point, run, key, digest)
        assert not broken.holds
    assert (await trail.follow(await world.series_id(), lesson, world.resources)).holds


async def test_archived_records_have_the_hash_that_their_row_says(story):
    rows = await story.world.rows("SELECT task_id, raw_key, raw_sha256, raw_bytes FROM yume.runs")
    assert len(rows) == 60
    for row in rows:
        raw = story.world.archived(row["raw_key"]).read_bytes()
        assert (hashlib.sha256(raw).hexdigest(), len(raw)) == (row["raw_sha256"], row["raw_bytes"])
        assert json.loads(raw)["task"]["id"] == row["task_id"]


async def test_the_model_is_asked_by_the_group_and_never_by_the_run(story):
    for row in story.rows:
        calls = {step: used["calls"] for step, used in row["usage"].items()}
        most = math.ceil(row["counters"]["groups"] / 20)
        assert set(calls) == {"s3_classify", "s4_draft", "s5_merge"}
        assert calls["s3_classify"] <= most
        assert calls["s4_draft"] <= most
        assert calls["s5_merge"] <= 1
        assert {used["model"] for used in row["usage"].values()} == {"rules"}
    assert len(story.world.model.asked) == sum(
        used["calls"] for row in story.rows for used in row["usage"].values()
    )


async def test_the_counters_on_the_row_are_what_the_tables_hold(story):
    for row in story.rows:
        counters = row["counters"]
        outcomes = Counter(
            each["outcome"]
            for each in await story.world.rows("SELECT outcome FROM yume.runs WHERE dream_id = $1", row["id"])
        )
        assert counters["tasks"] == counters["runs"] == 20
        assert (counters["failures"], counters["successes"]) == (outcomes["failure"], outcomes["success"])
        ((signals, groups),) = await story.world.rows(
            "SELECT count(*), count(DISTINCT fingerprint) FROM yume.signals WHERE dream_id = $1", row["id"]
        )
        assert (counters["signals"], counters["groups"]) == (signals, groups)
        assert counters["drafts"] <= groups
        assert counters["measurements"] == await story.world.value(
            "SELECT count(*) FROM yume.measurements WHERE dream_id = $1", row["id"]
        )


async def test_the_published_event_carries_every_field_of_the_contract(story):
    published = [each for each in await story.world.events("lessons") if each.type == "yume.lesson.published"]
    first = published[0]
    ((set_id, body_sha256, tokens),) = await story.world.rows(
        "SELECT id, body_sha256, tokens FROM yume.lesson_sets WHERE id::text = $1",
        first.data["lesson_set_id"],
    )
    lessons = first.data["added"]
    assert first.data == {
        "platform": "practice",
        "series": "kamila",
        "dream_id": str(story.rows[1]["id"]),
        "lesson_set_id": str(set_id),
        "lesson_set_version": first.data["lesson_set_version"],
        "platform_version": "1",
        "previous_version": None,
        "text": story.slots[1].text,
        "text_sha256": story.slots[1].sha256,
        "body_sha256": body_sha256,
        "tokens": tokens,
        "added": lessons,
        "changed": [],
        "retired": [],
    }
    assert lessons
    assert all(each["rule"] in first.data["text"] and each["id"] and each["category"] for each in lessons)


async def test_each_event_is_told_once_and_the_end_of_the_dream_last(story):
    lessons, dreams = await story.world.events("lessons"), await story.world.events("dream")
    for events in (lessons, dreams):
        assert len({each.id for each in events}) == len(events)
    measured = Counter(each.data["dream_id"] for each in lessons if each.type == "yume.measurement.recorded")
    written = [row for row in story.rows if row["result"] == "published"]
    assert measured == {str(row["id"]): row["counters"]["measurements"] for row in story.rows}
    published = [each.data["dream_id"] for each in lessons if each.type == "yume.lesson.published"]
    assert published == [str(row["id"]) for row in written]
    facts = ["yume.dream.requested", *(f"yume.{stage.emits}" for stage in STAGES)]
    for row in story.rows:
        assert [each.type for each in dreams if each.data["dream_id"] == str(row["id"])] == facts


async def test_the_last_event_says_what_the_row_says(story):
    ended = [each for each in await story.world.events("dream") if each.type == "yume.dream.finished"]
    for event, row in zip(ended, story.rows, strict=True):
        for name in ("number", "result", "reason", "counters", "usage"):
            assert event.data[name] == row[name]
        assert event.data["report"] == row["report_key"]


async def test_every_measurement_is_told_as_its_row(story):
    told = {
        each.data["id"]: each.data
        for each in await story.world.events("lessons")
        if each.type == "yume.measurement.recorded"
    }
    rows = await story.world.rows(
        "SELECT id, runs, failures, rate, lower(span) AS since FROM yume.measurements"
    )
    assert set(told) == {str(row["id"]) for row in rows}
    for row in rows:
        data = told[str(row["id"])]
        assert [data[name] for name in ("runs", "failures", "rate")] == [
            row["runs"],
            row["failures"],
            row["rate"],
        ]
        assert datetime.fromisoformat(data["since"]) == row["since"]


async def test_what_holds_after_every_fault_holds_without_one(story):
    await story.world.check_oracle()
