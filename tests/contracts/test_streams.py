"""The folder `streams/` against the pipeline and the code that binds to it."""

from __future__ import annotations

import ast
import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import yume
from yume import jetstream, settle
from yume.events import event, every, subject
from yume.pipeline import FIRST, STAGES, STREAM
from yume.settings import contracts
from yume.stages import s8_commands
from yume.topology import load, stream_of
from yume.worker import COMMANDS

FOLDER = contracts("streams")
TOPOLOGY = load(FOLDER, replicas=1, ack_wait_s=30)
NANOSECONDS = 1_000_000_000
STAGE_NAMES = [stage.name for stage in STAGES]
ORCHESTRATORS = {"orchestrator_tasks", "orchestrator_dreams", "orchestrator_replays"}
NEVER_GIVEN_UP = ORCHESTRATORS | {s8_commands.NAME}


def overlap(one: str, other: str) -> bool:
    """Say whether one subject could match both filters, by NATS' rules."""
    for left, right in itertools.zip_longest(one.split("."), other.split(".")):
        if ">" in (left, right):
            return left is not None and right is not None
        if left is None or right is None or ("*" not in (left, right) and left != right):
            return False
    return True


def filters(name: str) -> list[str]:
    """Return the filters of a consumer."""
    config = TOPOLOGY.consumers[name].config
    return config.get("filter_subjects") or [config["filter_subject"]]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("yume.a.>", "yume.a.b.c", True),
        ("yume.a.>", "yume.a", False),
        ("yume.*.b", "yume.a.*", True),
        ("yume.a.*", "yume.a.b.c", False),
        ("yume.a.*", "yume.b.*", False),
        (">", "yume.a", True),
        ("yume.a", "yume.a", True),
    ],
)
def test_filters_overlap_by_the_rules_of_nats(one, other, both):
    assert overlap(one, other) is overlap(other, one) is both


# The pipeline


def test_each_stage_consumes_what_the_one_before_emits():
    assert STAGES[0].consumes == FIRST
    for before, after in itertools.pairwise(STAGES):
        assert after.consumes == before.emits
    assert STAGES[-1].emits == "dream.finished"


def test_there_are_nine_stages_whose_names_sort_in_the_order_of_the_pipeline():
    assert len(STAGES) == 9
    assert sorted(STAGE_NAMES) == STAGE_NAMES
    assert [name[:2] for name in STAGE_NAMES] == [f"s{number}" for number in range(1, 10)]


def test_there_is_a_consumer_for_each_stage_the_slots_commands_and_each_of_the_orchestrators_and_no_other():
    assert set(TOPOLOGY.consumers) == {*STAGE_NAMES, s8_commands.NAME} | ORCHESTRATORS


def test_the_consumer_of_the_slots_commands_takes_exactly_the_calls_for_them():
    consumer = TOPOLOGY.consumers[s8_commands.NAME]
    assert consumer.stream == COMMANDS
    assert filters(s8_commands.NAME) == [every("yume.slot.requested")]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_the_consumer_of_a_stage_takes_exactly_its_subject_of_its_stream(stage):
    consumer = TOPOLOGY.consumers[stage.name]
    assert consumer.stream == STREAM
    assert filters(stage.name) == [every(f"yume.{stage.consumes}")]


def test_no_two_stages_take_the_same_message():
    for one, other in itertools.combinations(STAGE_NAMES, 2):
        assert not overlap(*filters(one), *filters(other))


