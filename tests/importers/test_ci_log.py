"""Plain CI logs: how they ended by their own last words, on real ones and on the forms of other CIs."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from yume.domain.extraction import extract
from yume.domain.runs import Capabilities, judge
from yume.importers import ci_log
from yume.importers.formats import checked, named
from yume.importers.records import Unread

NOW = datetime(2027, 1, 1, tzinfo=UTC)
STAMP = "2022-05-22T17:40:03.6782153Z "


def outcome(record):
    return judge(record, Capabilities(), now=NOW).outcome


@pytest.fixture
def log(tmp_path):
    def read(text, name="nightly.log"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return list(checked(named("ci-log"), tmp_path, series="s"))

    return read


def test_every_real_log_ends_as_it_did(shared_data):
    for imported, record in checked(named("ci-log"), shared_data / "cidiff_logs", series="s"):
        wanted = {"pass.log": {"success"}, "fail.log": {"failure", "infrastructure"}}
        assert outcome(record) in wanted[imported.place.rpartition("/")[2]], imported.place
        if outcome(record) == "infrastructure":
            assert "No space left on device" in record.events[0].text
        assert record.task.id == imported.place.split("/")[0]


def test_a_failing_log_leaves_evidence_of_its_failure(shared_data):
    read = list(checked(named("ci-log"), shared_data / "cidiff_logs", series="s"))
    failing = [record for _, record in read if outcome(record) == "failure"]
    found = [any(each.kind == "log_error" for each in extract(record, injected=None)) for record in failing]
    assert sum(found) >= 0.95 * len(found)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("Finished: SUCCESS", "success"),
        ("Finished: FAILURE", "failure"),
        ("Finished: UNSTABLE", "failure"),
        ("Finished: ABORTED", "cancelled"),
        ("Finished: NOT_BUILT", "infrastructure"),
        (f"{STAMP}##[error]Process completed with exit code 1.", "failure"),
        (f"{STAMP}##[error]The operation was canceled.", "cancelled"),
        (f"{STAMP}##[error]The runner has lost communication with the server.", "infrastructure"),
        (f"{STAMP}Cleaning up orphan processes", "success"),
        (f"{STAMP}##[error]Tests failed.\n{STAMP}Cleaning up orphan processes", "failure"),
        ("Done. Your build exited with 0.", "success"),
        ("Done. Your build exited with 2.", "failure"),
        ("\x1b[32;1mJob succeeded\x1b[0;m", "success"),
        ("ERROR: Job failed: exit code 1", "failure"),
        ("[INFO] BUILD SUCCESS\n[INFO] ------", "success"),
        ("[\x1b[1;34mINFO\x1b[m] \x1b[1;31mBUILD FAILURE\x1b[m", "failure"),
        ("[INFO] BUILD SUCCESS\nFinished: FAILURE", "failure"),
        ("make: done", "unknown"),
    ],
)
def test_a_log_ends_as_its_last_words_say(log, end, expected):
    ((_, record),) = log(f"Started\nsome work\n{end}\n")
    assert outcome(record) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fail.log", "failure"),
        ("pass-2.log", "success"),
        ("failure.log", "failure"),
        ("build.log", "unknown"),
    ],
)
def test_where_a_log_says_nothing_its_name_may(log, name, expected):
    ((imported, record),) = log("some work\n", name)
    assert outcome(record) == expected
    assert (imported.record["source"]["ended_by"] is None) == (expected == "unknown")


def test_what_was_said_long_before_the_end_is_no_ending(log):
    ((_, record),) = log("Finished: FAILURE\n" + "more work\n" * 1_000)
    assert outcome(record) == "unknown"


def test_a_task_is_named_by_its_folder_where_the_file_says_only_how_it_ended(tmp_path):
    for path in ("guava/fail.log", "guava/pass.log", "nightly-7.log"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x\n")
    read = checked(named("ci-log"), tmp_path, series="s")
    assert [(record.task.id, record.attempts[0].id) for _, record in read] == [
        ("guava", "guava/fail.log"),
        ("guava", "guava/pass.log"),
        ("nightly-7", "nightly-7.log"),
    ]


def test_the_last_time_in_a_log_is_its_end(log):
    ((_, record),) = log(f"{STAMP}a\n2022-05-22T17:41:03.6782153Z Finished: SUCCESS\nno time here\n")
    assert record.task.finished_at == datetime(2022, 5, 22, 17, 41, 3, 678215, tzinfo=UTC)


def test_a_whole_log_is_kept_with_a_pointer_to_its_bytes(log):
    text = "first\r\nsecond\rthird\n"
    ((_, record),) = log(text)
    assert record.events[0].text == text
    (artifact,) = record.attempts[0].artifacts
    assert artifact["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert artifact["size"] == len(text)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_of_a_log_too_long_both_ends_are_kept_with_the_numbers_of_their_lines(log, monkeypatch, ends):
    monkeypatch.setattr(ci_log, "HEAD_BYTES", 1_000)
    monkeypatch.setattr(ci_log, "_CHUNK", 100)
    monkeypatch.setattr(ci_log, "_TAIL_CHUNKS", 20)
    lines = [f"line {number} of the log" for number in range(1, 2_001)]
    ((imported, record),) = log(ends.join([*lines, "Finished: FAILURE"]))
    start, note, end = record.events
    assert outcome(record) == "failure"
    assert note.data["bytes_left_out"] > 30_000
    first = imported.record["events"][2]["data"]["first_line"]
    shown = end.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert shown[5] == lines[first + 4]
    assert start.text.startswith("line 1 of")


def test_a_file_that_is_no_text_is_left_out(log):
    (piece,) = log(b"\x7fELF\x00\x00")
    assert isinstance(piece, Unread)


def test_text_files_are_logs_where_no_log_is_named_so(log):
    ((_, record),) = log("Finished: SUCCESS\n", "nightly.txt")
    assert outcome(record) == "success"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fail.log", "failure"),
        ("failed_2.log", "failure"),
        ("nightly-pass.log", "success"),
        ("bypass.log", "unknown"),
        ("passwords.log", "unknown"),
        ("failover-tests.log", "unknown"),
    ],
)
def test_a_name_says_how_a_log_ended_only_by_a_word_of_its_own(log, name, expected):
    [(_, record)] = log("nothing that tells\n", name=name)
    assert outcome(record) == expected
