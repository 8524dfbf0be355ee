"""What a row of `runs` keeps of a record: short, clean facts to read and count; the rest is archived."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from yume.domain.runs import Attempt, Inquiry, Record
from yume.domain.text import cap, clean, rendered

TEXT_LIMIT: Final = 500
ARTIFACTS: Final = 50

Json = dict[str, Any]


def attempt_facts(record: Record) -> list[Json]:
    """Return each attempt's ending and times."""
    return [_attempt(attempt) for attempt in record.attempts]


def inquiry_facts(record: Record) -> list[Json]:
    """Return each inquiry's course; who answered stays the platform's opaque id."""
    return [_inquiry(inquiry) for inquiry in record.inquiries]


def artifact_facts(record: Record) -> list[Json]:
    """Return pointers to what the attempts made, at most ARTIFACTS of them."""
    found = [
        {
            name: short(rendered(value))
            for name, value in artifact.items()
            if name in ("name", "uri", "sha256", "size")
        }
        for attempt in record.attempts
        if isinstance(attempt.artifacts, list)
        for artifact in attempt.artifacts
        if isinstance(artifact, dict)
    ]
    return found[:ARTIFACTS]


def proposal_facts(proposals: Iterable[Json]) -> list[Json]:
    """Return the agents' own proposals, with the fields that the contract names."""
    names = ("id", "task_id", "text", "created_at")
    return [{name: short(rendered(each[name])) for name in names if name in each} for each in proposals]


def short(text: str | None) -> str | None:
    """Clean and cap one text for a row."""
    return None if text is None else cap(clean(text[: 4 * TEXT_LIMIT]), TEXT_LIMIT)


def _attempt(attempt: Attempt) -> Json:
    return {
        "id": short(attempt.id),
        "attempt": attempt.number,
        "started_at": _time(attempt.started_at),
        "finished_at": _time(attempt.finished_at),
        "exit_code": attempt.exit_code,
        "signal": short(attempt.signal),
        "failure_reason": short(attempt.failure_reason),
        "verdict": attempt.verdict,
        "memory_version": short(attempt.memory_version),
    }


def _inquiry(inquiry: Inquiry) -> Json:
    return {
        "id": short(inquiry.id),
        "run_id": short(inquiry.run_id),
        "asked_at": _time(inquiry.asked_at),
        "answered_at": _time(inquiry.answered_at),
        "effect": short(inquiry.effect),
        "outcome": inquiry.outcome,
        "by": short(inquiry.by),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
