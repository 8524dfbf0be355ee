"""Plain CI logs: how they ended by their own last words, on real ones and on the forms of other CIs."""

from __future__ import annotations

import gzip
import hashlib
import random
from datetime import UTC, datetime

import pytest

from yume.domain.extraction import extract
from yume.domain.runs import Capabilities, judge
from yume.errors import PermanentError
from yume.importers import ci_text
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
        (f"{STAMP}Cleaning up orphan processes", "unknown"),
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


@pytest.mark.parametrize("stamp", ["9999-12-31T23:59:59Z", "1969-01-01T00:00:00Z", "2022-13-40T99:00:00Z"])
def test_a_time_that_no_record_can_hold_loses_neither_the_log_nor_the_time_before(log, stamp):
    ((_, record),) = log(f"{STAMP}a\n{stamp} Finished: SUCCESS\n")
    assert outcome(record) == "success"
    assert record.task.finished_at == datetime(2022, 5, 22, 17, 40, 3, 678215, tzinfo=UTC)
    ((imported, _),) = log(f"{stamp} Finished: SUCCESS\n")
    assert imported.record["task"]["finished_at_from"] == "file"


def test_a_time_with_an_offset_is_taken_and_one_without_a_zone_is_not(log):
    ((_, record),) = log("[2022-05-22T17:40:03,500+0200] a\n2022-05-23 17:40:03 Finished: SUCCESS\n")
    assert record.task.finished_at == datetime(2022, 5, 22, 15, 40, 3, 500_000, tzinfo=UTC)
    assert outcome(record) == "success"


def test_a_whole_log_is_kept_with_a_pointer_to_its_bytes(log):
    text = "first\r\nsecond\rthird\n"
    ((_, record),) = log(text)
    assert record.events[0].text == text
    (artifact,) = record.attempts[0].artifacts
    assert artifact["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert artifact["size"] == len(text)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_of_a_log_too_long_whole_lines_of_both_ends_are_kept_with_their_numbers(log, monkeypatch, ends):
    monkeypatch.setattr(ci_text, "HEAD_BYTES", 1_000)
    monkeypatch.setattr(ci_text, "CHUNK_BYTES", 99)
    monkeypatch.setattr(ci_text, "TAIL_BYTES", 2_000)
    lines = [f"line {number} of the log" for number in range(1, 2_001)] + ["Finished: FAILURE"]
    text = ends.join(lines)
    ((imported, record),) = log(text)
    start, note, end = record.events
    first = imported.record["events"][2]["data"]["first_line"]
    head, tail = start.text.split(ends), end.text.split(ends)
    assert outcome(record) == "failure"
    assert head == [*lines[: len(head) - 1], ""]
    assert tail == lines[first - 1 :]
    assert 900 < len(start.text) <= 1_000
    assert 2_000 <= len(end.text) < 2_200
    assert note.data["bytes_left_out"] == len(text) - len(start.text) - len(end.text)


def test_a_line_longer_than_what_is_kept_is_cut(log, monkeypatch):
    monkeypatch.setattr(ci_text, "HEAD_BYTES", 1_000)
    monkeypatch.setattr(ci_text, "LINE_BYTES", 500)
    monkeypatch.setattr(ci_text, "CHUNK_BYTES", 100)
    monkeypatch.setattr(ci_text, "TAIL_BYTES", 2_000)
    ((_, record),) = log("x" * 10_000 + "\nFinished: SUCCESS\n")
    assert outcome(record) == "success"
    assert 500 <= record.events[0].text.count("x") <= 1_000


def test_a_file_that_is_no_text_is_left_out(log):
    (piece,) = log(b"\x7fELF\x00\x00")
    assert isinstance(piece, Unread)


def test_packed_bytes_are_left_out_with_the_way_to_read_them(log):
    (piece,) = log(gzip.compress(random.Random(1).randbytes(10_000)))
    assert isinstance(piece, Unread)
    assert "control characters; if it is packed, unpack it first" in piece.why


@pytest.mark.parametrize("junk", ["\x00", "\x00" * 4_096, "\x07\x1b[31m\b\b\f"])
def test_single_control_characters_and_a_run_of_zero_bytes_do_not_lose_a_log(log, junk):
    ((_, record),) = log(f"Started\n{junk} some work\nFinished: FAILURE\n")
    assert outcome(record) == "failure"
    ((_, record),) = log(f"a{junk}b\n")
    assert outcome(record) == "unknown"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_log_with_a_mark_of_its_encoding_is_read(log, encoding):
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    ((_, record),) = log(f"{mark}Finished: SUCCESS".encode(encoding))
    assert outcome(record) == "success"


def test_logs_of_both_names_are_read_but_no_document_beside_them(tmp_path):
    for name in ("a.log", "b.txt", "c/d.txt", "LICENSE.txt", "README.txt", "c/requirements-dev.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("Finished: SUCCESS\n")
    read = checked(named("ci-log"), tmp_path, series="s")
    assert [imported.place for imported, _ in read] == ["a.log", "b.txt", "c/d.txt"]


def test_a_document_is_read_where_it_alone_is_asked_about(tmp_path):
    path = tmp_path / "NOTICE.txt"
    path.write_text("Finished: SUCCESS\n")
    ((_, record),) = checked(named("ci-log"), path, series="s")
    assert outcome(record) == "success"
    with pytest.raises(PermanentError, match=r"no log in it, only NOTICE\.txt; a log is named \*\.log"):
        list(checked(named("ci-log"), tmp_path, series="s"))


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
