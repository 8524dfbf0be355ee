from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from yume.clients.rules.merging import operations

RULE = 'When the check says "expected … before …", use `sort -n … > …`.'
NEAR = 'When the check says "expected … before … in … line … holds …", use `sort -n … > …`.'
OTHER = "When lines end in a carriage return, use `tr -d '\\r'`."


def item(number, rule, **change):
    return {
        "item": number,
        "symptom": "",
        "rule": rule,
        "category": "wrong_result",
        "fingerprints": [f"f{number}"],
        "trust": "agent_text",
        "signals": 4,
        "confidence": 0.8,
        "advice": "remedy",
        **change,
    }


def merged(drafts, lessons=()):
    return [
        (each["kind"], sorted(each["drafts"]), each["lessons"])
        for each in operations({"drafts": drafts, "lessons": list(lessons)})
    ]


def test_a_draft_like_a_lesson_is_its_duplicate_and_a_new_one_is_added():
    assert merged([item(1, NEAR), item(2, OTHER)], [item(1, OTHER), item(2, RULE)]) == [
        ("duplicate", [1], [2]),
        ("duplicate", [2], [1]),
    ]
    assert merged([item(1, NEAR)], [item(1, OTHER)]) == [("add", [1], [])]


def test_drafts_that_say_the_same_become_one_in_the_words_of_the_best_founded():
    drafts = [item(1, NEAR, signals=2), item(2, RULE), item(3, OTHER)]
    (joined, added) = operations({"drafts": drafts, "lessons": []})
    assert (joined["kind"], joined["drafts"], joined["text"]) == ("merge", [2, 1], 2)
    assert (added["kind"], added["drafts"]) == ("add", [3])


def test_a_warning_does_not_outlive_a_remedy():
    drafts = [item(1, NEAR, advice="warning", trust="verifier"), item(2, RULE)]
    assert operations({"drafts": drafts, "lessons": []})[0]["text"] == 2


def warning(number, said):
    rule = f'Earlier attempts failed where the check says "{said}"; check for that before you finish.'
    return item(number, rule, advice="warning", symptom=f'the check says "{said}"')


def test_warnings_of_different_failures_stay_apart_however_alike_their_sentences():
    a, b, again = (
        warning(1, "failed test_alpha"),
        warning(2, "failed test_beta"),
        warning(3, "Failed test_alpha"),
    )
    assert merged([a, b, again]) == [("merge", [1, 3], []), ("add", [2], [])]
    approved = {name: value for name, value in warning(1, "failed test_alpha").items() if name != "advice"}
    assert merged([b], [approved]) == [("add", [2], [])]
    assert merged([again], [approved]) == [("duplicate", [3], [1])]


def test_a_warning_merges_with_a_remedy_for_its_symptom_alone():
    remedy = item(1, 'When the check says "failed test_alpha", use `sort -n`.')
    remedy |= {"symptom": 'the check says "failed test_alpha"', "fingerprints": ["f"]}
    near = {"rule": remedy["rule"], "fingerprints": ["f"]}
    assert merged([remedy, warning(2, "failed test_alpha") | near]) == [("merge", [1, 2], [])]
    assert merged([remedy, warning(2, "failed test_beta") | near]) == [("add", [1], []), ("add", [2], [])]


def test_rules_that_are_only_near_need_a_class_or_a_failure_in_common():
    assert merged([item(1, NEAR)], [item(1, RULE, category="x", fingerprints=["g"])]) == [("add", [1], [])]
    assert merged([item(1, NEAR)], [item(1, RULE, category="x")]) == [("duplicate", [1], [1])]
    assert merged([item(1, RULE)], [item(1, RULE, category="x", fingerprints=["g"])]) == [
        ("duplicate", [1], [1])
    ]


rules = st.sampled_from([RULE, NEAR, OTHER, OTHER.replace("lines", "some lines"), "Use `sort -n`.", "Stop."])
drafts = st.lists(
    st.tuples(rules, st.sampled_from(["wrong_result", "x"]), st.integers(1, 5)), max_size=8
).map(
    lambda rows: [
        item(number, rule, category=category, signals=signals)
        for number, (rule, category, signals) in enumerate(rows, start=1)
    ]
)


@given(drafts)
def test_merging_twice_is_merging_once(drafts):
    first = operations({"drafts": drafts, "lessons": []})
    assert sorted(number for each in first for number in each["drafts"]) == [each["item"] for each in drafts]
    by_number = {each["item"]: each for each in drafts}
    kept = [by_number[each.get("text") or each["drafts"][0]] for each in first]
    approved = [each | {"item": number} for number, each in enumerate(kept, start=1)]
    again = operations({"drafts": drafts, "lessons": approved})
    assert {each["kind"] for each in again} <= {"duplicate"}
    assert sorted(number for each in again for number in each["drafts"]) == [each["item"] for each in drafts]


def test_an_answer_in_prose_that_names_the_whole_command_says_the_same_of_one_failure():
    answer = "These are figures and not words, so order them by value: sort -n does that."
    told = item(1, answer, category="x", fingerprints=["f1"])
    assert merged([told], [item(1, RULE)]) == [("duplicate", [1], [1])]
    assert merged([item(1, RULE)], [told]) == [("duplicate", [1], [1])]
    assert merged([told | {"fingerprints": ["g"]}], [item(1, RULE)]) == [("add", [1], [])]
    assert merged([told | {"rule": answer.replace("-n", "it")}], [item(1, RULE)]) == [("add", [1], [])]
