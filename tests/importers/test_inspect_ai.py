"""Inspect AI logs, really written ones and evil ones, as documents and as archives."""

from __future__ import annotations

import copy
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yume.domain.runs import Capabilities, judge
from yume.importers import archives
from yume.importers.formats import checked, named
from yume.importers.records import Unread

if sys.version_info >= (3, 14):
    import zipfile
else:
    from backports.zstd import zipfile

NOW = datetime(2027, 1, 1, tzinfo=UTC)
DATA = Path(__file__).parent / "data" / "inspect"
HEAD = {
    "version": 2,
    "status": "success",
    "eval": {"task": "sums", "task_version": 3, "model": "m", "run_id": "R"},
}
SAMPLE = {"id": 1, "epoch": 2, "input": "1 + 1", "messages": [], "scores": {"match": {"value": "C"}}}


def outcome(record):
    return judge(record, Capabilities(), now=NOW).outcome


@pytest.fixture
def document(tmp_path):
    def read(*samples, **head):
        (tmp_path / "log.json").write_text(json.dumps({**HEAD, **head, "samples": samples}))
        return list(checked(named("inspect"), tmp_path, series="s"))

    return read


@pytest.fixture
def archive(tmp_path):
    def read(members, **options):
        path = tmp_path / "log.eval"
        with zipfile.ZipFile(path, "w", **options) as packed:
            for name, content in members.items():
                packed.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
        return list(checked(named("inspect"), path, series="s"))

    return read


@pytest.mark.parametrize("name", ["sums.json", "sums.eval"])
def test_a_real_log_is_read_sample_by_sample(name):
    read = {
        record.task.id: (imported, record)
        for imported, record in checked(named("inspect"), DATA / name, series="s")
    }
    assert {task: outcome(record) for task, (_, record) in read.items()} == {
        "sums/easy": "success",
        "sums/hard": "success",
        "sums/wrong": "failure",
        "sums/broken": "unknown",
        "sums/endless": "failure",
    }
    _, hard = read["sums/hard"]
    assert [(event.kind, event.text) for event in hard.events[2:]] == [
        ("tool_call", 'add {"x":2,"y":3}'),
        ("output", "5"),
        ("assistant", "It is 5"),
    ]
    imported, wrong = read["sums/wrong"]
    assert wrong.attempts[0].verdict_details["explanation"] == "I think 15"
    assert (wrong.task.template_version, wrong.task.agent_model) == ("sums v3", "mockllm/model")
    assert imported.record["source"]["turn_count"] == 1
    _, broken = read["sums/broken"]
    assert broken.attempts[0].failure_reason == "RuntimeError('the sandbox could not be started')"
    _, endless = read["sums/endless"]
    assert endless.attempts[0].failure_reason.startswith("message limit of 5")


def test_both_forms_of_a_log_say_the_same():
    def told(name):
        pieces = checked(named("inspect"), DATA / name, series="s")
        return sorted((record.task.id, outcome(record), record.attempts[0].verdict) for _, record in pieces)

    assert told("sums.json") == told("sums.eval")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("C", "success"),
        ("I", "failure"),
        ("P", "failure"),
        ("N", "failure"),
        (1, "success"),
        (0.5, "failure"),
        (True, "success"),
        (False, "failure"),
        ("1.0", "success"),
        ("Yes", "success"),
        ("0", "failure"),
        ({"a": 1}, "unknown"),
        ("B", "unknown"),
        ("nan", "unknown"),
        ("a word", "unknown"),
        (float("nan"), "unknown"),
        (None, "unknown"),
    ],
)
def test_the_first_scorer_judges_and_less_than_all_is_a_failure(document, value, expected):
    ((_, record),) = document(SAMPLE | {"scores": {"a": {"value": value}, "b": {"value": "C"}}})
    assert outcome(record) == expected


def test_what_nobody_scored_is_unknown_and_in_a_cancelled_evaluation_cancelled(document):
    assert outcome(document(SAMPLE | {"scores": {}})[0][1]) == "unknown"
    assert outcome(document(SAMPLE | {"scores": {}}, status="cancelled")[0][1]) == "cancelled"
    assert outcome(document(SAMPLE, status="cancelled")[0][1]) == "success"


