"""How a measurement is said: never a rate without its interval, never a cause where no coin was thrown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]


def told(row: Row) -> str:
    """Say in one line what a look at a version came to."""
    name = "no lesson" if row["version"] is None else f"v{row['version']}"
    parts = [f"{name} after dream {row['dream']}: {rate(row)} of {row['runs']} runs failed", effect(row)]
    parts += [f"{row['verdict']} ({row['why']})", *_notes(row)]
    return "; ".join(part for part in parts if part)


def told_of_lesson(row: Row) -> str:
    """Say what the newest look at a lesson came to: how often its failure was seen, before it and with it."""
    before, ratio = row["details"]["before"], row["details"]["ratio"]
    return (
        f"{row['why']}: its failure was seen in {before['hits']} of {before['runs']} runs before and in "
        f"{row['hits']} of {row['runs']} with it (ratio {ratio[0]:.2f}, {ratio[1]:.2f} to {ratio[2]:.2f}, "
        f"before and after, not an experiment): {row['rule']}"
    )


def rate(row: Row) -> str:
    """Say a failure rate with its interval."""
    if row["rate"] is None:
        return "none"
    return f"{row['rate']:.0%} ({row['low']:.0%} to {row['high']:.0%})"


def effect(row: Row) -> str:
    """Say the difference to the reference with its always-valid interval, and what kind of evidence it is."""
    if row.get("effect") is None:
        return ""
    points = [f"{row[name] * 100:+.0f}" for name in ("effect", "effect_low", "effect_high")]
    against = row["details"].get("comparator_versions") or []
    names = ", ".join("no lesson" if each == "0" else f"platform version {each}" for each in against)
    shown = f"{points[0]} points (95 % always-valid {points[1]} to {points[2]})"
    if row["details"].get("evidence") == "randomised":
        return f"{shown}, within {row['details']['blocks']} randomised blocks ({row['details']['kind']})"
    return f"{shown}, before and after, not an experiment, vs {names}"


def _notes(row: Row) -> list[str]:
    details = row["details"]
    notes = []
    decided = details.get("decided")
    if decided and decided["verdict"] != row["verdict"]:
        notes.append(f"was {decided['verdict']} at look {decided['look']}, now weaker")
    if details.get("rollback_alarm"):
        notes.append("rollback alarm" + (f", {details['rollback']}" if details.get("rollback") else ""))
    notes += [f"{each['what']} changed too" for each in details.get("confounders", ())]
    needed = details.get("runs_needed_for_10_points")
    if needed and row["verdict"] == "no_evidence":
        notes.append(f"about {needed} runs show 10 points")
    return notes
