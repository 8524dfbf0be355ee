from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from yume import events
from yume.events import DreamFinished, Event, RunBatch, TaskFinished, event, every, subject, token
from yume.ids import new_id

AT = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
OUTSIDE_IDS = st.text(st.characters(codec=None), max_size=512)  # lone surrogates are among them


def batch(**changed):
    return RunBatch(**({"platform": "tobatsu", "series": "kamila", "dream_id": new_id()} | changed))


@given(OUTSIDE_IDS)
@example("*")
@example(">")
@example("a.b")
@example("")
@example("\ud800")
@example("~Kg")
@example("name\n")
def test_no_outside_id_adds_a_dot_a_space_or_a_wildcard(name):
    assert re.fullmatch(r"[A-Za-z0-9_~-]+", token(name))


@given(OUTSIDE_IDS, OUTSIDE_IDS)
@example("*", "~Kg")
@example("a", "a\n")
@example("", "~")
def test_two_ids_never_share_a_token(one, other):
    assert (token(one) == token(other)) == (one == other)


@pytest.mark.parametrize(("name", "expected"), [("*", "~Kg"), (">", "~Pg"), ("kamila-2_b", "kamila-2_b")])
def test_a_wildcard_is_encoded_and_a_plain_name_is_not(name, expected):
    assert token(name) == expected


def test_an_id_of_512_characters_still_fits_into_a_subject():
    assert len(subject("yume.dream.requested", "p", "😀" * 512)) < 4096  # the server's limit for a line


@given(OUTSIDE_IDS, OUTSIDE_IDS)
def test_a_subject_has_five_tokens_whatever_the_ids_are(platform, series):
    assert len(subject("yume.dream.pulled", platform, series).split(".")) == 5


def test_the_filter_of_a_type_takes_all_platforms_and_series():
    assert every("yume.dream.pulled") == "yume.dream.pulled.*.*"


def test_an_event_comes_back_from_its_bytes_as_it_was():
    sent = event("dream.pulled", batch(), key="a/b/1", at=AT)
    assert Event.model_validate_json(sent.to_bytes()) == sent


def test_an_event_is_a_cloudevent_in_json():
    sent = json.loads(event("dream.pulled", batch(), key="a/b/1", at=AT).to_bytes())
    assert {name: sent[name] for name in sent if name != "data"} == {
        "specversion": "1.0",
        "id": "a/b/1",
        "source": "/yume/tobatsu",
        "type": "yume.dream.pulled",
        "time": "2026-05-01T12:30:00Z",
        "datacontenttype": "application/json",
    }


def test_the_data_comes_back_as_it_was():
    told = DreamFinished(platform="p", series="s", dream_id=new_id(), number=3, result="published")
    sent = event("dream.finished", told, key="k", at=AT)
    assert DreamFinished.model_validate(Event.model_validate_json(sent.to_bytes()).data) == told


def test_a_field_that_this_release_does_not_know_is_ignored():
    sent = json.loads(event("dream.pulled", batch(), key="k", at=AT).to_bytes())
    sent |= {"traceparent": "00-1"}
    sent["data"] |= {"shard": 4}
    read = RunBatch.model_validate(Event.model_validate_json(json.dumps(sent)).data)
    assert read.series == "kamila"
    assert "shard" not in read.model_dump()


@pytest.mark.parametrize(
    ("field", "value"),
    [("specversion", "0.3"), ("time", "2026-05-01T12:30:00"), ("data", [1]), ("id", None), ("type", 7)],
)
def test_an_envelope_with_a_wrong_field_is_refused_by_its_name(field, value):
    sent = json.loads(event("dream.pulled", batch(), key="k", at=AT).to_bytes()) | {field: value}
    with pytest.raises(ValidationError) as refused:
        Event.model_validate_json(json.dumps(sent))
    assert [fault["loc"][0] for fault in refused.value.errors()] == [field]


@pytest.mark.parametrize(
    ("field", "value"),
    [("finished_at", "2026-05-01T12:30:00"), ("task_id", ""), ("task_id", "t" * 513), ("status", "")],
)
def test_a_finished_task_with_a_wrong_field_is_refused_by_its_name(field, value):
    good = {
        "platform": "p",
        "series": "s",
        "task_id": "t" * 512,
        "status": "failed",
        "finished_at": "2026-05-01T12:30:00Z",
    }
    assert TaskFinished.model_validate(good).batch_finished is False
    with pytest.raises(ValidationError) as refused:
        TaskFinished.model_validate(good | {field: value})
    assert [fault["loc"] for fault in refused.value.errors()] == [(field,)]


@given(st.text(max_size=50))
def test_the_same_key_gives_the_same_id_whenever_it_is_sent(key):
    told = batch()
    first = event("dream.pulled", told, key=key, at=AT)
    second = event("dream.pulled", told, key=key, at=datetime(2027, 1, 1, tzinfo=UTC))
    assert first.id == second.id == key
    assert first.subject == second.subject


def test_an_id_of_any_length_is_a_part_of_an_archive_key_that_a_file_system_takes():
    long, longer = "a/b." * 60, "a/b." * 61
    assert events.folder_name("kamila") == "kamila"
    assert len(events.folder_name(long)) <= 128
    assert events.folder_name(long) != events.folder_name(longer)
