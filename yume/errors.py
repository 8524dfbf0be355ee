"""How a step says no: try again later, or never."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class YumeError(Exception):
    """Everything that Yume raises on purpose: the message names the thing, the number and the way out."""


class TransientError(YumeError):
    """The same call may succeed later; `retry_in` overrides the usual backoff."""

    def __init__(self, message: str, *, retry_in: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_in = retry_in


class PermanentError(YumeError):
    """The same call can never succeed: a person has to look."""


class StepTakenError(YumeError):
    """Somebody else has done this step, or the dream has ended: what was about to be saved is not needed."""


class ParkedError(YumeError):
    """Only a person can say whether this dream goes on: it waits, and nothing is lost."""


def faults(error: ValidationError) -> str:
    """Say in one line which fields of a value are wrong, and how."""
    return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
