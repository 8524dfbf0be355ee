"""JUnit XML: reports that pytest and node really wrote, and what evil or broken ones come to."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from yume.domain.runs import Capabilities, judge
from yume.importers import junit_reader
from yume.importers.formats import checked, named
from yume.importers.records import Unread

NOW = datetime(2027, 1, 1, tzinfo=UTC)
DATA = Path(__file__).parent / "data"

TESTS = """
import pytest, sys

def test_adds(): assert 1 + 1 == 2
def test_carries(): print("carrying", file=sys.stderr); assert 0.1 + 0.2 == 0.3
@pytest.mark.skip("not today")
def test_waits(): pass
@pytest.fixture
def broken(): raise OSError(28, "No space left on device")
def test_writes(broken): pass
@pytest.mark.parametrize("n", [1, 2])
def test_each(n): assert n == 1
"""


def outcome(record):
    return judge(record, Capabilities(), now=NOW).outcome


@pytest.fixture
def cases(tmp_path):
    def read(body, *, head='<?xml version="1.0"?>', name="report.xml"):
        path = tmp_path / name
        path.write_bytes(body if isinstance(body, bytes) else (head + body).encode())
        return list(checked(named("junit"), tmp_path, series="s"))

    return read


def case(inner="", **attributes):
    stated = {"classname": "tests.Sums", "name": "adds", "time": "0.1"} | attributes
    shown = " ".join(f'{name}="{value}"' for name, value in stated.items())
    return f"<testsuites><testsuite name='s'><testcase {shown}>{inner}</testcase></testsuite></testsuites>"


def test_what_pytest_writes_is_read_case_by_case(tmp_path):
    (tmp_path / "test_sums.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    command += ["-o", "junit_logging=all"]
    subprocess.run([*command, "test_sums.py"], cwd=tmp_path, capture_output=True, check=False, timeout=60)
    read = list(checked(named("junit"), tmp_path, series="sums"))
    assert {record.task.id: outcome(record) for _, record in read} == {
        "test_sums::test_adds": "success",
        "test_sums::test_carries": "failure",
        "test_sums::test_waits": "cancelled",
        "test_sums::test_writes": "infrastructure",
        "test_sums::test_each[1]": "success",
        "test_sums::test_each[2]": "failure",
    }
    (carries,) = (record for _, record in read if record.task.id.endswith("carries"))
    assert carries.attempts[0].verdict_details["message"].startswith("assert (0.1 + 0.2) == 0.3")
    assert [event.kind for event in carries.events if "carrying" in event.text] == ["stderr"]


def test_what_node_wrote_is_read_also_outside_of_a_suite():
    read = list(checked(named("junit"), DATA / "node-test.xml", series="s"))
    assert {record.task.id: outcome(record) for _, record in read} == {
        "test::adds": "success",
        "test::carries": "failure",
        "test::waits": "cancelled",
        "test::breaks": "failure",
    }
    (breaks,) = (imported for imported, record in read if record.task.id == "test::breaks")
    assert breaks.place == "node-test.xml line 44"
    assert breaks.record["runs"][0]["verdict_details"]["message"] == "x is not a function"


def test_a_flaky_case_is_two_attempts_of_which_the_last_passed(cases):
    ((_, record),) = cases(case('<flakyFailure message="2 is not 3">at Sums</flakyFailure>'))
    assert [attempt.verdict for attempt in record.attempts] == ["fail", "pass"]
    assert outcome(record) == "success"


def test_a_case_that_failed_again_and_again_keeps_every_attempt(cases):
    ((_, record),) = cases(
        case('<failure message="a"/><rerunFailure message="b"/><rerunFailure message="c"/>')
    )
    assert [attempt.verdict_details["message"] for attempt in record.attempts] == ["a", "b", "c"]
    assert outcome(record) == "failure"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (case(), "success"),
        (case("<failure/>"), "failure"),
        (case('<error message="boom"/>'), "failure"),
        (case("<skipped/>"), "cancelled"),
        (case('<skipped message="depends on tests.Login"/>'), "infrastructure"),
        (case(status="notrun"), "cancelled"),
    ],
)
def test_only_a_case_that_ran_and_failed_is_a_failure(cases, body, expected):
    ((_, record),) = cases(body)
    assert outcome(record) == expected


def test_a_suites_time_counts_only_with_its_zone(cases):
    for stated, source in (
        ("2026-01-02T03:04:05+08:00", None),
        ("2026-01-02T03:04:05", "file"),
        ("x", "file"),
    ):
        body = case().replace("name='s'", f"name='s' timestamp='{stated}' hostname='h'")
        ((imported, _),) = cases(body)
        assert imported.record["task"].get("finished_at_from") == source
        assert imported.record["source"]["testsuite"]["timestamp"] == stated
        assert "hostname" not in imported.record["source"]["testsuite"]


def test_unknown_attributes_are_kept(cases):
    ((imported, _),) = cases(case('<failure message="m" team="x"/>', owner="me"))
    assert imported.record["source"]["testcase"]["owner"] == "me"
    assert imported.record["source"]["parts"] == [{"tag": "failure", "message": "m", "team": "x"}]


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ('<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;">]>', "it declares a document type"),
        ('<!DOCTYPE a SYSTEM "file:///etc/hostname">', "it declares a document type"),
    ],
)
def test_a_document_that_declares_entities_is_refused(cases, head, why):
    (piece,) = cases(case("<failure>&c;</failure>"), head=head)
    assert isinstance(piece, Unread)
    assert why in piece.why


def test_other_xml_is_no_report(cases):
    (piece,) = cases("<html><testcase name='x'/></html>")
    assert "a <html> document is no JUnit report" in piece.why


def test_elements_that_never_end_are_refused(cases):
    (piece,) = cases("<testsuite>" * 500)
    assert "elements stand 100 deep in one another" in piece.why


def test_a_long_text_is_cut_and_says_so(cases):
    ((_, record),) = cases(case(f"<failure>{'x' * (junit_reader.TEXT_CHARS + 500)}</failure>"))
    output = record.attempts[0].verdict_details["output"]
    assert output.endswith("\n(500 more characters)")
    assert len(output) < junit_reader.TEXT_CHARS + 100


def test_a_case_inside_a_case_is_no_run_of_its_own(cases):
    assert len(cases(case("<testcase name='inner'><failure/></testcase>"))) == 1


@pytest.mark.parametrize("cut", range(30, 1_900, 61))
def test_a_report_cut_short_gives_the_cases_before_the_cut(cases, cut):
    whole = (DATA / "node-test.xml").read_bytes()
    pieces = cases(whole[:cut])
    assert all(isinstance(piece, Unread) for piece in pieces[-1:])
    assert [record.task.id for _, record in pieces[:-1]] == ["test::adds", "test::carries", "test::waits"][
        : len(pieces) - 1
    ]


def test_a_report_in_another_encoding_is_read(cases):
    body = case('<failure message="größer"/>').encode("latin-1")
    ((_, record),) = cases(b'<?xml version="1.0" encoding="iso-8859-1"?>' + body)
    assert record.attempts[0].verdict_details["message"] == "größer"


@given(some.binary(max_size=300), some.integers(0, 1_500))
def test_whatever_is_broken_in_a_report_stops_nothing(tmp_path_factory, junk, place):
    whole = (DATA / "node-test.xml").read_bytes()
    path = tmp_path_factory.mktemp("junit") / "report.xml"
    path.write_bytes(whole[:place] + junk + whole[place + len(junk) :])
    for piece in checked(named("junit"), path, series="s"):
        assert isinstance(piece, Unread) or piece[1].task.id


def test_an_unknown_encoding_is_said_and_the_import_goes_on(tmp_path):
    (tmp_path / "a.xml").write_text('<?xml version="1.0" encoding="nosuch"?><testsuite/>')
    (tmp_path / "b.xml").write_text('<testsuite><testcase classname="t" name="n"/></testsuite>')
    pieces = list(checked(named("junit"), tmp_path, series="s"))
    assert sum(isinstance(piece, Unread) for piece in pieces) == 1
    assert sum(not isinstance(piece, Unread) for piece in pieces) == 1


@pytest.mark.parametrize("said", ["token expired", "429 Too many requests", "quota exceeded for user 7"])
def test_an_error_of_what_is_tested_is_a_failure_whatever_it_says(cases, said):
    ((_, record),) = cases(case(f'<error message="{said}" type="ApiError">at Api.call</error>'))
    assert outcome(record) == "failure"
    assert record.attempts[0].failure_reason is None
    assert record.attempts[0].verdict_details["message"] == said


@pytest.mark.parametrize("message", ["collection failure", "failed on setup with &quot;ValueError&quot;"])
def test_an_error_before_the_test_is_a_failure_unless_the_surroundings_are_plainly_to_blame(cases, message):
    ((_, record),) = cases(case(f'<error message="{message}">E   SyntaxError</error>'))
    assert outcome(record) == "failure"
    ((_, record),) = cases(case(f'<error message="{message}">E   No space left on device</error>'))
    assert outcome(record) == "infrastructure"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("test_b depends on test_a", "infrastructure"),
        ("Method pay() depends on not successfully finished methods", "infrastructure"),
        ("dependency login failed", "infrastructure"),
        ("depends on the platform", "cancelled"),
        ("platform-dependent", "cancelled"),
        ("needs the optional dependency lxml", "cancelled"),
    ],
)
def test_only_a_case_that_waited_for_another_is_blocked(cases, message, expected):
    ((_, record),) = cases(case(f'<skipped message="{message}"/>'))
    assert outcome(record) == expected


@pytest.mark.parametrize("year", ["0001", "1969", "3000", "9999"])
def test_a_time_that_cannot_be_is_left_out_and_the_run_stays(cases, year):
    ((imported, _),) = cases(case().replace("name='s'", f"name='s' timestamp='{year}-12-31T23:59:59+00:00'"))
    assert imported.record["task"]["finished_at_from"] == "file"


def test_a_suites_time_is_its_beginning(cases):
    body = case().replace("name='s'", "name='s' timestamp='2026-01-02T03:04:05+08:00' time='1,060.5'")
    ((imported, _),) = cases(body)
    assert imported.record["task"]["finished_at"] == "2026-01-02T03:21:45.500000+08:00"


def test_tests_of_one_name_in_different_suites_or_files_are_different_tasks(cases):
    inner = "<testcase classname='t' name='n'/>"
    suites = "".join(f"<testsuite name='{each}'>{inner}</testsuite>" for each in ("adds", "divides"))
    pieces = cases(f"<testsuites><testsuite name='sums'>{suites}{inner}</testsuite></testsuites>")
    assert [record.task.id for _, record in pieces] == ["adds::t::n", "divides::t::n", "t::n"]
    files = "".join(f"<testcase classname='t' name='n' file='{each}.js'/>" for each in ("a", "b"))
    pieces = cases(f"<testsuite>{files}</testsuite>")
    assert [record.task.id for _, record in pieces] == ["a.js::t::n", "b.js::t::n"]
    ((_, record),) = cases(
        "<testsuite><testcase classname='tests.test_a' name='n' file='tests/test_a.py'/></testsuite>"
    )
    assert record.task.id == "tests.test_a::n"


def test_every_failure_of_a_case_is_kept(cases):
    ((_, record),) = cases(case('<failure message="a">at A</failure><error message="b">at B</error>'))
    assert len(record.attempts) == 1
    assert record.attempts[0].verdict_details == {"message": "a", "output": "at A\n\nb\nat B"}


def test_properties_and_elements_that_nobody_knows_are_kept(cases):
    inner = "<properties><property name='seed' value='7'/></properties><note>by hand</note>"
    body = case(inner).replace(
        "<testcase", "<properties><property name='os' value='x'/></properties><testcase"
    )
    ((imported, _),) = cases(body)
    source = imported.record["source"]
    assert (source["properties"], source["suite_properties"]) == ({"seed": "7"}, {"os": "x"})
    assert source["other"] == [{"tag": "note", "text": "by hand"}]


@pytest.mark.parametrize("encoding", ["GBK", "gb18030", "Shift_JIS", "utf-16"])
def test_a_report_in_an_encoding_of_its_own_is_read(cases, encoding):
    body = f'<?xml version="1.0" encoding="{encoding}"?>' + case('<failure message="中文"/>')
    ((_, record),) = cases(body.encode(encoding))
    assert record.attempts[0].verdict_details["message"] == "中文"


def test_what_is_no_encoding_of_text_is_refused(cases):
    (piece,) = cases(b'<?xml version="1.0" encoding="zlib"?><testsuite/>')
    assert isinstance(piece, Unread)


def test_a_case_of_many_parts_keeps_some_and_says_how_many_it_left_out(cases):
    many = junit_reader.CASE_PARTS + 7
    ((imported, _),) = cases(case("<system-out>x</system-out>" * many))
    assert len(imported.record["events"]) == junit_reader.CASE_PARTS
    assert imported.record["source"]["parts_left_out"] == 7


def test_a_long_attribute_is_cut_and_one_without_end_is_refused(cases):
    ((_, record),) = cases(case(f'<failure message="{"x" * (junit_reader.TEXT_CHARS + 9)}"/>'))
    assert record.attempts[0].verdict_details["message"].endswith("x (9 more characters)")
    for body in (
        case(f'<failure message="{"x" * (9 << 20)}"/>'),
        case(f"<failure>said<!--{'x' * (9 << 20)}--></failure>"),
        f"<testsuite><!--{'x' * (9 << 20)}--></testsuite>",
    ):
        (piece,) = cases(body)
        assert "a tag or a comment is longer than 4 MiB" in piece.why


def test_the_texts_of_a_case_have_one_bound(cases, monkeypatch):
    monkeypatch.setattr(junit_reader, "CASE_CHARS", 10)
    ((_, record),) = cases(case("<system-out>12345678</system-out>" * 2))
    assert [each.text for each in record.events] == ["12345678", "12\n(6 more characters)"]


def test_attempts_of_a_case_have_ids_of_their_own(cases):
    ((_, record),) = cases(
        case('<failure message="a"/><rerunFailure message="b"/><rerunFailure message="c"/>')
    )
    assert len({attempt.id for attempt in record.attempts}) == 3
    ((_, record),) = cases(case('<flakyError message="a"/><flakyError message="b"/>'))
    assert len({attempt.id for attempt in record.attempts}) == 3


def test_a_full_disk_is_seen_above_a_long_trace(cases):
    trace = "at some.Frame.call(Frame.java:7)\n" * 60
    ((_, record),) = cases(case(f'<error message="No space left on device">{trace}</error>'))
    assert outcome(record) == "infrastructure"
    ((_, record),) = cases(case(f'<error message="no such user">{trace}</error>'))
    assert outcome(record) == "failure"
