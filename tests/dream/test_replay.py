"""A dream's batch reviewed once more: shown only, or applied on what stands now; what may not be replayed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from yume.acts import replays
from yume.errors import PermanentError
from yume.events import REPLAY_HEADER, ReplayRequested
from yume.ids import new_id
from yume.pipeline import STAGES
from yume.prompts import classify, draft

RULE = "Keep the names of the files as they are."
KEPT = ("lessons", "lesson_sets", "injections", "measurements", "signals")


class Otherwise:
    """The rules, but every draft ends in other words."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.name = inner, "otherwise"

    async def answer(self, question: Any, shape: Any, /) -> Any:
        answered = await self.inner.answer(question, shape)
        if shape is not draft.Answer:
            return answered
        drafts = [each.model_copy(update={"rule": f"First, {each.rule}"}) for each in answered.value.lessons]
        return replace(answered, value=answered.value.model_copy(update={"lessons": drafts}))


class Broken(Otherwise):
    """A model that cannot name a failure."""

    async def answer(self, question: Any, shape: Any, /) -> Any:
        if shape is classify.Answer:
            raise PermanentError("this model names nothing")
        return await self.inner.answer(question, shape)


async def kept(world) -> dict[str, Any]:
    """Return what a replay that only shows must leave as it is."""
    found = {
        table: [tuple(row) for row in await world.rows(f"SELECT * FROM yume.{table} ORDER BY id")]
        for table in KEPT
    }
    runs = "SELECT task_id, dream_id, outcome, settled_at, memory_version, lesson_set_id FROM yume.runs"
    return found | {
        "runs": [tuple(row) for row in await world.rows(f"{runs} ORDER BY id")],
        "dream": tuple(await world.row_of(1)),
        "slot": world.slot(),
        "asked": len(world.model.asked),
        "told": [each.id for each in await world.events("lessons")],
        "mode": await world.value("SELECT mode FROM yume.series"),
    }


@pytest.mark.parametrize(("applies", "outcome"), [(False, "success"), (True, "failure")])
async def test_a_record_that_changed_since_is_read_by_an_applied_replay_and_by_no_other(
    auto, applies, outcome
):
    await auto.dream(10)
    task = await auto.value(
        "SELECT task_id FROM yume.runs WHERE outcome = 'success' ORDER BY task_id LIMIT 1"
    )
    before = await kept(auto)
    auto.judge(task, "fail")
    await auto.replay(1, "s1", applies=applies)
    assert await auto.value("SELECT outcome FROM yume.runs WHERE task_id = $1", task) == outcome
    assert applies or await kept(auto) == before


async def test_a_replay_from_any_step_finds_the_same_bytes_asks_nobody_and_changes_nothing(auto):
    row = await auto.dream(10)
    await auto.add_owners_rule(RULE)  # what stands now is not what stood then
    before = await kept(auto)
    for number, stage in enumerate(STAGES, start=2):
        replay = await auto.replay(1, stage.name, key=stage.name)
        assert (replay["number"], replay["replay_of"], replay["status"]) == (number, row["id"], "finished")
        assert (replay["result"], replay["reason"]) == ("replayed", "equal body")
        assert sum(used["calls"] for used in replay["usage"].values()) == 0
        assert replay["compiled"]["body"] == row["compiled"]["body"]
        assert await kept(auto) == before
        (ended,) = [
            each for each in await auto.told("dream.finished") if each.data["dream_id"] == str(replay["id"])
        ]
        assert (ended.data["result"], ended.data["reason"]) == ("replayed", "equal body")
        assert (await auto.report(replay))["replay_of"] == 1
    await auto.check_oracle()


