"""Records as a platform would send them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

RawRecord = Callable[..., bytes]


@pytest.fixture(scope="session")
def raw_record() -> RawRecord:
    """Make the bytes of a record: one failed task, with what a test says in place of the defaults."""

    def make(*, task=None, runs=(), events=(), inquiries=()):
        whole = {
            "task": {
                "id": "T1",
                "series_id": "kamila",
                "status": "failed",
                "finished_at": "2026-01-02T00:00:00Z",
            }
            | (task or {}),
            "runs": [
                {"id": f"R{number}", "task_id": "T1", "attempt": number} | run
                for number, run in enumerate(runs, start=1)
            ],
            "events": [{"at": "2026-01-01T12:00:00Z", "kind": "log"} | event for event in events],
            "inquiries": [
                {"id": f"Q{number}", "task_id": "T1"} | inquiry for number, inquiry in enumerate(inquiries)
            ],
        }
        return json.dumps(whole, ensure_ascii=True).encode()

    return make
