from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.reading import read_record
from yume.domain.runs import BrokenRecord

WHOLE = {
    "task": {"id": "T", "series_id": "s", "status": "failed", "finished_at": "2026-01-01T00:00:00Z"},
    "runs": [{"id": "R", "task_id": "T", "attempt": 1}],
    "events": [{"at": "2026-01-01T00:00:00Z", "kind": "log"}],
    "inquiries": [{"id": "Q", "task_id": "T"}],
}
REQUIRED = [
    *(("task", name) for name in ("id", "series_id", "status", "finished_at")),
    *(("runs", name) for name in ("id", "task_id", "attempt")),
    *(("events", name) for name in ("at", "kind")),
    *(("inquiries", name) for name in ("id", "task_id")),
]


def changed(part, name, *value):
    whole = json.loads(json.dumps(WHOLE))
    row = whole[part] if part == "task" else whole[part][0]
    row.pop(name, None)
    if value:
        row[name] = value[0]
    return json.dumps(whole).encode()


def test_the_least_that_the_contract_asks_for_is_a_record():
    record = read_record(json.dumps(WHOLE).encode())
    assert (record.task.id, record.attempts[0].number, record.events[0].kind) == ("T", 1, "log")
    assert not record.attempts[0].verdict_stated


@pytest.mark.parametrize(("part", "name"), REQUIRED)
def test_a_required_field_that_is_missing_is_named_by_its_path(part, name):
    path = f"/task/{name}" if part == "task" else f"/{part}/0/{name}"
    with pytest.raises(BrokenRecord, match="required field is missing") as caught:
        read_record(changed(part, name))
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("part", "name"), [("task", "finished_at"), ("runs", "started_at"), ("events", "at")]
)
def test_a_time_without_zone_is_refused_by_path(part, name):
    with pytest.raises(BrokenRecord, match=rf"/{name}: a time without zone: '2026-01-01T00:00:00'"):
        read_record(changed(part, name, "2026-01-01T00:00:00"))


def test_a_time_with_any_zone_is_read():
    assert read_record(changed("runs", "started_at", "2026-01-01T08:00:00+08:00")).attempts[0].started_at


def test_unknown_fields_are_ignored():
    assert read_record(changed("runs", "shoe_size", {"eu": 42})).attempts[0].id == "R"


def test_a_number_stands_for_its_text_where_text_is_expected():
    assert read_record(changed("task", "id", 4711)).task.id == "4711"


@pytest.mark.parametrize("word", ["passed", "", 1, True])
def test_a_verdict_of_another_word_is_refused(word):
    with pytest.raises(BrokenRecord, match="/runs/0/verdict: 'pass', 'fail' or null was expected"):
        read_record(changed("runs", "verdict", word))


def test_a_verdict_of_null_is_stated_and_an_absent_one_is_not():
    assert read_record(changed("runs", "verdict", None)).attempts[0].verdict_stated
    assert not read_record(changed("runs", "verdict")).attempts[0].verdict_stated


@pytest.mark.parametrize(("sent", "read"), [(0, "0"), (None, "0"), (7, "7"), ("v7", "v7")])
def test_no_memory_is_version_zero(sent, read):
    assert read_record(changed("runs", "memory_version", sent)).attempts[0].memory_version == read


def test_an_absent_memory_version_is_unknown():
    assert read_record(changed("runs", "memory_version")).attempts[0].memory_version is None


@pytest.mark.parametrize("sent", [1.5, "one", True, [], 1e999])
def test_an_exit_code_that_is_no_whole_number_is_refused(sent):
    with pytest.raises(BrokenRecord, match="/runs/0/exit_code"):
        read_record(changed("runs", "exit_code", sent))


def test_attempts_are_put_in_order_and_keep_their_place():
    whole = WHOLE | {"runs": [{"id": f"R{n}", "task_id": "T", "attempt": n} for n in (3, 1, 2)]}
    attempts = read_record(json.dumps(whole).encode()).attempts
    assert [(each.number, each.index) for each in attempts] == [(1, 1), (2, 2), (3, 0)]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not json",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b'{"task": 1}',
        b'{"runs": {}}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"task": ' + b"9" * 5_000 + b"}",
    ],
)
def test_bytes_that_are_no_record_are_a_broken_record_and_never_a_crash(raw):
    with pytest.raises(BrokenRecord):
        read_record(raw)


def test_deep_data_beside_the_contract_breaks_nothing():
    raw = json.dumps(WHOLE).encode()[:-1] + b', "more": ' + b"[" * 500 + b"]" * 500 + b"}"
    assert read_record(raw).task.id == "T"


def test_dirty_bytes_are_kept_for_the_door_to_clean():
    raw = changed("events", "text", "MARK").replace(b"MARK", rb"a\u0000b\ud800" + b"\xff")
    assert read_record(raw).events[0].text == "a\x00b\ud800\ufffd"


def test_not_a_number_and_keys_given_twice_are_read():
    raw = json.dumps(WHOLE).encode()[:-1] + b', "cost": NaN, "events": []}'
    assert read_record(raw).events == ()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_a_broken_record(raw):
    with pytest.raises(BrokenRecord):
        read_record(raw)


@pytest.mark.parametrize("year", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_no_table_can_hold_is_refused_by_its_path(year):
    task = {
        "id": "t",
        "series_id": "s",
        "status": "failed",
        "finished_at": "2026-11-30T12:00:00Z",
        "started_at": year,
    }
    raw = json.dumps({"task": task, "runs": [], "events": [], "inquiries": []}).encode()
    with pytest.raises(BrokenRecord, match=r"/task/started_at: a time outside of 1970 to 2999"):
        read_record(raw)
