"""What holds for every format: names, the contract, and what is no run at all."""

from __future__ import annotations

import json

import pytest

from yume.domain.reading import read_record, write_document
from yume.errors import PermanentError
from yume.importers.formats import FORMATS, checked, named
from yume.importers.records import Unread

SETS = {
    "terminal-bench": "tbench_orca",
    "tau-bench": "tau_airline",
    "agbench": "agbench",
    "swe-bench": "swebench_pro",
    "ci-log": "cidiff_logs",
}


@pytest.mark.parametrize("format_", FORMATS, ids=lambda each: each.name)
def test_a_format_is_found_by_each_of_its_names_however_it_is_written(format_):
    for name in format_.names:
        for spelt in (name, name.upper(), name.replace("-", "_"), name.replace("-", "")):
            assert named(spelt) is format_


def test_names_are_told_apart():
    names = [name for each in FORMATS for name in each.names]
    assert len({name.replace("-", "") for name in names}) == len(names)


def test_an_unknown_format_is_answered_with_those_that_are_known():
    with pytest.raises(PermanentError, match="'csv' is no format that Yume reads; these are: contract, term"):
        named("csv")


@pytest.mark.parametrize(("name", "folder"), SETS.items())
def test_every_record_of_the_real_sets_comes_back_from_its_bytes(shared_data, name, folder):
    pieces = list(checked(named(name), shared_data / folder, series="s"))
    read = [piece for piece in pieces if not isinstance(piece, Unread)]
    assert read
    assert len(read) == len(pieces)
    for imported, record in read:
        assert read_record(write_document(imported.record)) == record
    assert len({(record.task.id, record.attempts[0].id) for _, record in read}) == len(read)


GARBAGE = {
    "binary": bytes(range(256)) * 40,
    "another tool": b'{"kind": "weather", "degrees": 3}\n' * 3,
    "a list of numbers": b"[1, 2, 3]",
    "empty objects": b"{}\n{}\n",
    "html": b"<!doctype html><title>Sign in</title><p>Please sign in.</p>",
    "prose": "这里没有任何运行记录\n".encode() * 5,
}
SPEAKS_PROSE = {"ci-log"}  # any text is a log


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("format_", FORMATS, ids=lambda each: each.name)
def test_what_is_no_run_of_the_format_is_left_out_and_never_invented(tmp_path, format_, content):
    path = tmp_path / "results.json"
    path.write_bytes(content)
    pieces = list(checked(format_, path, series="s"))
    invented = [piece for piece in pieces if not isinstance(piece, Unread)]
    if format_.name not in SPEAKS_PROSE:
        assert not invented
    for _, record in invented:
        assert all(attempt.verdict is None for attempt in record.attempts)


@pytest.mark.parametrize("format_", FORMATS, ids=lambda each: each.name)
def test_an_empty_file_holds_no_run(tmp_path, format_):
    path = tmp_path / "results.json"
    path.write_bytes(b"")
    assert not [piece for piece in checked(format_, path, series="s") if not isinstance(piece, Unread)]


def test_a_record_that_breaks_the_contract_is_left_out_with_the_place_in_it(tmp_path):
    good = {"task": {"id": "a", "series_id": "s", "status": "failed", "finished_at": "2026-01-01T00:00:00Z"}}
    bad = {"task": good["task"] | {"finished_at": "2026-01-01T00:00:00"}}
    (tmp_path / "runs.jsonl").write_text(f"{json.dumps(bad)}\n{json.dumps(good)}\n")
    broken, (imported, record) = checked(named("contract"), tmp_path, series="s")
    assert broken == Unread(
        "runs.jsonl line 1", "/task/finished_at: a time without zone: '2026-01-01T00:00:00'"
    )
    assert (imported.record, record.task.id) == (good, "a")


def test_a_record_nested_too_deeply_to_be_kept_is_left_out_alone(tmp_path):
    task = {"id": "a", "series_id": "s", "status": "failed", "finished_at": "2026-01-01T00:00:00Z"}
    deep = json.dumps({"task": task})[:-1] + ', "x": ' + "[" * 5_000 + "]" * 5_000 + "}"
    (tmp_path / "runs.json").write_text(f"[{deep}, {json.dumps({'task': task})}]")
    left_out, (_, record) = checked(named("contract"), tmp_path, series="s")
    assert left_out == Unread("runs.json item 1", "nested too deeply to be kept")
    assert record.task.id == "a"


def test_a_number_too_long_for_any_reader_ends_its_piece_and_not_the_program(tmp_path):
    (tmp_path / "runs.jsonl").write_text('{"task": ' + "9" * 5_000 + "}\n")
    (tmp_path / "runs.json").write_text('[{"task": ' + "9" * 5_000 + "}]")
    assert all(isinstance(piece, Unread) for piece in checked(named("contract"), tmp_path, series="s"))


def test_a_file_that_goes_away_while_it_is_read_is_named(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    path.write_text("{}\n")

    def gone(_path, _mode):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr("pathlib.Path.open", gone)
    with pytest.raises(PermanentError, match=r"runs\.jsonl cannot be read: No such file or directory"):
        list(checked(named("contract"), path, series="s"))
