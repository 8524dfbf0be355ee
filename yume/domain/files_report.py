"""The report of a dream over files, as Markdown for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

PLACES_SHOWN: Final = 6  # of a lesson's evidence
UNREAD_SHOWN: Final = 20
WAITING_SHOWN: Final = 20  # of the lessons that nobody would have approved
WORD_LIMIT: Final = 120  # of an id or a path
_MARKUP: Final = re.compile(r"[\\`*<|]|(?<=\])\(")

Facts = Mapping[str, Any]


def as_markdown(report: Facts) -> str:
    """Return the report of the facts that `over_files.facts` collects."""
    lines = [
        f"# A dream over {_plain(report['source'])}",
        "",
        f"Read as {report['format']}. Report only: there is no platform, nothing was written anywhere.",
        "",
        *_runs(report),
        *_versions(report["versions"]),
        *_classes(report),
        *_lessons(report["lessons"]),
        "## The text that a slot would get",
        "",
        *([f"    {line}" for line in report["text"].splitlines()] or ["(empty: no lesson was approved)"]),
        "",
        *_unread(report["unread"]),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _runs(report: Facts) -> list[str]:
    asked = f"`{report['model']}` answered {report['model_calls']} questions"
    by = asked + ("; it is code and no language model." if report["model"] == "rules" else ".")
    rows = [f"| {name} | {count} |" for name, count in report["outcomes"].items()]
    return [
        *("## Runs", "", "| outcome | runs |", "|---|---|", *rows, f"| **all** | {report['runs']} |", ""),
        "An infrastructure run never ran or was ended by its surroundings; unknown: nobody judged it.",
        *("Neither counts in a failure rate.", "", by, ""),
    ]


def _versions(versions: Sequence[Facts]) -> list[str]:
    if not versions:
        return []
    rows = [
        f"| {_plain(each['version'])} | {each['runs']} | {each['failures']} | {_rate(each)} "
        f"| {each['infrastructure'] + each['cancelled'] + each['unknown']} |"
        for each in versions
    ]
    return [
        *("## Failure rate by version", "", "| version | runs | failures | rate (95 %) | left out |"),
        *("|---|---|---|---|---|", *rows, ""),
        *("Rates beside one another are no experiment: they name no cause.", ""),
    ]


def _rate(row: Facts) -> str:
    if row["rate"] is None:
        return "-"
    return f"{row['rate']:.1%} ({row['low']:.1%} to {row['high']:.1%})"


def _classes(report: Facts) -> list[str]:
    rows = [f"| {code} | {count} |" for code, count in report["classes"].items()]
    return [
        *("## What went wrong", "", f"{report['kinds']} different failures left evidence.", ""),
        *("| class | runs that show it |", "|---|---|", *rows, ""),
    ]


def _lessons(lessons: Sequence[Facts]) -> list[str]:
    ranked = sorted(lessons, key=lambda each: -each["runs"])
    approved = [each for each in ranked if each["decision"] == "approve"]
    waiting = [each for each in ranked if each["decision"] != "approve"]
    more = len(waiting) - WAITING_SHOWN
    shown = [line for each in (*approved, *waiting[:WAITING_SHOWN]) for line in _lesson(each)]
    return [
        "## Lessons",
        "",
        *(shown or ["None: no failure shows what would have kept it from happening."]),
        *([f"- and {more} more that were seen in fewer runs; `--json` lists all"] if more > 0 else []),
        "",
    ]


def _lesson(lesson: Facts) -> list[str]:
    words = {"approve": "would be approved", "hold": "waits for a person", "refuse": "refused"}
    cited = [f"task {_plain(each['task'])}, {_plain(each['place'])}" for each in lesson["evidence"]]
    places = list(dict.fromkeys(cited))
    more = len(places) - PLACES_SHOWN
    head = f"- **{words[lesson['decision']]}** ({lesson['category']}, trust {lesson['trust']}, "
    return [
        f"{head}seen in {_runs_of(lesson)}): {_in_line(lesson['rule'])}",
        *(f"  - unmet: {_in_line(reason)}" for reason in lesson["unmet"]),
        *(f"  - from {each}" for each in places[:PLACES_SHOWN]),
        *([f"  - and {more} more"] if more > 0 else []),
    ]


def _unread(unread: Facts) -> list[str]:
    if not unread["count"]:
        return []
    shown = unread["first"][:UNREAD_SHOWN]
    more = unread["count"] - len(shown)
    return [
        *("## Left out: what could not be read", ""),
        *(f"- {_plain(each['place'])}: {_plain(each['why'])}" for each in shown),
        *([f"- and {more} more"] if more else []),
    ]


def _runs_of(lesson: Facts) -> str:
    return f"{lesson['runs']} run{'s' * (lesson['runs'] != 1)}"


def _plain(text: str) -> str:
    """Keep a name from outside in one cell: short, and as written, whatever Markdown would make of it."""
    short = text if len(text) <= WORD_LIMIT else f"{text[: WORD_LIMIT - 1]}…"
    return _literal(" ".join(short.split()))


def _in_line(text: str) -> str:
    """Keep a sentence in its line: its code spans stay, and nothing in it becomes a link or a tag."""
    spans = " ".join(text.split()).split("`")
    return "`".join(each if place % 2 else _literal(each) for place, each in enumerate(spans))


def _literal(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)
