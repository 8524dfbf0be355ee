"""What the platform notes down about one task while it runs: the objects of its export."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from yume.local.practice.habits import Order, Rescue
from yume.local.practice.shell import Ended
from yume.local.practice.slot import Version

Item = dict[str, Any]
Clock = Callable[[], datetime]

_TEMPLATE: Final = "practice-1"
_MODEL: Final = "scripted-worker"
_LINES_KEPT: Final = 200
_ABANDONED: Final = "Leave this one, I will do it by hand."


def timestamp(at: datetime) -> str:
    """Write a time as RFC 3339 in UTC with six digits, so that texts sort as times do."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Transcript:
    """The record of one task from its start to its end."""

    def __init__(self, order: Order, slot: Version, *, created_at: str, clock: Clock) -> None:
        self.order = order
        self.lessons = slot.text
        self.runs: list[Item] = []
        self.events: list[Item] = []
        self.inquiries: list[Item] = []
        self.proposals: list[Item] = []
        self._clock = clock
        self._memory_version = slot.version
        self.task: Item = {
            "id": order.task_id,
            "series_id": order.series,
            "batch_id": order.batch_id,
            "kind": order.pitfall.kind,
            "title": order.text(order.pitfall.title),
            "status": "running",
            "created_at": created_at,
            "started_at": self.now(),
            "finished_at": None,
            "template_version": _TEMPLATE,
            "agent_model": _MODEL,
            "verdict": None,
        }
        self._note("state", data={"status": "running"})
        if slot.text:
            self._note("memory", text=slot.text, data={"version": slot.version})

    def now(self) -> str:
        """Return the platform's time as the export writes it."""
        return timestamp(self._clock())

    @property
    def passed(self) -> bool:
        """Tell whether the last attempt has passed."""
        return bool(self.runs) and self.runs[-1]["verdict"] == "pass"

    def begin(self, command: str) -> Item:
        """Open the next attempt with its command."""
        number = len(self.runs) + 1
        run = {
            "id": f"{self.order.task_id}-r{number}",
            "task_id": self.order.task_id,
            "attempt": number,
            "started_at": self.now(),
            "template_version": _TEMPLATE,
            "memory_version": self._memory_version,
        }
        self._note("tool_call", run_id=run["id"], text=command)
        return run

    def end(self, run: Item, command: Ended, check: Ended, artifact: Path) -> None:
        """Close an attempt with how its command and its check ended."""
        lines = (command.stdout + command.stderr).splitlines()
        for line in lines[:_LINES_KEPT]:
            self._note("log", run_id=run["id"], text=line)
        run |= {
            "finished_at": self.now(),
            "exit_code": command.exit_code,
            "signal": command.signal,
            "failure_reason": _reason(command),
            "verdict": "pass" if check.exit_code == 0 else "fail",
            "verdict_details": {"check": f"{self.order.pitfall.kind} check", "output": check.stdout.strip()},
            "artifacts": _artifacts(run["id"], artifact),
            "usage": {"commands": 1, "log_lines": len(lines)},
        }
        self.runs.append(run)

    def ask(self, effect: Rescue | None) -> None:
        """Note the worker's question after its last attempt, and the owner's answer if there is one."""
        last = self.runs[-1]
        shown = last["verdict_details"]["output"]
        answer = {None: None, "resumed": self.order.text(self.order.pitfall.answer), "abandoned": _ABANDONED}
        inquiry = {
            "id": f"{self.order.task_id}-q1",
            "task_id": self.order.task_id,
            "run_id": last["id"],
            "asked_at": self.now(),
            "question": f"I have tried {len(self.runs)} times and the check still says: {shown}. What now?",
            "answered_at": self.now() if effect else None,
            "answer": answer[effect],
            "by": "owner-1" if effect else None,
            "effect": effect,
        }
        self.inquiries.append(inquiry)
        self._note("state", run_id=last["id"], data={"inquiry": inquiry["id"], "effect": effect})

    def propose(self) -> None:
        """Note the worker's own proposal of a lesson: the command with which it came through."""
        self.proposals.append(
            {
                "id": f"{self.order.task_id}-p1",
                "task_id": self.order.task_id,
                "text": f"For a {self.order.pitfall.kind} task use: {self.order.command('remedy')}",
                "created_at": self.now(),
            }
        )

    def close(self) -> None:
        """Bring the task to its terminal state."""
        status = "succeeded" if self.passed else "failed"
        self._note("state", data={"status": status})
        self.task |= {"status": status, "finished_at": self.now(), "verdict": self.runs[-1]["verdict"]}

    def _note(self, kind: str, **fields: Any) -> None:
        self.events.append({"at": self.now(), "kind": kind, "run_id": None, **fields})


def _reason(command: Ended) -> str | None:
    if command.timed_out:
        return "timed out: the command was stopped at its time limit"
    lines = command.stderr.splitlines()
    return lines[-1] if lines else None


def _artifacts(run_id: str, path: Path) -> list[Item]:
    if not path.is_file():
        return []
    data = path.read_bytes()
    return [
        {
            "name": path.name,
            "uri": f"practice:{run_id}/{path.name}",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
        }
    ]
