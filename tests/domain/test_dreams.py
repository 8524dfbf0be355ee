from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.dreams import REQUESTED, duty

STEPS = (
    "s1_pull",
    "s2_extract",
    "s3_classify",
    "s4_draft",
    "s5_merge",
    "s6_gate",
    "s7_compile",
    "s8_write",
    "s9_measure",
)
DONE = st.sampled_from((None, *STEPS))
TOLD = st.sampled_from((None, REQUESTED, *STEPS))


@pytest.mark.parametrize(
    ("step", "announced", "mine", "expected"),
    [
        (None, REQUESTED, "s1_pull", "run"),
        (None, None, "s1_pull", "run"),
        ("s2_extract", "s2_extract", "s3_classify", "run"),
        ("s2_extract", "s1_pull", "s3_classify", "run"),  # the event is stored, the note of it is not
        ("s3_classify", "s2_extract", "s3_classify", "announce"),
        ("s3_classify", None, "s3_classify", "announce"),
        ("s3_classify", "s3_classify", "s3_classify", "nothing"),
        ("s7_compile", "s6_gate", "s3_classify", "nothing"),
    ],
)
def test_what_a_message_asks_for_follows_from_the_row(step, announced, mine, expected):
    assert duty("running", step, announced, mine) == expected


def test_a_finished_dream_is_announced_until_that_is_noted():
    assert duty("finished", "s9_measure", "s8_write", "s9_measure") == "announce"
    assert duty("finished", "s9_measure", "s9_measure", "s9_measure") == "nothing"


def test_a_failed_dream_is_told_until_that_is_noted():
    assert duty("failed", "s3_classify", None, "s4_draft") == "tell_failure"
    assert duty("failed", "s3_classify", "s9_measure", "s4_draft") == "nothing"


def test_the_last_step_tells_a_failure_that_an_earlier_note_hides():
    """A worker that notes its step's event after the dream was failed must not silence the ending."""
    assert duty("failed", "s5_merge", "s5_merge", "s9_measure") == "tell_failure"


@given(step=DONE, announced=TOLD, mine=st.sampled_from(STEPS))
def test_the_last_step_tells_that_a_dream_was_cancelled_until_that_is_noted(step, announced, mine):
    owed = duty("cancelled", step, announced, mine)
    told = announced == STEPS[-1]
    assert owed == ("tell_cancelled" if mine == STEPS[-1] and not told else "nothing")


@pytest.mark.parametrize("status", ["collecting", "queued", "parked"])
@given(step=DONE, announced=TOLD, mine=st.sampled_from(STEPS))
def test_a_dream_that_is_not_under_way_is_left_alone(status, step, announced, mine):
    assert duty(status, step, announced, mine) == "nothing"


@given(done=st.integers(0, 9), mine=st.integers(0, 8), announced=TOLD)
def test_a_step_is_run_if_and_only_if_it_is_the_next_one(done, mine, announced):
    step = STEPS[done - 1] if done else None
    assert (duty("running", step, announced, STEPS[mine]) == "run") == (mine == done)


def test_no_message_gets_past_the_gate():
    assert duty("running", "s2_extract", "s2_extract", "s8_write") == "nothing"


def test_names_of_steps_sort_in_the_order_of_the_pipeline():
    assert all(before < after for before, after in itertools.pairwise((REQUESTED, *STEPS)))