def test_an_error_of_the_surroundings_is_infrastructure_by_its_words(document):
    error = {"message": "OSError: [Errno 28] No space left on device", "traceback": "..."}
    ((_, record),) = document(SAMPLE | {"scores": {}, "error": error})
    assert outcome(record) == "infrastructure"


def test_a_limit_is_the_reason_that_a_failed_sample_gives(document):
    stopped = SAMPLE | {"scores": {"m": {"value": "I"}}, "limit": {"type": "time", "limit": 60}}
    ((_, record),) = document(stopped)
    assert record.attempts[0].failure_reason == "timed out: time limit of 60 reached"


def test_epochs_are_runs_of_one_task(document):
    read = document(SAMPLE, SAMPLE | {"epoch": 3})
    assert [(record.task.id, record.attempts[0].id) for _, record in read] == [
        ("sums/1", "R/1/2"),
        ("sums/1", "R/1/3"),
    ]


def test_a_commit_is_part_of_the_version(document):
    about = HEAD["eval"] | {"revision": {"type": "git", "commit": "0123456789abcdef"}, "solver": "react"}
    ((_, record),) = document(SAMPLE, eval=about)
    assert record.task.template_version == "sums v3@0123456789ab with react"


@pytest.mark.parametrize(
    "change",
    [
        {"messages": 3},
        {"messages": [1, {"role": 2, "content": 3, "tool_calls": 4}, {"tool_calls": [5, {}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image"}, {"text": 1}, "x"]}]},
        {"scores": []},
        {"scores": {"a": 1}},
        {"error": "x", "limit": "y"},
        {"input": [{"role": "user"}]},
        {"started_at": "2026-01-01T00:00:00", "completed_at": 3},
        {"scores": {"a": {"value": [1], "scorer": 2}}},
        {"limit": {"type": ["time"], "limit": {}}},
    ],
)
def test_odd_fields_stop_nothing(document, change):
    ((_, record),) = document(SAMPLE | change)
    assert record.task.id == "sums/1"


def test_a_head_of_another_shape_stops_nothing(document):
    ((_, record),) = document(SAMPLE, eval=[1])
    assert record.task.id == "log/1"


def test_an_unfinished_archive_has_its_head_in_the_journal(archive):
    ((_, record),) = archive({"_journal/start.json": HEAD, "samples/1_epoch_2.json": SAMPLE})
    assert record.task.id == "sums/1"


def test_a_member_that_is_no_sample_is_left_out_alone(archive):
    bad, deep, (_, record) = archive(
        {
            "header.json": HEAD,
            "samples/a.json": b"{",
            "samples/b.json": b"[" * 100_000,
            "samples/c.json": SAMPLE,
        }
    )
    assert isinstance(bad, Unread)
    assert isinstance(deep, Unread)
    assert record.task.id == "sums/1"


def test_a_member_that_swells_is_not_unpacked_whole(archive, monkeypatch):
    monkeypatch.setattr(archives, "PIECE_BYTES", 1 << 20)
    (piece,) = archive(
        {"header.json": HEAD, "samples/a.json": b" " * (20 << 20)}, compression=zipfile.ZIP_DEFLATED
    )
    assert "longer than 1 MiB" in piece.why


def test_what_is_no_archive_is_left_out(tmp_path):
    (tmp_path / "log.eval").write_bytes(b"PK\x03\x04 nothing more")
    (piece,) = checked(named("inspect"), tmp_path, series="s")
    assert "no archive that can be read" in piece.why


@pytest.mark.parametrize("eighths", range(1, 8))
def test_an_archive_cut_short_is_left_out(tmp_path, eighths):
    whole = (DATA / "sums.eval").read_bytes()
    (tmp_path / "log.eval").write_bytes(whole[: len(whole) * eighths // 8])
    (piece,) = checked(named("inspect"), tmp_path, series="s")
    assert isinstance(piece, Unread)


@pytest.mark.parametrize("damage", [b"\x00", b"\xff", b"\x00" * 40])
def test_a_damaged_archive_stops_nothing(tmp_path, damage):
    whole = (DATA / "sums.eval").read_bytes()
    for place in range(0, len(whole), 29):
        damaged = whole[:place] + damage + whole[place + len(damage) :]
        (tmp_path / "log.eval").write_bytes(damaged)
        for piece in checked(named("inspect"), tmp_path, series="s"):
            assert isinstance(piece, Unread) or piece[1].task.id.count("/") == 1


def test_an_archive_with_a_broken_header_still_has_its_samples(archive):
    ((_, record),) = archive({"header.json": b"{", "samples/1_epoch_2.json": SAMPLE})
    assert record.task.id == "log/1"


def test_an_archive_with_too_many_members_is_left_out(archive, monkeypatch):
    monkeypatch.setattr(archives.Guarded, "largest", 1_000)
    members = {f"samples/{number}.json": SAMPLE for number in range(40)}
    (piece,) = archive(members)
    assert "its list of members is longer than" in piece.why
    assert len(archive({"samples/1.json": SAMPLE})) == 1


def test_a_packing_that_nobody_knows_costs_its_member_alone(archive, tmp_path):
    archive({"header.json": HEAD, "samples/1.json": SAMPLE, "samples/2.json": SAMPLE | {"epoch": 3}})
    path = tmp_path / "log.eval"
    data = bytearray(path.read_bytes())
    member = data.index(b"samples/1.json", data.index(b"PK\x01\x02")) - 46  # in the list of members
    data[member + 10] = 77
    path.write_bytes(data)
    unknown, (_, record) = checked(named("inspect"), path, series="s")
    assert "it cannot be read" in unknown.why
    assert record.attempts[0].id == "R/1/3"


@pytest.mark.parametrize("eighths", range(1, 8))
def test_a_document_cut_short_gives_the_samples_before_the_cut(tmp_path, eighths):
    whole = (DATA / "sums.json").read_text()
    order = [each["id"] for each in json.loads(whole)["samples"]]
    (tmp_path / "log.json").write_text(whole[: len(whole) * eighths // 8])
    *read, last = checked(named("inspect"), tmp_path, series="s")
    assert [record.task.id.partition("/")[2] for _, record in read] == order[: len(read)]
    assert "the rest cannot be read" in last.why
    assert read or eighths < 5


def test_numbers_that_are_none_hide_no_sample(tmp_path, document, archive):
    results = {"scores": [{"metrics": {"stderr": {"value": float("nan"), "to": float("-inf")}}}]}
    ((_, record),) = document(SAMPLE, results=results)
    assert outcome(record) == "success"
    scored = {"m": {"value": float("nan"), "explanation": "nobody could tell"}}
    ((imported, record),) = archive({"header.json": HEAD, "samples/1.json": SAMPLE | {"scores": scored}})
    assert outcome(record) == "unknown"
    assert imported.record["source"]["scores"]["m"]["value"] is None
    assert record.attempts[0].verdict_details["explanation"] == "nobody could tell"


def test_what_is_not_known_is_kept_and_so_are_the_other_scorers(document):
    scores = {"a": {"value": "C"}, "b": {"value": 0.25}}
    ((imported, _),) = document(SAMPLE | {"scores": scores, "new_field": [1]})
    assert imported.record["source"]["new_field"] == [1]
    assert imported.record["source"]["scores"] == scores


def test_a_value_of_any_size_is_a_value(archive):
    scores = {"a": {"value": 10**400}}
    ((_, record),) = archive({"header.json": HEAD, "samples/1.json": SAMPLE | {"scores": scores}})
    assert outcome(record) == "success"


def test_a_conversation_asks_what_its_user_says_last(document):
    said = [{"role": "user", "content": "Hello"}, {"role": "user", "content": [{"text": "Add 1 and 1"}]}]
    ((_, record),) = document(SAMPLE | {"input": [*said, {"role": "assistant", "content": "I will"}]})
    assert record.task.title == "Add 1 and 1"


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda each: st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=4), each, max_size=2),
    max_leaves=4,
)
REAL = json.loads((DATA / "sums.json").read_text())
INNER = ("messages", "scores", "error", "limit", "input")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_field_of_any_other_type_stops_nothing(tmp_path, data):
    log = copy.deepcopy(REAL)
    sample = data.draw(st.sampled_from(log["samples"]))
    inner = sample.get(data.draw(st.sampled_from(INNER)))
    target = data.draw(
        st.sampled_from([log, log["eval"], sample, *([inner] if isinstance(inner, dict) else [])])
    )
    if target:
        target[data.draw(st.sampled_from(sorted(target)))] = data.draw(ODD)
    (tmp_path / "log.json").write_text(json.dumps(log))
    for piece in checked(named("inspect"), tmp_path, series="s"):
        assert isinstance(piece, Unread) or outcome(piece[1])
