from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.lessons import Lesson
from yume.domain.projection import LeftOut, project, rank
from yume.domain.rounds import (
    ADDED,
    CAP_BATCHES,
    CAP_RUNS,
    DWELL_BATCHES,
    DWELL_RUNS,
    Compiled,
    NamedBatch,
    Standing,
    blocking,
    choose,
    compiled,
    crowding,
    difference,
    dwell,
)
from yume.ids import LessonId, SignalId

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
DAY = timedelta(hours=24)


def name(number):
    return LessonId(UUID(int=number))


def lesson(number, *, origin="dream", trust="verifier", signals=1):
    ours = name(number)
    evidence = tuple(SignalId(UUID(int=1000 + each)) for each in range(signals))
    trusted = None if origin == "owner" else trust
    return Lesson(
        ours, ours, 1, origin, "approved", "s", "c", "Ask.", "k", "", evidence, (), trusted, (), 0.9
    )


def ids(lessons):
    return [each.id.int for each in lessons]


def waiting(left_out):
    assert {each.why for each in left_out} <= {"quota"}
    return [each.lesson_id.int for each in left_out]


@pytest.mark.parametrize(
    ("batches", "runs", "decided", "lacks"),
    [
        (0, 0, False, "0 of 2 batches and 0 of 60 runs"),
        (1, 34, True, "1 of 2 batches and 34 of 60 runs"),
        (DWELL_BATCHES, DWELL_RUNS - 1, True, "59 of 60 runs"),
        (DWELL_BATCHES - 1, DWELL_RUNS, True, "1 of 2 batches"),
        (DWELL_BATCHES, DWELL_RUNS, True, None),
        (DWELL_BATCHES, DWELL_RUNS, False, "no verdict yet, 2 of 8 batches and 60 of 400 runs at most"),
        (CAP_BATCHES - 1, CAP_RUNS - 1, False, "no verdict yet, 7 of 8 batches and 399 of 400 runs at most"),
        (CAP_BATCHES - 1, DWELL_RUNS - 1, False, "59 of 60 runs"),
        (CAP_BATCHES, 0, False, None),
        (DWELL_BATCHES - 1, CAP_RUNS - 1, False, "1 of 2 batches"),
        (0, CAP_RUNS, False, None),
    ],
)
@pytest.mark.parametrize("kind", ["write", "experiment"])
def test_a_version_stays_until_it_has_its_verdict_or_reached_the_cap(batches, runs, decided, lacks, kind):
    assert dwell(Standing(batches, runs, kind, decided)) == lacks


@pytest.mark.parametrize("kind", ["rollback", "kill", "adopted"])
def test_what_no_dream_chose_may_be_replaced_at_once(kind):
    assert dwell(Standing(0, 0, kind)) is None


def test_an_empty_slot_may_be_written_at_once():
    assert dwell(None) is None


@given(
    st.tuples(*[st.integers(0, 500)] * 4),
    st.sampled_from(["write", "experiment", "rollback", "kill", "adopted"]),
    st.booleans(),
)
def test_more_batches_runs_and_a_verdict_never_make_a_version_stay_longer(counts, kind, decided):
    batches, runs, more, further = counts
    if dwell(Standing(batches, runs, kind, decided)) is None:
        assert dwell(Standing(batches + more, runs + further, kind, decided)) is None
        assert dwell(Standing(batches, runs, kind, decided=True)) is None


def test_the_first_version_has_no_quota():
    approved = [lesson(number) for number in range(1, 31)]
    assert choose(approved, None) == (approved, [])


def test_onto_an_empty_version_come_five_and_the_best_first():
    approved = [lesson(number, signals=number) for number in range(1, 9)]
    chosen, left_out = choose(approved, [])
    assert (ids(chosen), waiting(left_out)) == ([8, 7, 6, 5, 4], [3, 2, 1])


def test_what_was_in_the_version_stays_without_a_share_of_the_quota():
    approved = [lesson(number) for number in range(1, 31)]
    chosen, left_out = choose(approved, [each.id for each in approved[:20]])
    assert (ids(chosen), waiting(left_out)) == ([*range(1, 26)], [26, 27, 28, 29, 30])


@pytest.mark.parametrize(
    ("base", "removed", "added"),
    [
        (10, 0, 5),
        (10, 2, 3),
        (10, 5, 0),
        (10, 7, 0),
        (19, 2, 3),
        (20, 2, 4),
        (20, 1, 5),
        (30, 4, 5),
        (30, 5, 4),
    ],
)
def test_what_is_removed_comes_first_and_additions_take_what_is_left_of_the_changes(base, removed, added):
    stay = [lesson(number) for number in range(1, base - removed + 1)]
    new = [lesson(number) for number in range(101, 111)]
    chosen, left_out = choose([*new, *stay], [name(number) for number in range(1, base + 1)])
    assert ids(chosen) == [*ids(stay), *ids(new[:added])]
    assert waiting(left_out) == ids(new[added:])


def test_the_owners_rules_never_wait_and_do_not_count():
    owned = [lesson(number, origin="owner") for number in range(1, 11)]
    new = [lesson(number) for number in range(101, 108)]
    chosen, left_out = choose([*new, *owned], [])
    assert (ids(chosen), waiting(left_out)) == (ids(owned) + ids(new[:ADDED]), ids(new[ADDED:]))


lessons = st.lists(
    st.builds(
        lesson,
        st.integers(1, 60),
        origin=st.sampled_from(["dream", "dream", "dream", "agent_proposal", "owner"]),
        trust=st.sampled_from(["exit_code", "verifier", "agent_text"]),
        signals=st.integers(1, 4),
    ),
    max_size=50,
    unique_by=lambda each: each.id,
)
bases = st.lists(st.integers(1, 60).map(name), max_size=60, unique=True)


