from __future__ import annotations

import string
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.fingerprints import fingerprint, normalise

word = st.text(string.ascii_letters + "_", min_size=1, max_size=10)
number = st.one_of(
    st.integers(0, 10**9).map(str),
    st.floats(0, 10**6, allow_nan=False).map("{:.3f}".format),
    st.integers(0, 2**40).map(hex),
)
seconds = st.floats(0, 10**6, allow_nan=False).map("{:.1f}".format)
path = st.one_of(
    st.lists(word, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts) + ".py"),
    st.lists(word, min_size=1, max_size=5).map(lambda parts: "C:\\" + "\\".join(parts)),
    st.lists(word, min_size=1, max_size=3).map(lambda parts: "./" + "/".join(parts)),
    st.lists(word, min_size=2, max_size=4).map(lambda parts: "/".join(parts) + ".yaml"),
)
inner = st.text(string.ascii_letters + string.digits + " /.-中文", max_size=20)
quoted = (
    st.tuples(inner, st.sampled_from(["''", '""', "``", "「」", "“”", "\u2018\u2019"]))
    .map(lambda pair: pair[1][0] + pair[0] + pair[1][1])
    .filter(lambda text: text != "``")
)
moment = st.datetimes().map(lambda at: at.isoformat())
uuid = st.uuids().map(str)
any_text = st.text(st.characters(exclude_categories=()), max_size=200)
spiky = st.lists(
    st.sampled_from(
        [
            "'",
            '"',
            "`",
            "1",
            "a",
            "/",
            "\\",
            ".",
            "-",
            ":",
            " ",
            "<n>",
            "0x",
            "tmp",
            "「",
            "İ",
            "\n",
            "\uff18",
        ]
    ),
    max_size=30,
).map("".join)


@given(st.tuples(number, path, quoted, moment, uuid), st.tuples(number, path, quoted, moment, uuid))
def test_a_message_has_one_fingerprint_whatever_varies_in_it(one, other):
    message = "cannot open {1} at line {0}: no section {2} (since {3}, request {4})"
    assert fingerprint(message.format(*one)) == fingerprint(message.format(*other))


@given(st.tuples(path, seconds, number), st.tuples(path, seconds, number))
def test_places_in_a_file_do_not_matter(one, other):
    message = "error in {0}: took {1}s, 任务在第{2}行失败"
    assert normalise(message.format(*one)) == normalise(message.format(*other))


@given(st.one_of(any_text, spiky))
def test_normalising_twice_is_normalising_once(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    "text",
    ["1a" * 5_000, "'a' " * 5_000, "/a b " * 5_000, "<pa" * 5_000, "e1tmpetmpmn", '" `nz>e月/tmp\\"a.\''],
)
def test_a_text_that_one_pass_leaves_unfinished_is_normalised_to_the_end(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\x1b[31mKeyError: 'a'\x1b[0m", 'KeyError: "b"'),
        ("at 0xDEADBEEF", "at 0xcafe"),
        ("commit 1234abc failed", "commit deadbeefdeadbeefdeadbeefdeadbeefdeadbeef failed"),
        ("a.py:3: E", "src/b.py:12:5: E"),
        ("took 3 seconds", "took 1.5ms"),
        ("took 3s", "took 1m30s"),
        ("2026-01-02T03:04:05Z down", "2025-12-31 23:59:59.123 down"),
        ("at 12:05", "at 12:5:33"),
        ("in /tmp/tmpab12cd/x", "in /var/folders/zz/T/y.txt"),
        ("file tmpx8_k2q9z missing", "file tmp0abc_d1e missing"),
        ("文件「甲」不存在", "文件「乙乙」不存在"),
        ("got [1, 2, 3]", "got [4]"),
        ("see https://a.example/x?y=1", "see http://b.example/"),
        ("3 MB left", "12 GB left"),
        ("   spaced   out\n\n\nlines ", "spaced out\nlines"),
        ("UPPER case", "upper CASE"),
        ("at \uff11\uff12", "at 7"),
    ],
)
def test_variations_of_one_error_meet(one, other):
    assert normalise(one) == normalise(other)


def test_different_errors_stay_apart():
    errors = [
        "expected line ends in LF",
        "expected 9 before 10",
        "KeyError: 'a'",
        "ValueError: 'a'",
        "cannot open /a/b",
        "cannot close /a/b",
        "don't do that, it can't work",
        "文件不存在",
        "文件无法读取: /tmp/甲",
        "timed out after 30s",
        "assert 1 == 2",
        "assert 1 in [2]",
        "/a/b不存在",
        "/a/b已存在",
    ]
    assert all(fingerprint(one) != fingerprint(other) for one, other in combinations(errors, 2))


def test_a_fingerprint_is_sixteen_hex_digits():
    assert len(fingerprint("x")) == 16
    assert int(fingerprint("x"), 16) >= 0


def test_a_lone_surrogate_has_a_fingerprint():
    assert fingerprint("a\ud800") == fingerprint("a")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["a/", "'", '"\\', "a.", "1-", "0x", "tmp_", "a ", "/", "\\", "<n>", "deadbeef-", "a1"]
)
def test_no_text_makes_masking_slow(piece):
    assert fingerprint(piece * 100_000)
