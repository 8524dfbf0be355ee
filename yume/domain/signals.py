"""A signal is one piece of failure evidence; signals of one fingerprint show the same failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from yume.ids import RunId, SignalId

Kind = Literal[
    "exit_code", "failure_reason", "verifier", "inquiry", "timeout", "log_error", "retry_loop", "recovery"
]
SourceClass = Literal[
    "exit_code", "verifier", "platform_reason", "human_answer", "agent_text", "external_text"
]

TRUST: Final[tuple[SourceClass, ...]] = (
    "exit_code",
    "verifier",
    "platform_reason",
    "human_answer",
    "agent_text",
    "external_text",
)
PLATFORM_WRITTEN: Final[frozenset[SourceClass]] = frozenset({"exit_code", "verifier", "platform_reason"})


def least_trusted(classes: Iterable[SourceClass]) -> SourceClass:
    """Return the class that comes last in TRUST; ValueError without any class."""
    return max(classes, key=TRUST.index)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A JSON pointer into the raw record, and lines (from 1, last included) of the string there."""

    path: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Found:
    """What extraction found; the excerpt is the start of the cleaned lines at the pointer."""

    kind: Kind
    source_class: SourceClass
    pointer: Pointer
    excerpt: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A stored signal; `code` is its label under the dream's taxonomy, if it has one."""

    id: SignalId
    run_id: RunId
    task_id: str
    ordinal: int
    kind: Kind
    source_class: SourceClass
    pointer: Pointer
    excerpt: str
    fingerprint: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """All evidence of one failure, in however many runs."""

    fingerprint: str
    signals: tuple[Signal, ...]

    @property
    def runs(self) -> frozenset[RunId]:
        """The runs in which it was seen."""
        return frozenset(signal.run_id for signal in self.signals)

    @property
    def tasks(self) -> frozenset[str]:
        """The platform's ids of the tasks in which it was seen."""
        return frozenset(signal.task_id for signal in self.signals)


def groups(signals: Iterable[Signal]) -> list[Group]:
    """Group by fingerprint: most runs first, then most signals, then the fingerprint itself."""
    found: defaultdict[str, list[Signal]] = defaultdict(list)
    for signal in signals:
        found[signal.fingerprint].append(signal)
    made = [Group(fingerprint, tuple(members)) for fingerprint, members in found.items()]
    return sorted(made, key=lambda group: (-len(group.runs), -len(group.signals), group.fingerprint))