async def test_a_replay_shows_what_another_model_would_have_written_and_releases_nothing(auto):
    row = await auto.dream(10)
    auto.model.inner, auto.model.name = Otherwise(auto.model.inner), "otherwise"
    before = await kept(auto)
    replay = await auto.replay(1, "s4")
    after = await kept(auto)
    assert (replay["result"], auto.slot()) == ("replayed", before["slot"])
    difference = (await auto.report(replay))["difference"]
    assert replay["reason"] == f"{len(difference)} lines differ from dream 1"
    old, new = row["compiled"]["body"].splitlines(), replay["compiled"]["body"].splitlines()
    assert {line for line in difference if line.startswith("- ")} == set(old)
    assert {line for line in difference if line.startswith("+ ")} == {f"+{line[1:]}" for line in new}
    assert all(line.startswith("- First, ") for line in new)
    assert len(auto.model.asked) > before["asked"]
    for name in ("lesson_sets", "injections", "measurements", "signals", "runs", "dream", "told", "mode"):
        assert after[name] == before[name]
    states = await auto.rows("SELECT DISTINCT state FROM yume.lessons WHERE dream_id = $1", replay["id"])
    assert [each["state"] for each in states] == ["archived"]
    markdown = (await auto.resources.archive.get(replay["report_key"])).decode()
    assert "## Difference from dream 1" in markdown
    again = await auto.replay(1, "s4", key="again")
    assert again["reason"] == replay["reason"]
    assert sum(used["calls"] for used in again["usage"].values()) == 0
    await auto.check_oracle()


async def test_a_stored_message_published_again_with_the_header_is_one_replay_a_value(auto):
    row = await auto.dream(10)
    (stored,) = [each for each in await auto.stored("dream") if "dream.classified" in each.subject]
    for value in ("one", "one", "two"):
        await auto.js.store_bytes(
            stored.subject, stored.data, stream="dream", key=new_id().hex, headers={REPLAY_HEADER: value}
        )
    for value in ("one", "two"):
        replay = await auto.ended(replays.replay_id(row["id"], "s4_draft", value))
        assert (replay["result"], replay["reason"]) == ("replayed", "equal body")
        assert (replay["draft_ids"], replay["applies"]) == (row["draft_ids"], False)
    await auto.settled()
    assert await auto.value("SELECT count(*) FROM yume.dream_runs") == 3
    assert not await auto.stored("dead")


async def test_a_message_of_a_replay_asks_for_a_replay_of_the_original(auto):
    first = await auto.dream(10)
    replay = await auto.replay(1, "s2")
    second = await auto.replay(replay["number"], "s4", key="of a replay")
    assert (second["replay_of"], second["result"], second["reason"]) == (
        first["id"],
        "replayed",
        "equal body",
    )
    assert (await auto.report(second))["replay_of"] == 1


async def test_an_applied_replay_merges_on_what_stands_now_and_goes_through_the_gate(auto):
    row = await auto.dream(10)
    await auto.add_owners_rule(RULE)
    await auto.release()
    assert auto.slot().version == 2
    again = await auto.replay(1, "s4", applies=True)
    assert (again["status"], again["result"], again["applies"]) == ("finished", "no_change", True)
    assert again["counters"]["duplicates"] > again["counters"]["approved"] == 0
    assert auto.slot().version == 2

    auto.model.inner, auto.model.name = Otherwise(auto.model.inner), "otherwise"
    approved = await auto.rows("SELECT id FROM yume.lessons WHERE state = 'approved' AND origin = 'dream'")
    for each in approved:
        await auto.move(each["id"], "approved", "retired")
    held = await auto.replay(1, "s4", applies=True, key="otherwise")
    assert (held["result"], held["reason"]) == ("held", "dwell")
    assert held["base_lesson_set_id"] != row["base_lesson_set_id"]
    assert held["gate"]["by"] == "yume:s6_gate"
    new = await auto.rows(
        "SELECT rule FROM yume.lessons WHERE state = 'approved' AND dream_id = $1", held["id"]
    )
    assert new
    assert all(each["rule"].startswith("First, ") for each in new)
    await auto.release()
    assert all(each["rule"] in auto.slot().text for each in [*new, {"rule": RULE}])
    assert not await auto.rows("SELECT id FROM yume.measurements WHERE dream_id = $1", held["id"])
    await auto.check_oracle()


