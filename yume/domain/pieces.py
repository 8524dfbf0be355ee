"""The kinds of evidence that one failed attempt can leave."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from yume.domain.excerpts import Passage, is_lesson_line, looked_at, passage_of
from yume.domain.failing import attempt_of, has_passed, stated_verdict
from yume.domain.loglines import log_errors
from yume.domain.runs import Attempt, Event, Inquiry, Record, overturned_to
from yume.domain.signals import Found, Kind, Pointer, SourceClass
from yume.domain.verifying import telling_leaves

RECOVERY_COMMANDS: Final = 5  # the last ones: what made the attempt pass comes after what it looked at
COMMAND_KINDS: Final = frozenset({"tool_call", "command"})
_TIMED_OUT: Final = re.compile(
    r"time[ds]?[ _-]?out|time[ _-]?limit|deadline[ _]exceeded|out[ _]of[ _]time"
    r"|超时|时间(?:用尽|耗尽|超限)|超出时间",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A failed attempt with what is known around it; lines of `lesson` are no evidence."""

    record: Record
    attempt: Attempt
    events: Mapping[int, Sequence[Event]]
    lesson: frozenset[str]

    @property
    def path(self) -> str:
        """The attempt's place in the raw record."""
        return f"/runs/{self.attempt.index}"

    @property
    def is_last(self) -> bool:
        """Tell whether the task ended with this attempt: its own words are then the task's too."""
        return self.attempt == self.record.attempts[-1]


def exit_code(case: Case) -> list[Found]:
    """Find a non-zero exit code, or the signal that ended the attempt without one."""
    if case.attempt.exit_code:
        return [_word("exit_code", "exit_code", f"{case.path}/exit_code", str(case.attempt.exit_code))]
    if case.attempt.exit_code is None and case.attempt.signal:
        return _text("exit_code", "exit_code", f"{case.path}/signal", case.attempt.signal, case.lesson)
    return []


def failure_reason(case: Case) -> list[Found]:
    """Find what the platform says about the end of the attempt."""
    reason = case.attempt.failure_reason
    return _text("failure_reason", "platform_reason", f"{case.path}/failure_reason", reason, case.lesson)


def timeout(case: Case) -> list[Found]:
    """Find the platform's word that time ran out."""
    words = {
        f"{case.path}/failure_reason": case.attempt.failure_reason,
        f"{case.path}/signal": case.attempt.signal,
        "/task/status": case.record.task.status if case.is_last else None,
    }
    for path, text in words.items():
        seen = looked_at(text or "")
        for place, line in enumerate(seen.lines):
            if _TIMED_OUT.search(line) and not is_lesson_line(line, case.lesson):
                return [_found("timeout", "platform_reason", path, seen.passage(place, place))]
    return []


def verifier(case: Case) -> list[Found]:
    """Find what the verifier says in words, else its bare verdict; a pass only if a person overturned it."""
    stated = stated_verdict(case.record, case.attempt)
    if stated == "pass" and not (case.is_last and overturned_to(case.record)):
        return []
    details = None if stated == "pass" else case.attempt.verdict_details
    leaves = telling_leaves(details, f"{case.path}/verdict_details", case.lesson)
    said = [
        _found("verifier", "agent_text" if leaf.captured else "verifier", leaf.path, leaf.passage)
        for leaf in leaves
    ]
    if not stated or any(piece.source_class == "verifier" for piece in said):
        return said
    place = f"{case.path if case.attempt.verdict else '/task'}/verdict"
    return [*said, _word("verifier", "verifier", place, stated)]


def status(case: Case) -> Found:
    """Find the task's status: the least that a failure leaves."""
    word = passage_of(case.record.task.status, frozenset()) or Passage(1, 1, "")
    return _found("failure_reason", "platform_reason", "/task/status", word)


def logged(case: Case) -> list[Found]:
    """Find the passages of the attempt's log that speak of errors."""
    return [
        _found(
            "log_error",
            "external_text",
            f"/events/{error.event.index}/{error.event.source[0]}",
            error.passage,
        )
        for error in log_errors(case.events[case.attempt.index], case.lesson)
    ]


def asked(case: Case) -> list[Found]:
    """Find the questions to a person about the attempt, and the answers."""
    about = [inquiry for inquiry in case.record.inquiries if attempt_of(case.record, inquiry) == case.attempt]
    return [piece for inquiry in about for piece in conversation(inquiry, case.lesson)]


def conversation(inquiry: Inquiry, lesson: frozenset[str]) -> list[Found]:
    """Find an inquiry's question, which an agent wrote, and its answer, which a person did.

    What a person says who gives the task up is no way out of the failure, so it is no answer.
    """
    path = f"/inquiries/{inquiry.index}"
    answer = None if inquiry.effect == "abandoned" else inquiry.answer
    question = _text("inquiry", "agent_text", f"{path}/question", inquiry.question, lesson)
    return question + _text("inquiry", "human_answer", f"{path}/answer", answer, lesson)


def recovery(case: Case) -> list[Found]:
    """Find the commands of the attempt that passed right after this one, and that this one did not use."""
    place = case.record.attempts.index(case.attempt) + 1
    following = case.record.attempts[place] if place < len(case.record.attempts) else None
    if following is None or not has_passed(case.record, following):
        return []
    used = {_command(event) for event in _commands(case, case.attempt)}
    fresh = {_command(event): event for event in _commands(case, following) if _command(event) not in used}
    return [
        piece
        for event in list(fresh.values())[-RECOVERY_COMMANDS:]
        for piece in _text(
            "recovery", "agent_text", f"/events/{event.index}/{event.source[0]}", event.source[1], case.lesson
        )
    ]


def _commands(case: Case, attempt: Attempt) -> list[Event]:
    return [event for event in case.events[attempt.index] if event.kind in COMMAND_KINDS]


def _command(event: Event) -> str:
    return " ".join(event.source[1].split())


def _text(
    kind: Kind, source_class: SourceClass, path: str, text: str | None, lesson: frozenset[str]
) -> list[Found]:
    passage = passage_of(text, lesson) if text else None
    return [_found(kind, source_class, path, passage)] if passage else []


def _word(kind: Kind, source_class: SourceClass, path: str, word: str) -> Found:
    return _found(kind, source_class, path, Passage(1, 1, word))


def _found(kind: Kind, source_class: SourceClass, path: str, passage: Passage) -> Found:
    return Found(kind, source_class, Pointer(path, passage.first, passage.last), passage.excerpt, "")
