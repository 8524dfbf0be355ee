from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.lessons import Draft, Lesson, Quote
from yume.domain.merging import Operation, combined, inputs_of, loss_cap, settle
from yume.ids import LessonId, SignalId

KINDS = ["add", "merge", "supersede", "retire", "keep", "duplicate", "conflict"]


def lesson_id(number):
    return LessonId(UUID(int=number))


def signals(*numbers):
    return tuple(SignalId(UUID(int=1000 + number)) for number in numbers)


def draft(number, *, evidence=(1, 2), trust="verifier", rule="Use `sort -n`."):
    cited = signals(*evidence)
    quotes = (Quote(cited[0], "q"),)
    return Draft(
        lesson_id(number), "s", "c", rule, "k", "", cited, quotes, trust, 0.8, (f"f{number}",), "remedy"
    )


def lesson(number, *, origin="dream", evidence=(1, 2), trust="verifier"):
    ours, cited = lesson_id(number), signals(*evidence)
    return Lesson(
        ours, ours, 1, origin, "approved", "s", "c", "r", "k", "", cited, (), trust, (f"f{number}",), 0.8
    )


def operation(kind, lesson, sources=(), replaces=()):
    return Operation(
        kind, lesson_id(lesson), tuple(map(lesson_id, sources)), tuple(map(lesson_id, replaces)), "why"
    )


def kinds(operations):
    return sorted((each.kind, each.lesson.int) for each in operations)


def test_every_operation_that_fits_is_taken_and_the_rest_is_kept():
    inputs = inputs_of(
        [draft(1), draft(2), draft(3), draft(4), draft(5)],
        [lesson(each) for each in range(11, 19)],
        [draft(21)],
    )
    settled, refused = settle(
        [
            operation("add", 1, [1]),
            operation("merge", 21, [2, 3]),
            operation("supersede", 4, [4], [11]),
            operation("duplicate", 12, [5]),
            operation("retire", 13, [], [13]),
        ],
        inputs,
    )
    assert refused == []
    assert [each.kind for each in settled] == [
        "add",
        "merge",
        "supersede",
        "duplicate",
        "retire",
        *["keep"] * 6,
    ]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (operation("add", 1, [1], [11]), "misshapen"),
        (operation("add", 1, [2]), "misshapen"),
        (operation("add", 99, [99]), "misshapen"),
        (operation("merge", 21, [1]), "misshapen"),
        (operation("merge", 22, [1, 2]), "misshapen"),
        (operation("merge", 21, [1, 1]), "twice"),
        (operation("supersede", 1, [1]), "misshapen"),
        (operation("supersede", 1, [1], [12]), "owner"),
        (operation("merge", 21, [1], [12]), "owner"),
        (operation("retire", 12, [], [12]), "owner"),
        (operation("retire", 11, [1], [11]), "misshapen"),
        (operation("keep", 1, [1]), "misshapen"),
        (operation("duplicate", 2, [1]), "misshapen"),
        (operation("conflict", 11, [1, 2]), "misshapen"),
        (operation("supersede", 1, [1], [11, 13]), "loss_cap"),
    ],
)
def test_a_bad_operation_is_refused_alone_with_its_reason(bad, code):
    inputs = inputs_of(
        [draft(1), draft(2)], [lesson(11), lesson(12, origin="owner"), lesson(13)], [draft(21)]
    )
    good = operation("add", 2, [2])
    operations = [bad] if lesson_id(2) in bad.sources else [good, bad]
    settled, refused = settle(operations, inputs)
    assert [(each.operation, each.code) for each in refused] == [(bad, code)]
    assert [each.kind for each in settled if each.kind == "keep"] == ["keep"] * 3
    assert sorted(each for one in settled for each in one.inputs) == sorted([*inputs.drafts, *inputs.lessons])


def test_the_second_disposition_of_a_draft_is_refused():
    settled, refused = settle(
        [operation("add", 1, [1]), operation("duplicate", 11, [1])], inputs_of([draft(1)], [lesson(11)])
    )
    assert [each.code for each in refused] == ["twice"]
    assert kinds(settled) == [("add", 1), ("keep", 11)]


