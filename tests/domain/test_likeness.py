from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yume.domain.likeness import alike, similarity


@given(st.text(), st.text())
def test_similarity_is_symmetric_between_0_and_1_and_1_for_the_same(left, right):
    assert 0 <= similarity(left, right) == similarity(right, left) <= 1
    assert similarity(left, left) == 1


def test_two_wordings_of_one_rule_about_one_failure_are_alike():
    left = 'When the check says "expected … before …", use `sort -n … > …`.'
    right = 'When the check says "expected … before … in …", use `sort -n …`.'
    assert alike(left, right, related=True)
    assert not alike(left, right, related=False)


def test_two_remedies_for_one_symptom_are_two_rules():
    symptom = 'When the check says "line … of the output differs from what was wanted there", use'
    assert similarity(f"{symptom} `sort -n … > …`.", f"{symptom} `tr -d … | cat`.") > 0.6
    assert not alike(f"{symptom} `sort -n … > …`.", f"{symptom} `tr -d … | cat`.", related=True)
