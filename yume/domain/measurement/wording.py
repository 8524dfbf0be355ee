"""How a measurement is said: never a rate without its interval, never a cause where no coin was thrown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Row = Mapping[str, Any]

_SPLITS: Final = {
    "where_learnt": "in the kinds of task that it was learnt from",
    "elsewhere": "in all others",
    "other_failures": "other failures",
}


def told(row: Row) -> str:
    """Say in one line what a look at a version came to."""
    name = "no lesson" if row["version"] is None else f"v{row['version']}"
    parts = [f"{name} after dream {row['dream']}: {rate(row)} of {row['runs']} runs failed", effect(row)]
    parts += [f"{row['verdict']} ({row['why']})", *_notes(row)]
    return "; ".join(part for part in parts if part)


def told_of_lesson(row: Row) -> list[str]:
    """Say what the newest look at a lesson came to, the rule first and a line for each thing seen of it."""
    details = row["details"]
    whole = {"before": details["before"], "with": {"runs": row["runs"], "hits": row["hits"]}}
    seen = _split(whole | {"ratio": details["ratio"]})
    lines = [
        f"{row['why']}: {row['rule']}",
        f"  its failure, before and after, not an experiment: {seen}",
        *(f"  {name}: {_split(details[key])}" for key, name in _SPLITS.items() if key in details),
    ]
    if "ratio_to_other_failures" in details:
        lines.append(f"  its failure against all others: {_ratio(details['ratio_to_other_failures'])}")
    return [*lines, *_chain(details.get("chain"))]


def _chain(chain: Mapping[str, Mapping[str, int]] | None) -> list[str]:
    """Say how far a lesson got, and why the last step is not known where it is not."""
    if not chain or not chain["eligible"]["runs"]:
        return []
    steps = f"  {chain['eligible']['runs']} runs stood ready for it, {chain['injected']['runs']} read it"
    shown, follow = chain["shown"], chain["followed"]
    if not follow:
        return [f"{steps}; it names no command, so nobody can tell who followed it"]
    if not shown["runs"]:
        return [f"{steps}; no record shows a command, so nobody can tell who followed it"]
    others = {name: shown[name] - follow[name] for name in shown}
    known = f"{follow['runs']} of the {shown['runs']} whose commands are known followed it"
    ends = f"{follow['failures']} of them failed, of the other {others['runs']} {others['failures']}"
    return [f"{steps}, {known}: {ends} (counts, no effect)"]


def _split(row: Mapping[str, Any]) -> str:
    before, after = row["before"], row["with"]
    if not before["runs"] and not after["runs"]:
        return "no such run"
    ratio = f" ({_ratio(row['ratio'])})" if row["ratio"] else ""
    return (
        f"{before['hits']} of {before['runs']} runs before, {after['hits']} of {after['runs']} with it{ratio}"
    )


def _ratio(three: Sequence[float]) -> str:
    return f"ratio {three[0]:.2f}, {three[1]:.2f} to {three[2]:.2f}"


def rate(row: Row) -> str:
    """Say a failure rate with its interval."""
    if row["rate"] is None:
        return "none"
    return f"{row['rate']:.0%} ({row['low']:.0%} to {row['high']:.0%})"


def effect(row: Row) -> str:
    """Say the difference to the reference with its interval, and what kind of evidence it is."""
    if row.get("effect") is None:
        return ""
    points = [f"{row[name] * 100:+.0f}" for name in ("effect", "effect_low", "effect_high")]
    against = row["details"].get("comparator_versions") or []
    names = ", ".join("no lesson" if each == "0" else f"platform version {each}" for each in against)
    shown = f"{points[0]} points ({_interval(row['details'])} {points[1]} to {points[2]})"
    if row["details"].get("evidence") == "randomised":
        return f"{shown}, within {row['details']['blocks']} randomised blocks ({row['details']['kind']})"
    return f"{shown}, before and after, not an experiment, vs {names}"


def _interval(details: Row) -> str:
    """Name the boundary that the interval is of; rows that name none are older than the choice."""
    if details.get("boundary") == "pocock":
        return f"Pocock bound for {details['planned_looks']} looks,"
    return "95 % always-valid"


def _decided(row: Row) -> str:
    """Say what the first verdict was where this look has another: planned looks that are over have none."""
    decided = row["details"].get("decided")
    if not decided or decided["verdict"] == row["verdict"]:
        return ""
    if row["why"] == "planned_looks_over":
        return f"{decided['verdict']} at look {decided['look']}"
    return f"was {decided['verdict']} at look {decided['look']}, now weaker"


def _notes(row: Row) -> list[str]:
    details = row["details"]
    notes = [_decided(row)]
    if details.get("washed_out"):
        notes.append(f"{details['washed_out']} runs washed out")
    if details.get("rollback_alarm"):
        notes.append("rollback alarm" + (f", {details['rollback']}" if details.get("rollback") else ""))
    placebo = details.get("placebo")
    if placebo and placebo["cs90"]:
        rd, low, high = (f"{each * 100:+.0f}" for each in (placebo["rd"], *placebo["cs90"]))
        notes.append(f"templates that read no lesson: {rd} points (90 % always-valid {low} to {high})")
    notes += [f"{each['what']} changed too" for each in details.get("confounders", ())]
    needed = details.get("runs_needed_for_10_points")
    if needed and row["verdict"] == "no_evidence" and row["why"] != "planned_looks_over":
        notes.append(f"about {needed} runs show 10 points")
    return notes
