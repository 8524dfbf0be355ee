"""Which attempts of a record failed, and which one made good what failed before."""

from __future__ import annotations

from collections.abc import Iterable

from yume.domain.runs import Attempt, Event, Inquiry, Record, Verdict, blamed_on, overturned_to


def stated_verdict(record: Record, attempt: Attempt) -> Verdict | None:
    """Return the attempt's verdict; the one kept on the task is the last attempt's."""
    return attempt.verdict or (record.task.verdict if attempt == record.attempts[-1] else None)


def has_failed(record: Record, attempt: Attempt, events: Iterable[Event]) -> bool:
    """Tell whether an attempt is evidence of failure; a person's final word on the last one counts most."""
    is_last = attempt == record.attempts[-1]
    if is_last and (final := overturned_to(record)):
        return final == "fail"
    if any(inquiry.rescues and attempt_of(record, inquiry) == attempt for inquiry in record.inquiries):
        return True
    if verdict := stated_verdict(record, attempt):
        return verdict == "fail"
    if attempt.exit_code is not None:
        return attempt.exit_code != 0 or blamed_on(attempt, events) is not None
    ended_badly = attempt.failure_reason or attempt.signal
    return bool(ended_badly) or (is_last and record.task.status == "failed")


def has_passed(record: Record, attempt: Attempt) -> bool:
    """Tell whether an attempt did the task: by verdict, else by exit code where nobody judges."""
    if attempt == record.attempts[-1] and overturned_to(record):
        return overturned_to(record) == "pass"
    verdict = stated_verdict(record, attempt)
    return verdict == "pass" or (verdict is None and not attempt.verdict_stated and attempt.exit_code == 0)


def attempt_of(record: Record, inquiry: Inquiry) -> Attempt | None:
    """Find the attempt that an inquiry was about: by run id, else by time, else the last."""
    for attempt in record.attempts:
        if attempt.id == inquiry.run_id:
            return attempt
    asked = inquiry.asked_at
    for attempt in record.attempts:
        started, finished = attempt.started_at, attempt.finished_at
        if asked and started and finished and started <= asked <= finished:
            return attempt
    return record.attempts[-1] if record.attempts else None
