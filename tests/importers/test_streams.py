"""Files read piece by piece: numbers of lines, limits, and what cannot be read."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from yume.errors import PermanentError
from yume.importers import streams
from yume.importers.records import Imported, Unread
from yume.importers.streams import File, files, json_pieces


@pytest.fixture
def pieces(tmp_path):
    def read(content: str | bytes, name: str = "runs.jsonl", **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        made = json_pieces(File(path, name), lambda _, place, item: Imported(place, item), **options)
        return list(made)

    return read


def test_a_line_that_cannot_be_read_is_named_by_its_number_and_stops_nothing(pieces):
    first, broken, last = pieces('{"a": 1}\n\n{"a": \n{"a": 2}\n')
    assert (first.place, first.record) == ("runs.jsonl line 1", {"a": 1})
    assert isinstance(broken, Unread)
    assert broken.place == "runs.jsonl line 3"
    assert "no JSON" in broken.why
    assert (last.place, last.record) == ("runs.jsonl line 4", {"a": 2})


def test_a_line_that_is_no_object_is_left_out(pieces):
    assert [each.why for each in pieces('[1]\n"x"\n')] == [
        "an object was expected, not [1]",
        'an object was expected, not "x"',
    ]


def test_odd_bytes_and_a_byte_order_mark_are_read(pieces):
    (piece,) = pieces(b'\xef\xbb\xbf{"a": "\xff\\ud800"}\r\n')
    assert piece.record["a"] == "\ufffd\ud800"


def test_a_line_nested_too_deeply_is_left_out(pieces):
    (piece,) = pieces("[" * 200_000 + "\n")
    assert isinstance(piece, Unread)


def test_a_line_over_the_limit_is_left_out_and_the_next_is_read(pieces, monkeypatch):
    monkeypatch.setattr(streams, "PIECE_BYTES", 100)
    long, after = pieces(json.dumps({"a": "x" * 1_000}) + '\n{"a": 2}\n')
    assert isinstance(long, Unread)
    assert long.place == "runs.jsonl line 1"
    assert (after.place, after.record) == ("runs.jsonl line 2", {"a": 2})


def test_the_last_line_needs_no_newline(pieces):
    assert [each.record for each in pieces('{"a": 1}\n{"a": 2}')] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("name", ["runs.json", "runs.txt"])
def test_a_list_in_one_document_is_read_item_by_item(pieces, name):
    found = pieces(json.dumps([{"a": 1}, {"a": 2.5}], indent=1), name)
    assert [(each.place, each.record) for each in found] == [
        (f"{name} item 1", {"a": 1}),
        (f"{name} item 2", {"a": 2.5}),
    ]


def test_items_inside_a_document_are_found_by_their_prefix(pieces):
    whole = json.dumps({"head": 1, "results": [{"a": 1}, {"a": 2}]})
    found = pieces(whole, "results.json", items="results.item")
    assert [each.record for each in found] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("cut", range(2, 40, 3))
def test_a_document_cut_short_gives_what_came_before_the_cut(pieces, cut):
    whole = json.dumps([{"a": number} for number in range(4)])
    found = pieces(whole[:cut], "runs.json")
    assert [each.record["a"] for each in found[:-1]] == list(range(len(found) - 1))
    assert isinstance(found[-1], Unread)
    assert found[-1].place == f"runs.json after item {len(found) - 1}"


def test_an_item_over_the_limit_ends_the_document(pieces, monkeypatch):
    monkeypatch.setattr(streams, "PIECE_BYTES", 200_000)
    good, bad = pieces(json.dumps([{"a": 1}, {"a": ["x" * 1_000] * 1_000}, {"a": 2}]), "runs.json")
    assert good.record == {"a": 1}
    assert "no item ends within" in bad.why


def test_many_small_items_stay_under_the_limit(pieces, monkeypatch):
    monkeypatch.setattr(streams, "PIECE_BYTES", 200_000)
    assert len(pieces(json.dumps([{"a": "x" * 1_000}] * 1_000), "runs.json")) == 1_000


def test_nothing_is_found_in_an_empty_file(pieces):
    assert pieces("") == []
    assert pieces(" \n\n") == []


def test_files_come_by_path_and_their_names_say_where_they_lie(tmp_path):
    for name in ("b/x.jsonl", "a.jsonl", "b/y.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [each.name for each in files(tmp_path, "*.jsonl")] == ["a.jsonl", "b/x.jsonl"]


def test_a_place_that_is_not_there_and_a_folder_without_files_are_named(tmp_path):
    with pytest.raises(PermanentError, match="no such file or folder"):
        files(tmp_path / "none", "*.jsonl")
    with pytest.raises(PermanentError, match=r"no file named \*\.jsonl or \*\.json"):
        files(tmp_path, "*.jsonl", "*.json")


@pytest.mark.parametrize(("seconds", "year"), [(-3e9, "1970"), (1.7e9, "2023"), (9e12, "2999")])
def test_a_file_of_a_clock_gone_wrong_has_a_time_that_the_contract_takes(seconds, year):
    path = SimpleNamespace(stat=lambda: SimpleNamespace(st_mtime=seconds))  # few file systems keep such times
    assert File(path, "a.jsonl").modified.startswith(year)
