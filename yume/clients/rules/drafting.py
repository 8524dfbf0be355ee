"""S4 by rules: a person's answer, else the command that the passing attempts share, else a warning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from yume.clients.rules.commands import OPEN, Skeleton, common, open_up, skeleton
from yume.clients.rules.table import EMPTY_WORDS, SENTENCES
from yume.domain.lessons import RULE_LIMIT

Signal = Mapping[str, Any]

UNSURE: Final = 0.5  # below the floor of an automatic approval: a person has to judge
SURE: Final = 0.8
SURER: Final = 0.9
FIXED_WORDS: Final = 2  # a command that prescribes fewer says too little

PLATFORM_CITED: Final = 2
WAYS_CITED: Final = 2
ANY_ERROR: Final = "1"  # the exit code of whatever has no better one
QUOTE_LIMIT: Final = 160
COMMAND_LIMIT: Final = 150
ANSWER_LIMIT: Final = 170
SYMPTOM_LIMITS: Final = (110, 60, 25)

_TELLING: Final = ("verifier", "platform_reason", "exit_code")
_NAME: Final = re.compile(r"[^\W\d_][\w-]*|\d+")
_END_SIGNS: Final = " .!?;\u3002\uff01\uff1f\uff1b"
_SENTENCE_END: Final = re.compile(r"\s*(?:(?<!e\.g)(?<!i\.e)[.!?](?=\s+\S)|[\u3002\uff01\uff1f](?=\s*\S))\s*")


def lessons(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Draft one lesson for each item that has a signal of the platform's own and something to say."""
    sentences = SENTENCES.get(body["language"].partition("-")[0], SENTENCES["en"])
    drafted = (_lesson(item, sentences) for item in body["items"])
    return [each for each in drafted if each is not None]


def _lesson(item: Mapping[str, Any], sentences: Mapping[str, str]) -> dict[str, Any] | None:
    signals: Sequence[Signal] = item["signals"]
    if not any(each["source"] in _TELLING for each in signals):
        return None
    recoveries = [each for each in signals if each["kind"] == "recovery"]
    answers = [each for each in signals if each["source"] == "human_answer" and each["text"].strip()]
    recovered = {each["task"] for each in recoveries}
    led_on = [each for each in answers if each["task"] in recovered]
    shared = skeleton(_by_task(recoveries))
    if led_on:
        return _from_answer(item, led_on[0], sentences, SURE)
    if shared is not None:
        return _from_commands(item, shared, sentences)
    if answers:
        return _from_answer(item, answers[0], sentences, UNSURE)
    return _warning(item, sentences)


def _from_answer(
    item: Mapping[str, Any], answer: Signal, sentences: Mapping[str, str], confidence: float
) -> dict[str, Any]:
    task = answer["task"]
    followed = [each for each in item["signals"] if each["kind"] == "recovery" and each["task"] == task]
    fill = {"answer": _short(_one_sentence(answer["text"]), ANSWER_LIMIT)}
    ways = [answer, *followed[:1]]
    symptom = _symptom(item["signals"])
    return _made(item, "answer", fill, symptom, ways=ways, sentences=sentences, confidence=confidence)


def _from_commands(item: Mapping[str, Any], shared: Skeleton, sentences: Mapping[str, str]) -> dict[str, Any]:
    used = [
        each
        for each in item["signals"]
        if each["kind"] == "recovery" and each["task"] in shared.tasks and _uses(each["text"], shared)
    ]
    first_of_task = list({each["task"]: each for each in reversed(used)}.values())[::-1]
    seen = len(shared.tasks)
    sure = SURER if seen > WAYS_CITED else SURE
    confidence = sure if seen >= WAYS_CITED and shared.fixed >= FIXED_WORDS else UNSURE
    fill = {"command": _short(str(shared), COMMAND_LIMIT)}
    ways = first_of_task[:WAYS_CITED]
    symptom = _symptom(item["signals"])
    return _made(item, "remedy", fill, symptom, ways=ways, sentences=sentences, confidence=confidence)


def _warning(item: Mapping[str, Any], sentences: Mapping[str, str]) -> dict[str, Any] | None:
    """Warn of a symptom by which it can be known again: without a way out there is nothing else to say."""
    symptom = _symptom(item["signals"])
    source, words = symptom
    named = {word.casefold() for word in _NAME.findall(words)} - EMPTY_WORDS
    if not named or (source == "exit_code" and words == ANY_ERROR):
        return None
    return _made(item, "warning", {}, symptom, ways=[], sentences=sentences, confidence=UNSURE)