def test_the_orchestrator_binds_to_consumers_that_exist():
    bound = {
        node.value
        for path in Path(yume.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("orchestrator_")
    }
    assert bound == ORCHESTRATORS
    assert filters("orchestrator_tasks") == [every("yume.task.finished")]
    ends = ("yume.dream.finished", "yume.dream.failed", "yume.dream.parked")
    assert filters("orchestrator_dreams") == [every(kind) for kind in ends]
    assert filters("orchestrator_replays") == [every("yume.dream.replay_requested")]


# Streams


def test_there_are_four_streams_named_as_their_files():
    assert set(TOPOLOGY.streams) == {"tasks", "dream", "lessons", "dead"}
    assert all(config["name"] == name for name, config in TOPOLOGY.streams.items())


def test_no_subject_is_kept_in_two_streams():
    for one, other in itertools.combinations(TOPOLOGY.streams.values(), 2):
        for pair in itertools.product(one["subjects"], other["subjects"]):
            assert not overlap(*pair), pair


@pytest.mark.parametrize("name", sorted(TOPOLOGY.consumers))
def test_a_consumer_filters_what_its_stream_keeps(name):
    kept = TOPOLOGY.streams[TOPOLOGY.consumers[name].stream]["subjects"]
    assert all(any(overlap(subjects, each) for subjects in kept) for each in filters(name))


@pytest.mark.parametrize(
    "kind",
    [
        *("task.finished", FIRST, *(stage.emits for stage in STAGES), "dream.failed", "lesson.published"),
        *("dream.parked", "dream.replay_requested", "slot.requested", "slot.rolled_back"),
        *("slot.conflict", "measurement.recorded", "review.requested"),
    ],
)
def test_an_event_is_stored_in_the_stream_that_keeps_its_subject(kind):
    told = event(kind, {"platform": "p", "series": "s"}, key="k", at=datetime(2026, 1, 1, tzinfo=UTC))
    keepers = [
        name
        for name, config in TOPOLOGY.streams.items()
        if any(overlap(kept, subject(told.type, "p", "s")) for kept in config["subjects"])
    ]
    assert keepers == [stream_of(told)]


@pytest.mark.parametrize("name", sorted(TOPOLOGY.streams))
def test_a_stream_keeps_everything_until_its_age_and_refuses_when_full(name):
    config = TOPOLOGY.streams[name]
    days = 0 if name == "lessons" else 30
    assert (config["retention"], config["discard"], config["storage"]) == ("limits", "new", "file")
    assert config["duplicate_window"] == timedelta(hours=2).total_seconds() * NANOSECONDS
    assert config["max_age"] == timedelta(days=days).total_seconds() * NANOSECONDS
    assert not {"max_msgs", "max_bytes", "max_msgs_per_subject", "no_ack"} & set(config)


LAST_DELIVERY = 20


@pytest.mark.parametrize("name", sorted(TOPOLOGY.consumers))
def test_a_consumer_hands_out_until_it_is_told_explicitly(name):
    config = TOPOLOGY.consumers[name].config
    assert config["durable_name"] == config["name"] == name
    assert (config["ack_policy"], config["deliver_policy"]) == ("explicit", "all")
    # A step's message waits on its row before NATS gives it up; what is about no dream waits in NATS alone.
    assert config["max_deliver"] == (-1 if name in NEVER_GIVEN_UP else LAST_DELIVERY)
    assert config["max_ack_pending"] == 256
    assert "inactive_threshold" not in config
    assert "backoff" not in config  # it would replace ack_wait, and the delays are the worker's


def test_the_worker_gives_up_before_the_server_does():
    assert settle.MAX_TRIES < settle.MAX_NAKS < LAST_DELIVERY


def test_what_differs_between_deployments_comes_from_the_settings():
    made = load(FOLDER, replicas=3, ack_wait_s=45)
    assert {config["num_replicas"] for config in made.streams.values()} == {3}
    assert {consumer.config["num_replicas"] for consumer in made.consumers.values()} == {3}
    assert {consumer.config["ack_wait"] for consumer in made.consumers.values()} == {45 * NANOSECONDS}


async def test_the_server_takes_the_files_as_they_are(nats_url):
    async with jetstream.connect(nats_url, name="test") as js:
        await js.apply(TOPOLOGY)
        assert await js.check(TOPOLOGY) == []


def test_the_map_of_subjects_names_every_stream_consumer_and_subject():
    told = (FOLDER / "README.md").read_text("utf-8")
    subjects = [
        *("task.finished", FIRST, *(stage.emits for stage in STAGES), "dream.failed", "dream.parked"),
        *("dream.replay_requested", "slot.requested", "slot.rolled_back"),
    ]
    for name in (*TOPOLOGY.streams, *TOPOLOGY.consumers, *(f"yume.{kind}" for kind in subjects)):
        assert f"`{name}`" in told, name


def test_the_example_of_a_finished_task_is_one():
    told = (FOLDER / "README.md").read_text("utf-8")
    example = json.loads(told.partition("```json\n")[2].partition("```")[0])
    parsed = yume.events.Event.model_validate(example)
    yume.events.TaskFinished.model_validate(parsed.data)
    assert f"`{parsed.subject}`" in told
