from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.pointers import child, resolve
from yume.domain.signals import Pointer
from yume.errors import PermanentError

RAW = json.dumps(
    {"runs": [{"exit_code": 137, "log": "a\rb\x1b[1mc\r\nd", "cost": None}], "a/b": {"~": "x"}}
).encode()


@pytest.mark.parametrize(
    ("path", "first", "last", "text"),
    [
        ("/runs/0/log", 1, 1, "a"),
        ("/runs/0/log", 2, 3, "bc\nd"),
        ("/runs/0/exit_code", 1, 1, "137"),
        ("/runs/0/cost", 1, 1, "null"),
        ("/a~1b/~0", 1, 1, "x"),
        ("/a~1b", 1, 1, '{"~":"x"}'),
    ],
)
def test_a_pointer_leads_to_its_cleaned_lines(path, first, last, text):
    assert resolve(RAW, Pointer(path, first, last)) == text


@pytest.mark.parametrize("path", ["/runs/1", "/runs/x", "/nothing", "/runs/0/exit_code/0", "/runs/0/log/0"])
def test_a_pointer_to_nothing_is_an_error_that_names_it(path):
    with pytest.raises(PermanentError, match=f"nothing at {path}"):
        resolve(RAW, Pointer(path, 1, 1))


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (3, 4), (4, 4)])
def test_lines_that_are_not_there_are_an_error_with_their_number(first, last):
    with pytest.raises(PermanentError, match=f"has 3 lines, the signal points at {first}-{last}"):
        resolve(RAW, Pointer("/runs/0/log", first, last))


@given(st.text("a~/1 0", max_size=8))
def test_any_key_can_be_pointed_at(key):
    assert resolve(json.dumps({key: "found"}).encode(), Pointer(child("", key), 1, 1)) == "found"