@pytest.mark.parametrize(("total", "cap"), [(1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (40, 10)])
def test_a_dream_may_remove_a_quarter_and_at_least_one(total, cap):
    assert loss_cap(total) == cap
    lessons = [lesson(100 + number) for number in range(total)]
    retirements = [operation("retire", each.id.int, [], [each.id.int]) for each in lessons]
    _, refused = settle(retirements, inputs_of([], lessons))
    assert len(refused) == total - (cap if total > 1 else 0)


def test_the_last_lesson_is_never_retired_but_may_be_superseded():
    inputs = inputs_of([draft(1)], [lesson(11)])
    _, refused = settle([operation("add", 1, [1]), operation("retire", 11, [], [11])], inputs)
    assert [each.code for each in refused] == ["last"]
    settled, refused = settle([operation("supersede", 1, [1], [11])], inputs)
    assert (kinds(settled), refused) == ([("supersede", 1)], [])


@pytest.mark.parametrize(
    ("newer", "stands"),
    [
        (draft(1), True),
        (draft(1, evidence=(1, 2, 3)), True),
        (draft(1, evidence=(1,)), False),
        (draft(1, trust="agent_text"), False),
    ],
)
def test_newer_wins_only_with_evidence_at_least_as_strong_else_a_person_decides(newer, stands):
    settled, refused = settle([operation("supersede", 1, [1], [11])], inputs_of([newer], [lesson(11)]))
    assert kinds(settled) == ([("supersede", 1)] if stands else [("conflict", 11), ("keep", 11)])
    assert [each.code for each in refused] == ([] if stands else ["weaker"])


@pytest.mark.parametrize("retirement_first", [True, False])
def test_a_draft_is_not_given_up_for_a_lesson_that_goes(retirement_first):
    both = [operation("retire", 11, [], [11]), operation("duplicate", 11, [1])]
    settled, refused = settle(
        both if retirement_first else both[::-1], inputs_of([draft(1)], [lesson(11), lesson(12)])
    )
    assert [each.code for each in refused] == ["target"]
    kept = {each.lesson.int for each in settled if each.kind == "keep"}
    assert kept == ({12} if retirement_first else {11, 12})


def test_a_merged_text_rests_on_all_evidence_and_is_trusted_as_the_least():
    kept = draft(1, evidence=(1, 2))
    made = combined(
        kept, [draft(2, evidence=(2, 3), trust="agent_text"), lesson(11, evidence=(4,))], new_id=lesson_id(5)
    )
    assert made.evidence == signals(1, 2, 3, 4)
    assert made.trust == "agent_text"
    assert made.fingerprints == ("f1", "f2", "f11")
    assert (made.id, made.rule) == (lesson_id(5), kept.rule)


ids = st.integers(1, 8)
known_drafts = [
    draft(1),
    draft(2, evidence=(1,)),
    draft(3, trust="agent_text"),
    draft(4, evidence=(1, 2, 3)),
]
known_lessons = [lesson(5), lesson(6, origin="owner"), lesson(7, evidence=(1,)), lesson(8, trust="exit_code")]
operations = st.lists(
    st.builds(
        operation,
        st.sampled_from(KINDS),
        ids,
        st.lists(ids, max_size=3),
        st.lists(ids, max_size=3),
    ),
    max_size=10,
)


@given(operations, st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)))
def test_counts_balance_and_nothing_protected_goes_whatever_is_proposed(proposed, drafts, lessons):
    ours = [known_drafts[each] for each in sorted(drafts)]
    theirs = [known_lessons[each] for each in sorted(lessons)]
    inputs = inputs_of(ours, theirs, known_drafts)
    settled, refused = settle(proposed, inputs)
    disposed = [each for one in settled for each in one.inputs]
    assert sorted(disposed) == sorted([*inputs.drafts, *inputs.lessons])
    gone = [each for one in settled for each in one.replaces]
    assert len(gone) <= loss_cap(len(theirs))
    assert all(inputs.lessons[each].origin != "owner" for each in gone)
    left = len(theirs) - len(gone) + sum(1 for one in settled if one.replaces and one.kind != "retire")
    assert left >= min(1, len(theirs))
    assert {one.lesson for one in settled if one.kind in ("duplicate", "conflict")}.isdisjoint(gone)
    assert len(refused) + sum(1 for one in settled if one in proposed) >= len(proposed)


@given(operations)
def test_settling_twice_is_settling_once(proposed):
    inputs = inputs_of(known_drafts, known_lessons, known_drafts)
    once, _ = settle(proposed, inputs)
    assert settle(once, inputs) == (once, [])


@given(operations)
def test_an_operation_comes_back_from_json_as_it_was(proposed):
    for each in proposed:
        assert Operation.from_json(json.loads(json.dumps(each.to_json()))) == each
