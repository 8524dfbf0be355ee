"""tau-bench trials: rewards, tools and what the check found."""

from __future__ import annotations

import json

import pytest

from yume.importers.formats import checked, named
from yume.importers.records import Unread

TRIAL = {
    "task_id": 7,
    "trial": 2,
    "reward": 0.0,
    "info": {
        "task": {"instruction": "Book a flight"},
        "reward_info": {"reward": 0.0, "info": {"r_actions": 0.0, "gt_data_hash": "ea14"}},
    },
    "traj": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": {"name": "get_user", "arguments": '{"id": 1}'}}],
        },
        {"role": "tool", "name": "get_user", "content": "Error: user not found"},
    ],
}


@pytest.fixture
def trials(tmp_path):
    def read(*rows):
        (tmp_path / "gpt.json").write_text(json.dumps(rows))
        return list(checked(named("tau-bench"), tmp_path, series="airline"))

    return read


def test_the_real_trials_end_as_their_facts_say(shared_data, outcomes):
    folder = shared_data / "tau_airline"
    facts = json.loads((folder / "facts.json").read_text())["by_trial_reward"]
    lost, won = (sum(n for key, n in facts.items() if key.endswith(end)) for end in ("|0.0", "|1.0"))
    assert outcomes("tau-bench", folder) == {"failure": lost, "success": won}


def test_a_conversation_becomes_events_and_the_marks_of_the_check_its_words(trials):
    ((imported, record),) = trials(TRIAL)
    assert [(event.kind, event.text) for event in record.events] == [
        ("user", "Hi"),
        ("tool_call", 'get_user {"id": 1}'),
        ("output", "Error: user not found"),
    ]
    assert record.attempts[0].id == "7/2"
    assert record.attempts[0].verdict_details == "the data at the end differ from the expected data"
    assert imported.record["source"]["info"] == TRIAL["info"]


@pytest.mark.parametrize(
    ("reward", "verdict"), [(1, "pass"), (1.0, "pass"), (0.999, "fail"), (0, "fail"), (None, None)]
)
def test_only_the_whole_reward_is_a_pass(trials, reward, verdict):
    ((_, record),) = trials(TRIAL | {"reward": reward})
    assert record.attempts[0].verdict == verdict


@pytest.mark.parametrize(
    "change",
    [{"traj": None}, {"traj": [1, {"role": None, "tool_calls": [3, {"function": 4}]}], "info": []}],
)
def test_odd_messages_are_passed_over(trials, change):
    ((_, record),) = trials(TRIAL | change)
    assert record.events == ()


@pytest.mark.parametrize("reward", [True, "1", [1]])
def test_a_reward_that_is_no_number_is_left_out(trials, reward):
    (piece,) = trials(TRIAL | {"reward": reward})
    assert isinstance(piece, Unread)
    assert "a reward is a number" in piece.why
