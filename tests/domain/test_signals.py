from __future__ import annotations

from uuid import UUID

import pytest

from yume.domain.signals import PLATFORM_WRITTEN, TRUST, Pointer, Signal, groups, least_trusted
from yume.ids import RunId, SignalId


def signal(run, mark, ordinal=0):
    return Signal(
        SignalId(UUID(int=run * 100 + ordinal)),
        RunId(UUID(int=run)),
        f"T{run}",
        ordinal,
        "failure_reason",
        "platform_reason",
        Pointer("/runs/0/failure_reason", 1, 1),
        "no",
        mark,
    )


def test_trust_falls_from_the_exit_code_to_text_from_outside():
    assert least_trusted(TRUST) == "external_text"
    assert least_trusted(["human_answer", "exit_code"]) == "human_answer"
    with pytest.raises(ValueError, match="empty"):
        least_trusted([])


def test_what_the_platform_wrote_is_trusted_most():
    assert set(TRUST[:3]) == PLATFORM_WRITTEN


def test_a_group_holds_all_signals_of_one_fingerprint_and_the_widest_group_comes_first():
    grouped = groups([signal(1, "b"), signal(1, "a", 1), signal(1, "a", 2), signal(2, "b"), signal(3, "c")])
    assert [(group.fingerprint, len(group.runs), len(group.signals)) for group in grouped] == [
        ("b", 2, 2),
        ("a", 1, 2),
        ("c", 1, 1),
    ]
    assert grouped[0].tasks == {"T1", "T2"}
