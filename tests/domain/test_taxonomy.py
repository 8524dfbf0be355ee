from __future__ import annotations

import json
import re
from pathlib import Path
from uuid import UUID

import pytest

from yume.domain.extraction import extract
from yume.domain.reading import read_record
from yume.domain.signals import Group, Signal, groups
from yume.domain.taxonomy import UNCLASSIFIED, Taxonomy, decide, read_classes, shipped
from yume.errors import PermanentError
from yume.ids import RunId, SignalId, TaxonomyId

SEED = Path(__file__).parents[2] / "schemas" / "postgres" / "0003_taxonomies.sql"
OUTPUT = {"verdict": "fail", "verdict_details": {"output": "expected 9 before 10"}}


def seeded(version):
    rows = re.findall(
        r"\('([0-9a-f-]+)', 'yume', (\d+), '(.*?)'::jsonb\)", SEED.read_text(encoding="utf-8"), re.DOTALL
    )
    ((uuid, classes),) = ((UUID(uuid), classes) for uuid, number, classes in rows if int(number) == version)
    return Taxonomy(TaxonomyId(uuid), "yume", version, read_classes(classes.replace("''", "'")))


V1, V2 = seeded(1), seeded(2)


@pytest.fixture
def decided(raw_record):
    """Decide the widest group of the records; each is the parts of one task."""

    def of(*records, taxonomy=V2):
        signals = []
        for number, parts in enumerate(records):
            pieces = extract(read_record(raw_record(**parts)), injected=None)
            signals += [
                Signal(
                    SignalId(UUID(int=number * 1000 + ordinal)),
                    RunId(UUID(int=number)),
                    f"T{number}",
                    ordinal,
                    piece.kind,
                    piece.source_class,
                    piece.pointer,
                    piece.excerpt,
                    piece.fingerprint,
                )
                for ordinal, piece in enumerate(pieces)
            ]
        label = decide(groups(signals)[0], taxonomy)
        return label and (label.code, label.by)

    return of


def test_both_versions_hold_the_classes_of_the_design():
    ten = {
        *("infinite_fix_loop", "state_rot", "verifier_theater", "notification_fatigue", "token_burn"),
        *(
            "over_reach",
            "comprehension_debt",
            "cognitive_surrender",
            "parallel_collision",
            "escalation_failure",
        ),
    }
    added = {
        *(
            "misread_task",
            "missing_information",
            "unsupported_request",
            "plan_not_followed",
            "invalid_tool_call",
        ),
        *("misread_tool_output", "invented_information", "wrong_result", "skipped_check", "stopped_early"),
        *("guardrail_stop", "time_exhausted", "blocked_by_dependency"),
    }
    first = {each.code for each in V1.classes}
    assert first == ten | {"prompt_injection", "environment_fault", UNCLASSIFIED}
    assert {each.code for each in V2.classes} == first | added


@pytest.mark.parametrize("taxonomy", [V1, V2])
def test_every_class_is_told_in_full(taxonomy):
    for each in taxonomy.classes:
        assert all((each.title, each.definition, each.positive, each.negative)), each.code
        assert each.severity in {1, 2, 3}
        assert each.decided_by or each.code == UNCLASSIFIED


def test_what_no_lesson_can_change_teaches_nothing():
    mute = {each.code for each in V2.classes if not each.learnable}
    assert mute >= {each.code for each in V2.classes if not each.attributable}
    assert mute >= {"environment_fault", "blocked_by_dependency", "prompt_injection"}
    assert not mute & {"wrong_result", "infinite_fix_loop", UNCLASSIFIED}


def test_deciders_are_a_list_or_joined_by_plus():
    row = dict.fromkeys(("code", "title", "definition", "positive", "negative"), "x")
    row |= {"severity": 1, "attributable": True, "learnable": True}
    assert read_classes([row | {"decided_by": "rule + model"}])[0].decided_by == ("rule", "model")
    assert read_classes(json.dumps([row | {"decided_by": ["model"]}]))[0].decided_by == ("model",)
    with pytest.raises(PermanentError, match="not by dice"):
        read_classes([row | {"decided_by": "dice"}])
    with pytest.raises(PermanentError, match="holds a class twice: x"):
        read_classes([row | {"decided_by": "rule"}] * 2)
    with pytest.raises(PermanentError, match="'x' of a taxonomy lacks the field 'decided_by'"):
        read_classes([row])


def test_the_platforms_fault_is_decided_by_its_words(decided):
    disk = {"runs": [{"exit_code": 1, "failure_reason": "runner: disk full"}]}
    assert decided(disk) == ("environment_fault", "rule:disk-full-reason")


def test_a_task_that_never_ran_is_decided_by_its_reason(decided):
    blocked = {"runs": [{"verdict": "fail", "failure_reason": "test_b depends on test_a"}]}
    assert decided(blocked) == ("blocked_by_dependency", "rule:depends-on")


def test_an_agents_claim_is_no_word_of_the_platform(decided):
    asked = {"question": "disk full, what now?", "answer": "quota exceeded?", "run_id": "R1"}
    assert decided({"runs": [OUTPUT], "inquiries": [asked]}) is None


def test_time_loop_collision_and_a_bent_check_are_decided(decided):
    assert decided({"runs": [{"failure_reason": "timed out after 60 s"}]}) == (
        "time_exhausted",
        "rule:timed-out",
    )
    assert decided({"runs": [OUTPUT] * 3}) == ("infinite_fix_loop", "rule:same-error-thrice")
    locked = {"runs": [{"exit_code": 1}], "events": [{"text": "error: database is locked"}]}
    assert decided(locked) == ("parallel_collision", "rule:lock")
    bent = {"answer": "the test was bent", "effect": "overturned", "outcome": "fail"}
    assert decided({"runs": [{"verdict": "pass"}], "inquiries": [bent]}) == (
        "verifier_theater",
        "rule:overturned-pass",
    )


def test_a_question_that_nobody_answered_is_a_failed_escalation(decided):
    asked = {"question": "which password?", "run_id": "R1"}
    assert decided({"runs": [OUTPUT], "inquiries": [asked]}) == ("escalation_failure", "rule:unanswered")
    assert decided({"runs": [OUTPUT], "inquiries": [asked | {"answer": "this one"}]}) is None


def test_an_ordinary_failure_is_left_to_the_model(decided):
    assert decided({"runs": [OUTPUT]}) is None


def test_a_label_needs_half_of_the_runs(decided):
    plain, loop = {"runs": [OUTPUT]}, {"runs": [OUTPUT] * 3}
    assert decided(plain, loop) == ("infinite_fix_loop", "rule:same-error-thrice")
    assert decided(plain, plain, loop) is None


def test_a_class_that_the_taxonomy_lacks_is_not_given(decided):
    assert decided({"runs": [{"failure_reason": "timed out after 60 s"}]}, taxonomy=V1) is None


def test_a_class_that_only_a_model_decides_is_not_given_by_rule():
    only_models = Taxonomy(V2.id, "x", 1, tuple(each for each in V2.classes if "rule" not in each.decided_by))
    assert decide(Group("f", ()), only_models) is None


def test_the_taxonomy_that_comes_with_the_code_is_the_newest_of_the_database():
    assert shipped() == V2
