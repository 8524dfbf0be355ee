"""What may happen to a lesson, whoever writes: the triggers of 0002, each in both directions."""

from __future__ import annotations

import itertools
from typing import get_args

import asyncpg
import pytest

from yume.domain.lessons import State
from yume.ids import new_id

REFUSED = asyncpg.IntegrityConstraintViolationError
STATES: tuple[State, ...] = get_args(State)
LESSON_WAYS = {
    ("draft", "approved"),
    ("draft", "archived"),
    ("approved", "superseded"),
    ("approved", "retired"),
    ("superseded", "approved"),
    ("superseded", "archived"),
    ("retired", "approved"),
    ("retired", "archived"),
    ("archived", "draft"),
}
TO_STATE = {  # from draft
    "draft": (),
    "approved": ("approved",),
    "superseded": ("approved", "superseded"),
    "retired": ("approved", "retired"),
    "archived": ("archived",),
}


@pytest.fixture
async def lesson_in(rows, series, signal, move):
    """A dream's lesson in any state, brought there the legal way."""

    async def make(state: State):
        lesson = await rows.lesson(series, [signal])
        steps = ("draft", *TO_STATE[state])
        for source, target in itertools.pairwise(steps):
            await move(lesson, source, target)
        return lesson

    return make


@pytest.mark.parametrize(("source", "target"), sorted(LESSON_WAYS))
async def test_a_legal_transition_of_a_lesson_passes(db, lesson_in, move, source, target):
    lesson = await lesson_in(source)
    await move(lesson, source, target)
    assert await db.fetchval("SELECT state FROM yume.lessons WHERE id = $1", lesson) == target


@pytest.mark.parametrize(
    ("source", "target"),
    [pair for pair in itertools.product(STATES, STATES) if pair not in LESSON_WAYS and pair[0] != pair[1]],
)
async def test_any_other_transition_of_a_lesson_is_refused(db, lesson_in, move, source, target):
    lesson = await lesson_in(source)
    with pytest.raises(REFUSED, match=f"{source} -> {target} is no legal transition"):
        await move(lesson, source, target)


async def test_a_state_that_is_none_is_refused(lesson_in, move):
    with pytest.raises(REFUSED):
        await move(await lesson_in("draft"), "draft", "published")


@pytest.mark.parametrize(
    "spoilt",
    [
        {"from": "archived"},
        {"to": "archived"},
        {"by": ""},
        {"by": None},
        {"why": ""},
        {"why": None},
        {"at": ""},
    ],
    ids=str,
)
async def test_a_transition_whose_history_entry_does_not_say_it_is_refused(lesson_in, move, spoilt):
    lesson = await lesson_in("draft")
    with pytest.raises(REFUSED, match="needs one history entry"):
        await move(lesson, "draft", "approved", **spoilt)


@pytest.mark.parametrize("entries", [0, 2])
async def test_a_transition_has_exactly_one_history_entry(db, lesson_in, entries):
    lesson = await lesson_in("draft")
    entry = {"from": "draft", "to": "approved", "by": "person:ada", "why": "good", "at": "2026-05-01"}
    with pytest.raises(REFUSED, match="needs one history entry"):
        await db.execute(
            "UPDATE yume.lessons SET state = 'approved', history = history || $2 WHERE id = $1",
            *(lesson, [entry] * entries),
        )


async def test_a_label_may_be_added_to_the_history_without_a_transition(db, lesson_in):
    lesson = await lesson_in("draft")
    await db.execute(
        "UPDATE yume.lessons SET history = history || $2 WHERE id = $1", lesson, [{"label": "right"}]
    )
    history = await db.fetchval("SELECT history FROM yume.lessons WHERE id = $1", lesson)
    assert [entry.get("label") for entry in history] == [None, "right"]