@given(lessons, bases)
def test_a_choice_changes_no_more_than_the_quota_and_keeps_what_it_must(approved, base):
    chosen, left_out = choose(approved, base)
    added = [each for each in chosen if each.id not in base and each.origin != "owner"]
    removed = set(base) - {each.id for each in approved}
    assert len(added) <= ADDED
    assert not added or len(added) + len(removed) <= max(5, 3 * len(base) // 10)
    assert {each.id for each in chosen} >= {each.id for each in approved if each.id in base}
    assert {each.id for each in chosen} >= {each.id for each in approved if each.origin == "owner"}
    assert sorted(ids(chosen) + waiting(left_out)) == sorted(ids(approved))
    by_name = {each.id: each for each in approved}
    waiting_ranks = [rank(by_name[each.lesson_id]) for each in left_out]
    assert [rank(each) for each in chosen] == sorted(map(rank, chosen))
    assert waiting_ranks == sorted(waiting_ranks)
    assert not (added and left_out) or max(map(rank, added)) < waiting_ranks[0]


@given(lessons, bases, st.randoms(use_true_random=False))
def test_the_order_in_which_lessons_come_does_not_matter(approved, base, random):
    shuffled, also = list(approved), list(base)
    random.shuffle(shuffled)
    random.shuffle(also)
    assert choose(shuffled, also) == choose(approved, base)
    assert choose(shuffled, frozenset(also)) == choose(approved, base)


def test_an_addition_that_pushes_too_much_out_of_the_budget_is_given_up_the_weakest_first():
    base = [lesson(number) for number in range(1, 11)]
    new = [lesson(101, signals=9), lesson(102, signals=5)]
    shown = [each.id for each in [*new, *base[:6]]]  # four of the base no longer fit: six changes of five
    assert crowding([*base, *new], shown, [each.id for each in base]) == new[1]


@pytest.mark.parametrize("pushed_out", [0, 3])
def test_what_stays_within_the_quota_is_left_as_it_is(pushed_out):
    base = [lesson(number) for number in range(1, 11)]
    new = [lesson(101, signals=9), lesson(102, signals=5)]
    shown = [each.id for each in [*new, *base[pushed_out:]]]
    assert crowding([*base, *new], shown, [each.id for each in base]) is None


def test_an_owners_rule_is_not_given_up_whatever_it_pushes_out():
    base = [lesson(number) for number in range(1, 11)]
    owned = lesson(101, origin="owner")
    assert crowding([*base, owned], [owned.id], [each.id for each in base]) is None


def batch(letter, hours_ago, *, finished=False):
    return NamedBatch(letter, NOW - timedelta(hours=hours_ago), finished)


def test_an_open_batch_blocks_a_finished_one_does_not():
    assert blocking([batch("a", 3, finished=True)], NOW, DAY) is None
    assert blocking([batch("a", 3)], NOW, DAY) == batch("a", 3)
    assert blocking([], NOW, DAY) is None


def test_a_batch_that_never_finishes_blocks_for_its_time_and_no_longer():
    moment = timedelta(microseconds=1)
    forgotten = batch("a", 24)
    assert blocking([forgotten], NOW - moment, DAY) == forgotten
    assert blocking([forgotten], NOW, DAY) is None


def test_of_several_open_batches_the_one_that_blocks_longest_is_named():
    several = [batch("a", 9), batch("b", 2), batch("c", 2), batch("d", 1, finished=True), batch("e", 30)]
    assert blocking(several, NOW, DAY) == batch("c", 2)
    assert blocking(reversed(several), NOW, DAY) == batch("c", 2)


def test_what_was_compiled_is_kept_and_read_back_as_it_was():
    left_out = [LeftOut(name(9), "quota")]
    projection = project(
        [lesson(1), lesson(2, origin="owner")],
        series="kamila",
        version=7,
        budget_tokens=500,
        waiting=left_out,
    )
    made = compiled(projection, 7)
    assert (made.version, made.text, made.lesson_ids) == (7, projection.text, (name(2), name(1)))
    assert (made.body_sha256, made.text_sha256) == (projection.body_sha256, projection.text_sha256)
    assert (made.body, made.tokens, made.left_out) == (projection.body, projection.tokens, tuple(left_out))
    assert Compiled.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("", "", []),
        ("- a\n- b\n", "- a\n- b\n", []),
        ("", "- a\n", ["+ a"]),
        ("- a\n- b\n", "", ["- a", "- b"]),
        ("- a\n- b\n- c\n", "- a\n- x\n- c\n- d\n", ["- b", "+ x", "+ d"]),
        ("- a\n- b\n", "- b\n- a\n", ["+ b", "- b"]),
        ("- -n sorts\n", "- - sorts\n", ["- -n sorts", "+ - sorts"]),
    ],
)
def test_two_bodies_differ_by_the_lines_that_went_and_came(before, after, lines):
    assert difference(before, after) == lines


bodies = st.lists(st.sampled_from("abcde"), max_size=30).map(
    lambda rules: "".join(f"- {each}\n" for each in rules)
)


@given(bodies, bodies)
def test_the_difference_is_empty_for_equal_bodies_alone_and_counts_every_line(before, after):
    found = difference(before, after)
    assert (not found) == (before == after)
    assert found == difference(before, after)
    gone = sum(line.startswith("- ") for line in found)
    assert before.count("\n") - gone + (len(found) - gone) == after.count("\n")
