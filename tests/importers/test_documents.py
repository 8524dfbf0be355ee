"""Documents read in one pass: fields of the top wherever they stand, and numbers that are none."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.importers import documents, streams
from yume.importers.documents import Nulled, head, items, zoned
from yume.importers.records import Unread
from yume.importers.streams import File


@pytest.fixture
def file(tmp_path):
    def written(content):
        path = tmp_path / "log.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return File(path, path.name)

    return written


def test_fields_of_the_top_are_found_before_and_after_all_else(file):
    whole = {"a": 1, "tests": {"a": 2, "b": {"c": 3}}, "b": {"x": [1, {"y": None}]}, "c": "z"}
    assert head(file(whole), ("a", "b", "none")) == {"a": 1, "b": {"x": [1, {"y": None}]}}


def test_the_fields_before_a_break_are_found(file):
    assert head(file('{"a": 1, "b": {"x": 2}, "c": [1, '), ("a", "b", "c")) == {"a": 1, "b": {"x": 2}}


@pytest.mark.parametrize("content", ["", "[]", '[{"a": 1}]', '"a"', "{", "no JSON"])
def test_a_document_of_another_shape_has_no_fields(file, content):
    assert head(file(content), ("a",)) == {}


def test_a_field_with_too_many_values_is_left_out_alone(file, monkeypatch):
    monkeypatch.setattr(documents, "FIELD_VALUES", 50)
    assert head(file({"a": [0] * 60, "b": [0] * 10, "c": 1}), ("a", "b", "c")) == {"b": [0] * 10, "c": 1}


def test_a_text_without_end_is_given_up(file, monkeypatch):
    monkeypatch.setattr(streams, "PIECE_BYTES", 200_000)
    assert head(file({"a": 1, "x": "y" * 1_000_000, "b": 2}), ("a", "b")) == {"a": 1}
    assert head(file({"a": 1, "x": ["y" * 1_000] * 1_000, "b": 2}), ("a", "b")) == {"a": 1, "b": 2}


def test_items_are_numbered_and_end_where_the_document_breaks(file):
    first, last = items(file('{"samples": [{"a": NaN}, {"a": '), "samples.item")
    assert first == (1, {"a": None})
    assert isinstance(last, Unread)
    assert last.place == "log.json after item 1"


WORDS = st.sampled_from(["NaN", "-Infinity", '"', "\\", "\\n", " NaN,", "Infinity", "a", "aNaN"])
VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | st.lists(WORDS).map("".join),
    lambda each: st.lists(each) | st.dictionaries(st.lists(WORDS).map("".join), each),
)


@given(VALUES, st.integers(1, 30))
def test_numbers_that_are_none_become_null_and_texts_stay(value, size):
    written, nulled = json.dumps(value), Nulled(io.BytesIO(json.dumps(value).encode()))
    read = b"".join(iter(lambda: nulled.read(size), b""))
    assert json.loads(read) == json.loads(written, parse_constant=lambda _: None)


@pytest.mark.parametrize(
    ("time", "taken"),
    [
        ("2023-08-17T00:14:27+00:00", True),
        ("2023-08-17T00:14:27Z", True),
        ("2023-08-03-08:29", False),
        ("2023-08-17T00:14:27", False),
        ("2023-99-99T00:00:00+00:00", False),
        ("0001-01-01T00:00:00+00:00", False),
        ("", False),
        (3, False),
        (None, False),
    ],
)
def test_only_a_time_with_its_zone_is_taken(time, taken):
    assert zoned(time) == (time if taken else None)