def _made(
    item: Mapping[str, Any],
    advice: str,
    fill: Mapping[str, str],
    symptom: tuple[str, str],
    *,
    ways: Sequence[Signal],
    sentences: Mapping[str, str],
    confidence: float,
) -> dict[str, Any]:
    """Put a lesson together; `ways` are the signals that show the way out."""
    cited = [*_platform_cited(item["signals"], [each["task"] for each in ways]), *ways]
    return {
        "item": item["item"],
        "symptom": _phrase(symptom, SYMPTOM_LIMITS[0], sentences),
        "root_cause": sentences[f"cause_{advice}"],
        "rule": _rule(sentences[advice], fill, symptom, sentences),
        "scope": sentences["scope"],
        "advice": advice,
        "evidence": [each["id"] for each in cited],
        "quotes": [
            {"signal": each["id"], "text": quote} for each in cited if (quote := _quote(each["text"]))
        ],
        "confidence": confidence,
    }


def _rule(
    sentence: str, fill: Mapping[str, str], symptom: tuple[str, str], sentences: Mapping[str, str]
) -> str:
    """Return the sentence with as much of the symptom as there is room for."""
    rules = [sentence.format(symptom=_phrase(symptom, limit, sentences), **fill) for limit in SYMPTOM_LIMITS]
    return next((each for each in rules if len(each) <= RULE_LIMIT), rules[-1])


def _phrase(symptom: tuple[str, str], limit: int, sentences: Mapping[str, str]) -> str:
    source, words = symptom
    return sentences[source].format(words=_short(words, limit))


def _symptom(signals: Sequence[Signal]) -> tuple[str, str]:
    """Return the most telling source of the platform, and the words that its signals share across tasks."""
    source = next(name for name in _TELLING if any(each["source"] == name for each in signals))
    spoken: dict[int, tuple[str, ...]] = {}
    for each in signals:
        words = _spoken(each["text"])
        if each["source"] == source and len(words) > len(spoken.get(each["task"], ())):
            spoken[each["task"]] = words
    first, *others = spoken.values() or [(OPEN,)]
    near = [each for each in others if len(common(first, each)) * 2 > len(first)]
    words = reduce(common, near, first)
    return source, " ".join(words if source == "exit_code" else open_up(("", *words))).strip()


def _spoken(text: str) -> tuple[str, ...]:
    line = next((each for each in text.splitlines() if each.strip()), "")
    plain = _one_sentence(line).replace("`", "'").replace('"', "'")
    return tuple(word.strip(",;:") for word in plain.split() if word.strip(",;:"))


def _platform_cited(signals: Sequence[Signal], tasks: Sequence[int]) -> list[Signal]:
    """Choose the platform's most telling signal of a few tasks, those of the way out first."""
    best: dict[int, Signal] = {}
    for source in _TELLING:
        for each in signals:
            if each["source"] == source and each["text"].strip():
                best.setdefault(each["task"], each)
    ranked = sorted(best, key=lambda task: (task not in tasks, task))
    return [best[task] for task in ranked[:PLATFORM_CITED]]


def _by_task(recoveries: Iterable[Signal]) -> dict[int, list[str]]:
    commands: dict[int, list[str]] = {}
    for each in recoveries:
        commands.setdefault(each["task"], []).extend(each["text"].splitlines())
    return commands


def _uses(text: str, shared: Skeleton) -> bool:
    return all(word in text for word in shared.words if word != OPEN)


def _one_sentence(text: str) -> str:
    """Run the sentences of a text together into one, without its last full stop."""
    return _SENTENCE_END.sub("; ", " ".join(text.split())).rstrip(_END_SIGNS)


def _short(text: str, limit: int) -> str:
    """Cut at a word, with a sign that something is missing."""
    if len(text) <= limit:
        return text
    cut = text[: limit - 2]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut else cut} {OPEN}".replace(f"{OPEN} {OPEN}", OPEN)


def _quote(text: str) -> str:
    return next((line[:QUOTE_LIMIT] for line in text.split("\n") if line.strip()), "")
