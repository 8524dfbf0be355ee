"""The demo as somebody runs it: a process that shows what it came to and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from yume.local.practice import HARMFUL, OWN
from yume.settings import inherited

KEYS = {
    *("series", "dreams", "model", "model_calls", "versions", "verdict"),
    *("baseline_rate", "final_rate", "lessons", "slot", "trail"),
}


def demo(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "yume.cli", "demo", "--folder", str(folder), *arguments]
    return subprocess.Popen(
        command, env=dict(inherited()), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors[-2000:]
    return out


def left_of(folder: Path) -> list[str]:
    """Return the command lines of all processes that were started for a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes() + str((process / "cwd").readlink()).encode()
            if str(folder).encode() in told:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.fixture
def folder(server_folder: Path, request: pytest.FixtureRequest) -> Path:
    """A short path of this test's own: the servers live in it."""
    made = server_folder / request.node.name[:24]
    made.mkdir()
    return made


def test_the_demo_ends_with_lessons_in_the_slot_and_a_trail_that_holds(folder):
    out = ended(demo(folder / "demo", "--batches", "4", "--size", "20", "--json"))
    told = json.loads(out.splitlines()[-1])
    assert set(told) == KEYS
    assert (told["series"], told["dreams"], told["model"]) == ("kamila", 4, "rules")
    assert 0 < told["model_calls"] <= 4 * 3
    assert sum(version["runs"] for version in told["versions"]) > 60
    assert told["versions"][0]["version"] == 0
    assert told["final_rate"] < told["baseline_rate"]
    assert told["slot"]["version"] >= max(version["version"] for version in told["versions"]) > 0
    assert all(set(lesson) == {"rule", "category", "state", "signals", "tasks"} for lesson in told["lessons"])
    assert all(lesson["tasks"] for lesson in told["lessons"])
    assert told["lessons"]
    assert told["trail"]["holds"] is True
    assert set(told["trail"]) == {"lesson", "signal", "run", "task", "raw_sha256", "holds"}
    assert not left_of(folder)


def test_pitfalls_of_ones_own_are_set_and_a_planted_harm_shows_in_the_rates(folder):
    (folder / "more").mkdir()
    own = (OWN / "sorts-as-text.toml").read_text()
    (folder / "more" / "own.toml").write_text(
        own.replace("sorts-as-text", "own").replace('"ranking"', '"own kind"')
    )
    planted = ("--harm", "1", "--pitfalls", str(folder / "more"))
    out = ended(demo(folder / "demo", "--batches", "9", "--size", "40", *planted, "--json"))
    assert "planting a harmful lesson, past the gate: When a result is ready" in out
    told = json.loads(out.splitlines()[-1])
    _, first, *later = (version["rate"] for version in told["versions"])
    assert max(later) > first + 0.3
    assert told["verdict"] in ("regressed", "rolled_back")
    assert HARMFUL.rule not in [lesson["rule"] for lesson in told["lessons"]]
    assert told["planted"]["caught"] is True
    assert told["planted"]["rolled_back"]
    assert "The planted lesson stood in v" in out


def test_a_folder_that_holds_no_pitfall_is_refused_before_anything_starts(folder):
    process = demo(folder / "demo", "--pitfalls", str(folder))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no pitfall there" in errors
    assert not left_of(folder)


def test_two_demos_side_by_side_do_not_meet(folder):
    both = [
        demo(folder / name, "--batches", "2", "--size", "8", "--seed", "5", "--json") for name in ("a", "b")
    ]
    one, other = (json.loads(ended(process).splitlines()[-1]) for process in both)
    for told in (one, other):
        assert told["dreams"] == 2
        told.pop("trail")
    assert one == other
    assert not left_of(folder)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let a process hear an interrupt even where a shell runs these tests in the background and mutes it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_it_within_seconds_and_leaves_no_process(folder, interruptible):
    process = demo(folder / "demo", "--batches", "8", "--size", "30")
    assert process.stdout is not None
    while not (line := process.stdout.readline()).endswith("dreaming\n"):
        assert line, process.stderr.read()
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - started < 15
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not left_of(folder)
