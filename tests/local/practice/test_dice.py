from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yume.local.practice.dice import Dice

KEYS = st.lists(st.text(max_size=5) | st.integers(), max_size=3)
NAMES = st.text(max_size=8)


@given(KEYS, NAMES)
def test_what_is_impossible_never_happens_and_what_is_certain_always_does(key, name):
    dice = Dice.of(*key)
    assert not dice.happens(name, 0.0)
    assert dice.happens(name, 1.0)


@given(KEYS, NAMES, st.integers(-50, 50), st.integers(0, 50))
def test_a_whole_number_stays_in_its_span(key, name, low, width):
    assert low <= Dice.of(*key).between(name, low, low + width) <= low + width


def test_draws_spread_evenly_over_keys_and_are_the_same_twice():
    draws = [Dice.of("seed", number).between("x", 0, 3) for number in range(2000)]
    assert draws == [Dice.of("seed", number).between("x", 0, 3) for number in range(2000)]
    assert all(420 < draws.count(value) < 580 for value in range(4))
