from __future__ import annotations

from uuid import UUID

import pytest

from yume.clients.rules.drafting import lessons
from yume.domain.guard import scan
from yume.domain.lessons import one_sentence
from yume.domain.taxonomy import CONFIDENCE_FLOOR
from yume.local.practice.dice import Dice
from yume.local.practice.pitfalls import draw_values, load, render, teaches

PITFALLS = [each for each in load() if not each.plain]


def signal(number, kind, source, task, text):
    return {"id": str(UUID(int=number)), "kind": kind, "source": source, "task": task, "text": text}


CHECKS = [
    signal(1, "verifier", "verifier", 1, "expected 7 before 23 in 'ranked.txt', line 4 holds 23"),
    signal(2, "verifier", "verifier", 2, "expected 9 before 101 in 'sorted.txt', line 14 holds 101"),
]
WAYS = [
    signal(3, "recovery", "agent_text", 1, "sort -n figures.txt > ranked.txt"),
    signal(4, "recovery", "agent_text", 2, "sort -n scores.txt > sorted.txt"),
]
ANSWER = signal(5, "inquiry", "human_answer", 2, "These are figures. Order them by value: sort -n does that.")
LEAVE = signal(6, "inquiry", "human_answer", 3, "Leave this one, I will do it by hand.")


def drafted(*signals, language="en"):
    made = lessons({"language": language, "items": [{"item": 1, "signals": list(signals)}]})
    for each in made:
        shown = {one["id"]: one["text"] for one in signals}
        assert all(quote["text"] in shown[quote["signal"]] for quote in each["quotes"])
        assert {quote["signal"] for quote in each["quotes"]} <= set(each["evidence"]) <= set(shown)
        assert one_sentence(each["rule"])
        assert len(each["rule"]) <= 300
    return made


def test_two_tasks_that_came_through_alike_give_a_remedy_with_its_option():
    (made,) = drafted(*CHECKS, *WAYS)
    assert made["rule"] == (
        'When the check says "expected … before … in … line … holds …", use `sort -n … > …`.'
    )
    assert made["advice"] == "remedy"
    assert set(made["evidence"]) == {each["id"] for each in [*CHECKS, *WAYS]}
    assert made["confidence"] >= CONFIDENCE_FLOOR
    assert scan(made["rule"]).verdict == "pass"


def test_one_task_alone_gives_the_command_and_no_confidence():
    (made,) = drafted(CHECKS[0], WAYS[0])
    assert "`sort -n … > …`" in made["rule"]
    assert made["confidence"] < CONFIDENCE_FLOOR


def test_a_command_that_prescribes_only_its_program_is_for_a_person():
    ways = [
        signal(7, "recovery", "agent_text", 1, "cat a > b"),
        signal(8, "recovery", "agent_text", 2, "cat c > d"),
    ]
    (made,) = drafted(*CHECKS, *ways)
    assert "`cat … > …`" in made["rule"]
    assert made["confidence"] < CONFIDENCE_FLOOR


def test_a_persons_answer_that_led_on_comes_before_the_commands():
    (made,) = drafted(*CHECKS, *WAYS, ANSWER)
    assert made["advice"] == "answer"
    assert "These are figures; Order them by value: sort -n does that." in made["rule"]
    assert ANSWER["id"] in made["evidence"]


def test_an_answer_after_which_nobody_came_through_does_not_stand_before_a_remedy():
    (made,) = drafted(*CHECKS, *WAYS, LEAVE)
    assert made["advice"] == "remedy"
    assert LEAVE["id"] not in made["evidence"]
    (made,) = drafted(*CHECKS, LEAVE)
    assert (made["advice"], made["confidence"] < CONFIDENCE_FLOOR) == ("answer", True)


def test_without_a_way_out_there_is_a_warning():
    (made,) = drafted(*CHECKS)
    assert made["advice"] == "warning"
    assert made["rule"].startswith("Earlier attempts failed where the check says")


@pytest.mark.parametrize(
    "said",
    [
        "fail",
        "FAILED",
        "failed 12 tests",
        "assert 3 in 7",
        "AssertionError: assert False",
        "测试失败",
        "1 failed.",
    ],
)
def test_a_symptom_that_names_nothing_gives_no_warning_but_a_remedy_all_the_same(said):
    checks = [signal(number, "verifier", "verifier", number, said) for number in (1, 2)]
    assert drafted(*checks) == []
    (made,) = drafted(*checks, *WAYS)
    assert made["advice"] == "remedy"


@pytest.mark.parametrize("said", ["failed test_alpha", "assert 'x' in out.csv", "sum is wrong", "缺少文件"])
def test_a_symptom_that_names_something_gives_a_warning(said):
    (made,) = drafted(*(signal(number, "verifier", "verifier", number, said) for number in (1, 2)))
    assert made["advice"] == "warning"


def test_the_exit_code_of_any_error_gives_no_warning_and_another_one_does():
    assert drafted(signal(1, "exit_code", "exit_code", 1, "1")) == []
    (made,) = drafted(signal(1, "exit_code", "exit_code", 1, "137"))
    assert "exit code 137" in made["rule"]


def test_without_a_signal_of_the_platform_nothing_is_drafted():
    assert drafted(*WAYS, ANSWER) == []


def test_an_exit_code_and_a_reason_can_be_the_symptom():
    (made,) = drafted(signal(1, "exit_code", "exit_code", 1, "137"), WAYS[0])
    assert made["rule"].startswith("When a command ends with exit code 137, use")
    (made,) = drafted(
        signal(1, "failure_reason", "platform_reason", 1, "timed out after 10 s. Killed."), WAYS[0]
    )
    assert made["rule"].startswith('When an attempt fails with "timed out after … s Killed", use')


@pytest.mark.parametrize("signals", [[*CHECKS, *WAYS], [*CHECKS, *WAYS, ANSWER], CHECKS])
def test_a_chinese_series_gets_chinese_sentences(signals):
    (made,) = drafted(*signals, language="zh-CN")
    assert "检查提示" in made["rule"]
    assert "When" not in made["rule"]


def test_however_long_the_evidence_the_rule_keeps_its_limit():
    long_check = signal(1, "verifier", "verifier", 1, "expected " + "word " * 200)
    long_way = signal(3, "recovery", "agent_text", 1, "sort -n " + "--option-of-it " * 20)
    long_answer = signal(5, "inquiry", "human_answer", 1, "sort -n. " * 100)
    for signals in ([long_check, long_way], [long_check, long_way, long_answer], [long_check]):
        (made,) = drafted(*signals)
        assert len(made["rule"]) > 100


@pytest.mark.parametrize("pitfall", PITFALLS, ids=[each.name for each in PITFALLS])
@pytest.mark.parametrize("tasks", [1, 2, 5])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_practice_worker_can_follow_what_was_learnt_from_it(pitfall, tasks, language):
    signals = []
    for task in range(1, tasks + 1):
        command = render(pitfall.remedy, draw_values(pitfall, Dice.of(pitfall.name, task)))
        signals.append(signal(task, "verifier", "verifier", task, f"expected {task} lines, got {task * 7}"))
        signals.append(signal(100 + task, "recovery", "agent_text", task, command))
    (made,) = drafted(*signals, language=language)
    assert teaches(made["rule"], pitfall)
    assert scan(made["rule"]).verdict == "pass"
    assert (made["confidence"] >= CONFIDENCE_FLOOR) == (tasks > 1)
    answer = signal(200, "inquiry", "human_answer", 1, pitfall.answer)
    (made,) = drafted(*signals, answer, language=language)
    assert teaches(made["rule"], pitfall)
