"""The practice platform: stands in for a real one, keeps the whole contract, and really runs its tasks."""

from __future__ import annotations

from yume.local.practice.faults import Faults
from yume.local.practice.habits import Habits
from yume.local.practice.host import Practice
from yume.local.practice.pitfalls import Pitfall, load

__all__ = ["Faults", "Habits", "Pitfall", "Practice", "load"]
