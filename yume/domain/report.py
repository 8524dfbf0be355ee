"""A dream's report: the same facts as JSON for programs and as Markdown for people."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from yume.domain.dreams import Dream, Result
from yume.domain.lessons import Lesson

REPORT_VERSION: Final = 1

_ENDINGS: Final[Mapping[Result, str]] = {
    "published": "A new version of the lessons was written into the slot.",
    "no_change": "The slot already holds these lessons: nothing was written.",
    "report_only": "The series only reports: nothing was written. The text below is what would have been.",
    "held": "Nothing was written: it waits.",
    "no_signal": "No run failed in a way that left evidence: no model was asked.",
    "replayed": "This dream was a replay: it shows a difference and releases nothing.",
    "cancelled": "This dream was cancelled.",
}


@dataclass(frozen=True, slots=True)
class SlotResult:
    """How S8 left the slot: which set it holds or would hold, and why.

    `waits` is what the version in the slot still lacks, `difference` what a replay makes of its batch that
    its original did not.
    """

    result: Result
    reason: str | None
    version: int | None
    text: str
    platform_version: str | None
    waits: str | None = None
    difference: Sequence[str] = ()


def facts(dream: Dream, outcome: SlotResult, drafted: Iterable[Lesson]) -> dict[str, Any]:
    """Collect what the report says; it holds no time, so the same dream gives the same bytes."""
    decisions = {each["lesson"]: each for each in (dream.gate or {}).get("decisions", ())}
    return {
        "report": REPORT_VERSION,
        "platform": dream.series.platform,
        "series": dream.series.external_id,
        "dream": dream.number,
        "dream_id": str(dream.id),
        "mode": dream.series.mode,
        "result": outcome.result,
        "reason": outcome.reason,
        "counters": dict(dream.counters),
        "usage": dict(dream.usage),
        "broken": list(dream.broken),
        "lessons": [_lesson(each, decisions.get(str(each.id))) for each in drafted],
        "slot": {
            "version": outcome.version,
            "platform_version": outcome.platform_version,
            "text": outcome.text,
            "waits": outcome.waits,
            "left_out": list((dream.compiled or {}).get("left_out", ())),
        },
        "replay_of": dream.root_number if dream.trigger == "replay" else None,
        "difference": list(outcome.difference),
    }


def as_json(report: Mapping[str, Any]) -> bytes:
    """Return the report for programs."""
    return json.dumps(report, ensure_ascii=False, indent=2, sort_keys=True).encode() + b"\n"


def as_markdown(report: Mapping[str, Any]) -> bytes:
    """Return the report for people."""
    lines = [
        f"# Dream {report['dream']} of {report['platform']}/{report['series']}",
        "",
        _ENDINGS[report["result"]] + (f" Reason: {report['reason']}." if report["reason"] else ""),
        *_waits(report["slot"]),
        "",
        *_counted(report["counters"], report["usage"]),
        *_left_out(report["broken"]),
        *_lessons(report["lessons"]),
        *_differs(report),
        "## The text",
        "",
        *([f"    {line}" for line in report["slot"]["text"].splitlines()] or ["(empty)"]),
    ]
    return ("\n".join(lines) + "\n").encode()


def _lesson(lesson: Lesson, decision: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "id": str(lesson.id),
        "rule": lesson.rule,
        "symptom": lesson.symptom,
        "category": lesson.category,
        "trust": lesson.trust,
        "state": lesson.state,
        "signals": len(lesson.evidence),
        "decision": None if decision is None else decision["decision"],
        "unmet": [] if decision is None else decision["unmet"],
    }


def _counted(counters: Mapping[str, int], usage: Mapping[str, Any]) -> list[str]:
    models = sorted({each["model"] for each in usage.values()})
    calls = sum(each["calls"] for each in usage.values())
    rows = [f"| {name.replace('_', ' ')} | {count} |" for name, count in sorted(counters.items())]
    asked = f"Asked {', '.join(models)} {calls} times." if calls else "No model was asked."
    archived = sum(each.get("from_archive", 0) for each in usage.values())
    lay = [f"Answers that lay in the archive: {archived}."] if archived else []
    return ["## Counts", "", "| what | number |", "|---|---|", *rows, "", " ".join([asked, *lay]), ""]


def _left_out(broken: Sequence[Mapping[str, str]]) -> list[str]:
    if not broken:
        return []
    rows = [f"- task `{each['task_id']}`: {each['why']}" for each in broken]
    return ["## Left out: records that break the contract", "", *rows, ""]


def _waits(slot: Mapping[str, Any]) -> list[str]:
    lines = []
    if slot["waits"]:
        lines.append(f"The version in the slot stays until it has been measured: it has {slot['waits']}.")
    if slot["left_out"]:
        counted = Counter(each["why"] for each in slot["left_out"])
        lines.append(
            "Approved, but not in the text: "
            + ", ".join(f"{n} ({why})" for why, n in sorted(counted.items()))
            + "."
        )
    return lines


def _differs(report: Mapping[str, Any]) -> list[str]:
    if report["replay_of"] is None:
        return []
    rows = [f"    {line}" for line in report["difference"]] or ["None: the same bytes."]
    return [f"## Difference from dream {report['replay_of']}", "", *rows, ""]


def _lessons(lessons: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        f"- **{each['state']}** ({each['category']}, trust {each['trust']}, "
        f"{each['signals']} signals): {each['rule']}"
        + "".join(f"\n  - unmet: {reason}" for reason in each["unmet"])
        for each in lessons
    ]
    return ["## Lessons of this dream", "", *(rows or ["None."]), ""]