async def test_in_gated_an_applied_replay_is_held_for_a_person_like_any_dream(world):
    await world.promote("gated")
    await world.dream(10)
    again = await world.replay(1, "s3", applies=True)
    assert again["counters"]["held"] > 0
    assert (again["counters"]["approved"], world.slot().version) == (0, 0)
    reviews = [each.data["dream_id"] for each in await world.told("review.requested")]
    assert reviews.count(str(again["id"])) == 1


async def test_a_dream_that_failed_for_good_is_replayed_and_then_publishes(auto):
    rules = auto.model.inner
    auto.model.inner = Broken(rules)
    row = await auto.dream(10)
    assert (row["status"], row["step"]) == ("failed", "s2_extract")
    assert "this model names nothing" in row["error"]
    auto.model.inner = rules
    replay = await auto.replay(1, "s3", applies=True)
    assert (replay["status"], replay["result"], auto.slot().version) == ("finished", "published", 1)
    assert replay["counters"]["tasks"] == row["counters"]["tasks"] == 10
    approved = await auto.rows("SELECT rule, dream_id FROM yume.lessons WHERE state = 'approved'")
    assert {each["dream_id"] for each in approved} == {replay["id"]}
    assert all(each["rule"] in auto.slot().text for each in approved)
    (published,) = await auto.told("lesson.published")
    assert published.data["dream_id"] == str(replay["id"])
    await auto.check_oracle()


async def refused(world, number: int, step: str, match: str, *, applies: bool = False) -> None:
    asked = ReplayRequested(
        platform="practice",
        series="kamila",
        dream_id=(await world.row_of(number))["id"],
        from_step=step,
        key="k",
        applies=applies,
    )
    with pytest.raises(PermanentError, match=match):
        await replays.queue(asked, world.resources)
    assert not await world.rows("SELECT id FROM yume.dream_runs WHERE trigger = 'replay'")


async def test_what_cannot_be_replayed_is_refused_with_the_reason(auto, standstill):
    auto.model.inner = Broken(auto.model.inner)
    assert (await auto.dream(10))["status"] == "failed"
    await refused(
        auto, 1, "s5", "dream 1 came no further than s2_extract: replay it from s3_classify or before"
    )
    auto.model.inner = auto.model.inner.inner
    await auto.dream(10)
    await refused(auto, 2, "s6", "--apply merges on what stands now: replay from s5_merge", applies=True)
    await refused(auto, 2, "s10", "no step is named 's10'")
    await auto.add_owners_rule(RULE)
    await auto.release()
    await refused(auto, 3, "s7", "dream 3 only released what was approved")
    still = auto.around["s4_draft"] = standstill()
    await auto.run_batch(6)
    await still.reached.wait()
    await refused(auto, 4, "s1", "dream 4 is running: it can be replayed when it has ended")
    still.go.set()
    assert (await auto.dreamt(4))["status"] == "finished"


async def test_a_request_for_what_cannot_be_replayed_is_kept_with_the_dead(auto):
    row = await auto.dream(10)
    await auto.add_owners_rule(RULE)
    release = await auto.release()
    asked = {"platform": "practice", "series": "kamila", "dream_id": str(release["id"]), "key": "k"}
    (stored,) = [
        each
        for each in await auto.stored("dream")
        if "dream.compiled" in each.subject and str(release["id"]) in each.data.decode()
    ]
    await auto.js.store_bytes(
        stored.subject, stored.data, stream="dream", key=asked["key"], headers={REPLAY_HEADER: "x"}
    )
    await auto.settled()
    (dead,) = await auto.stored("dead")
    assert dead.subject == "yume.dead.dream.orchestrator_replays"
    assert (await auto.row_of(1))["result"] == row["result"] == "published"
    assert await auto.value("SELECT count(*) FROM yume.dream_runs") == 2
