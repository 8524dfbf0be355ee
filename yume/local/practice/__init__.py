"""The practice platform: stands in for a real one, keeps the whole contract, and really runs its tasks."""

from __future__ import annotations

from yume.local.practice.faults import Faults
from yume.local.practice.habits import HARMFUL, Habits
from yume.local.practice.host import Practice
from yume.local.practice.pitfalls import OWN, Pitfall, load

__all__ = ["HARMFUL", "OWN", "Faults", "Habits", "Pitfall", "Practice", "load"]