@pytest.mark.parametrize(
    "change",
    ["'[]'", "history - 0", "jsonb_set(history, '{0,why}', '\"another\"')", '\'[{"by": "x"}]\' || history'],
)
async def test_history_is_only_added_to(db, lesson_in, change):
    await lesson_in("draft")
    with pytest.raises(REFUSED, match="history is only added to"):
        await db.execute(f"UPDATE yume.lessons SET history = {change}")


async def test_no_column_of_a_lesson_but_state_and_history_ever_changes(db, columns_of, lesson_in):
    await lesson_in("draft")
    columns = await columns_of("lessons", but=("state", "history"))
    assert len(columns) > 15
    for column, other in columns.items():
        with pytest.raises(REFUSED, match="its content never changes"):
            await db.execute(f"UPDATE yume.lessons SET {column} = {other}")


async def test_a_lesson_without_evidence_cannot_be_stored(rows, series):
    for origin in ("dream", "agent_proposal"):
        with pytest.raises(REFUSED, match="without evidence cannot be stored"):
            await rows.lesson(series, [], origin=origin)


async def test_an_owner_needs_no_evidence(db, rows, series):
    lesson = await rows.lesson(series, [], origin="owner")
    assert await db.fetchval("SELECT cardinality(evidence) FROM yume.lessons WHERE id = $1", lesson) == 0


async def test_evidence_that_does_not_exist_is_refused(rows, series, signal):
    with pytest.raises(REFUSED, match="1 of its 2 signals exist in its series"):
        await rows.lesson(series, [signal, new_id()])


async def test_evidence_of_another_series_is_refused(rows, series, signal):
    other = await rows.series("another")
    with pytest.raises(REFUSED, match="0 of its 1 signals exist in its series"):
        await rows.lesson(other, [signal])
    assert await rows.lesson(series, [signal])


async def test_an_owners_evidence_must_exist_too(rows, series):
    with pytest.raises(REFUSED, match="0 of its 1 signals"):
        await rows.lesson(series, [new_id()], origin="owner")


async def test_the_same_signal_twice_is_no_more_evidence(rows, series, signal):
    with pytest.raises(REFUSED, match="1 of its 2 signals"):
        await rows.lesson(series, [signal, signal])


@pytest.mark.parametrize("origin", ["dream", "agent_proposal"])
@pytest.mark.parametrize("state", [state for state in STATES if state != "draft"])
async def test_only_a_draft_is_born_of_a_dream_or_a_proposal(rows, series, signal, origin, state):
    with pytest.raises(REFUSED, match=f"origin {origin} cannot be born {state}"):
        await rows.lesson(series, [signal], origin=origin, state=state)


@pytest.mark.parametrize("state", STATES)
async def test_an_owners_rule_is_born_approved_or_a_draft(rows, series, state):
    if state in ("draft", "approved"):
        assert await rows.lesson(series, origin="owner", state=state)
        return
    with pytest.raises(REFUSED, match="cannot be born"):
        await rows.lesson(series, origin="owner", state=state)


@pytest.mark.parametrize("by", ["yume:s6_gate", "yume"])
async def test_an_owners_lesson_is_not_changed_by_yume(rows, series, move, by):
    lesson = await rows.lesson(series, origin="owner", state="approved")
    with pytest.raises(REFUSED, match="an owner's rule is not changed by Yume"):
        await move(lesson, "approved", "retired", by=by)
    await move(lesson, "approved", "retired", by="person:yumeko")


async def test_a_dreams_lesson_is_changed_by_yume(lesson_in, move):
    await move(await lesson_in("draft"), "draft", "approved", by="yume:s6_gate")


@pytest.mark.parametrize("by", ["yume", "yume:s6_gate", "Yume:s6", "yume ", " yume:s6", "yume_s6", "\nyume"])
async def test_no_spelling_of_yume_moves_an_owners_rule(db, rows, series, move, by):
    owned = await rows.lesson(series, origin="owner", state="approved")
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="not changed by Yume"):
        await move(owned, "approved", "retired", by=by)
    await move(owned, "approved", "retired", by="yumeko")
