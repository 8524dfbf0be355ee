"""Which line of a log says how it ended: each CI system's and tool's word, and what is none."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import UTC, datetime

import pytest

from yume.domain.runs import Capabilities, judge
from yume.importers.formats import checked, named

NOW = datetime(2027, 1, 1, tzinfo=UTC)
STAMP = "2022-05-22T17:40:03.6782153Z "
EXIT_1 = "##[error]Process completed with exit code 1."
CANCELED = "##[error]The operation was canceled."
STEP = "##[group]Run make"
RUNNER = "Current runner version: '2.290.1'"
TIDIED = "Post job cleanup.\n[command]/usr/bin/git version\nCleaning up orphan processes"


def ended(path):
    ((_, record),) = checked(named("ci-log"), path, series="s")
    return judge(record, Capabilities(), now=NOW).outcome


@pytest.fixture
def outcome(tmp_path):
    def of(text):
        path = tmp_path / "nightly.log"
        path.write_text(text, encoding="utf-8")
        return ended(path)

    return of


def stamped(text):
    return "".join(f"{STAMP}{line}\n" for line in text.split("\n"))


def viewed(job, text):
    return "".join(f"{job}\tUNKNOWN STEP\t\ufeff{STAMP}{line}\n" for line in text.split("\n"))


def test_no_real_log_is_taken_for_the_contrary_when_its_name_does_not_tell(shared_data, tmp_path):
    counted = Counter()
    for number, path in enumerate(sorted(shared_data.glob("cidiff_logs/*/*.log"))):
        copy = tmp_path / f"{number}.log"
        shutil.copyfile(path, copy)
        counted[path.stem, ended(copy)] += 1
    assert not counted["fail", "success"]
    assert not counted["pass", "failure"] + counted["pass", "infrastructure"]
    assert counted["fail", "unknown"] <= 1
    assert counted["pass", "success"] >= 10


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("##[error]The runner has received a shutdown signal. This can happen when ...", "infrastructure"),
        (f"{EXIT_1}\n##[error]The runner has received a shutdown signal.\n{CANCELED}", "infrastructure"),
        ("##[error]The self-hosted runner: a lost communication with the server. Verify", "infrastructure"),
        (f"{CANCELED}\n{TIDIED}", "cancelled"),
        (f"{EXIT_1}\n{CANCELED}", "cancelled"),
        (
            f"##[error]The job running on runner A has exceeded the maximum execution time\n{CANCELED}",
            "failure",
        ),
        ("The runner has received a shutdown signal is what this test prints", "unknown"),
        (f"{EXIT_1}\n{TIDIED}", "failure"),
        (f"{EXIT_1}\n" + "more\n" * 1_000 + TIDIED, "failure"),
        (f"{EXIT_1}\n{STEP}\nok\n{TIDIED}", "unknown"),
        (f"{EXIT_1}\n{STEP}\n[INFO] BUILD SUCCESS\n{TIDIED}", "unknown"),
        (f"{EXIT_1}\n{STEP}\n{EXIT_1}\n{TIDIED}", "failure"),
        (f"##[error]src/a.go:3:14: undefined: x\n{TIDIED}", "unknown"),
        (f"##[error]src/a.go:3:14: undefined: x\n{EXIT_1}\n{TIDIED}", "failure"),
        (f"##[error]C:\\src\\a.cs(3,14): error CS1: no\n[INFO] BUILD SUCCESS\n{TIDIED}", "unknown"),
        (f"##[error]Unable to resolve action a/b@v1: not found\n{TIDIED}", "failure"),
        (f"echo '{EXIT_1}'\n{TIDIED}", "unknown"),
        ("quietly gone\n" + TIDIED, "unknown"),
        (f"{STEP}\n[INFO] BUILD SUCCESS\n{TIDIED}", "success"),
        (f"{STEP}\n[INFO] BUILD SUCCESS\n{STEP}\nmore\n{TIDIED}", "unknown"),
        (f"{STEP}\nmake: *** [x] Error 2\n{TIDIED}", "unknown"),
        (f"{STEP}\nFinished: SUCCESS\n{EXIT_1}\n{TIDIED}", "failure"),
        (f"{STEP}\n[INFO] BUILD SUCCESS", "unknown"),
        (f"{STEP}\nmake: *** [x] Error 2", "failure"),
    ],
)
def test_in_a_log_of_github_its_runner_decides(outcome, end, expected):
    assert outcome(stamped(f"{RUNNER}\n{STEP}\nwork\n{end}")) == expected


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([f"work\n{EXIT_1}\n{TIDIED}"], "failure"),
        ([f"work\n{TIDIED}"], "unknown"),
        ([CANCELED], "cancelled"),
        ([f"{EXIT_1}\n{TIDIED}", f"{STEP}\n[INFO] BUILD SUCCESS\n{TIDIED}"], "failure"),
        ([CANCELED, f"{EXIT_1}\n{TIDIED}"], "failure"),
        ([f"work\n{TIDIED}", f"{STEP}\n[INFO] BUILD SUCCESS\n{TIDIED}"], "unknown"),
        ([f"{STEP}\n2 passed in 0.30s\n{TIDIED}"], "success"),
    ],
)
def test_the_jobs_that_gh_shows_are_told_apart(outcome, jobs, expected):
    text = "".join(viewed(f"job {number}", f"{RUNNER}\n{text}") for number, text in enumerate(jobs))
    assert outcome(text) == expected


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("ERROR: Job failed (system failure): prepare environment: no pod", "infrastructure"),
        ("ERROR: Job failed (runner system failure): no pod", "infrastructure"),
        ("ERROR: Job failed: canceled", "cancelled"),
        ("ERROR: Job failed: execution took longer than 1h0m0s seconds", "failure"),
        ("2024-05-22T17:40:03.678215Z 00O \x1b[32;1mJob succeeded\x1b[0;m", "success"),
        ("2024-05-22T17:40:03.678215Z 01E ERROR: Job failed: exit code 1", "failure"),
        ("section_end:1559896353:cleanup\r\x1b[0K\x1b[31;1mERROR: Job failed: exit code 1", "failure"),
        ("ERROR: Job failed to be found by the test", "unknown"),
        ("The job 12.1 was cancelled.", "cancelled"),
        ("Done: Job Cancelled", "cancelled"),
        ("The command failed and exited with 1 during .\n\nYour build has been stopped.", "failure"),
        ("\x1b[0mDone. Your build exited with 0.", "success"),
        ("Done. Your build exited with 1.", "failure"),
        ("The job exceeded the maximum time limit for jobs, and has been terminated.", "failure"),
        ("[2022-05-22T17:40:03.678Z] Finished: SUCCESS", "success"),
        ("17:40:03 Finished: FAILURE", "failure"),
        ("00:01:02.345  Finished: ABORTED", "cancelled"),
        ("[17:40:03] Finished: UNSTABLE", "failure"),
        ("[INFO] BUILD FAILURE\nFinished: SUCCESS", "success"),
        ("make: *** [x] Error 2\nFinished: SUCCESS\n1 passed in 1s", "success"),
        ("Finished: SUCCESS or not", "unknown"),
        ("Finished: SUCCESS\nERROR: Job failed: exit code 1", "failure"),
    ],
)
def test_the_word_of_the_ci_system_comes_first(outcome, end, expected):
    assert outcome(f"Started\nwork\n{end}\n") == expected


@pytest.mark.parametrize("opening", ["Started by timer", "Running with gitlab-runner 16.1", RUNNER])
def test_a_log_that_a_ci_system_opened_and_did_not_close_was_cut_off(outcome, opening):
    assert outcome(f"{opening}\nwork\n[INFO] BUILD SUCCESS\n") == "unknown"
    assert outcome(f"{opening}\nwork\n[INFO] BUILD FAILURE\n") == "failure"


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("BUILD FAILED in 3s\n5 actionable tasks: 5 executed", "failure"),
        ("BUILD SUCCESSFUL in 1m 3s\n5 actionable tasks: 5 executed", "success"),
        ("BUILD SUCCESSFUL\nTotal time: 3 seconds", "success"),
        ("[INFO] BUILD SUCCESS\n[INFO] ---\n[INFO] Total time:  1 s\n[INFO] ---", "success"),
        ("[INFO] BUILD SUCCESS\n[INFO] Scanning for projects...\n[INFO] Building a", "unknown"),
        ("[INFO] BUILD SUCCESS\nTraceback (most recent call last):", "unknown"),
        ("[INFO] BUILD SUCCESS\n[INFO] BUILD FAILURE\n[ERROR] Help", "failure"),
        ("[INFO] BUILD FAILURE\n[INFO] BUILD SUCCESS", "success"),
        ("[INFO] BUILD FAILURE\n" + "work\n" * 100, "unknown"),
        ("make: *** [Makefile:3: x] Error 2", "failure"),
        ("make: *** No rule to make target 'x'.  Stop.", "failure"),
        ("make[1]: *** [x] Error 1\nmake: [all] Error 2 (ignored)", "unknown"),
        ("npm ERR! code ELIFECYCLE\nnpm ERR! errno 1\n\nnpm ERR! A complete log is in:", "failure"),
        ("npm error code 1\nnpm error path /a", "failure"),
        ("npm warn old\nnpm errors are listed above", "unknown"),
        ("== 1 failed, 2 passed in 0.3s ==", "failure"),
        ("===== 1 failed, 2 passed, 3 warnings in 83.10s (0:01:23) =====", "failure"),
        ("1 failed, 2 passed in 0.30s", "failure"),
        ("== 2 passed, 1 error in 0.3s ==", "failure"),
        ("== 2 passed, 1 xfailed in 0.3s ==", "success"),
        ("== no tests ran in 0.3s ==", "unknown"),
        ("2 failed attempts to log in were seen in 3s", "unknown"),
        ("!!!!! KeyboardInterrupt !!!!!\n== 2 passed in 0.3s ==", "unknown"),
        ("FAIL Required test coverage of 90% not reached.\n== 2 passed in 0.3s ==", "unknown"),
        ("== 2 passed in 0.3s ==\nmake: *** [test] Error 1", "failure"),
    ],
)
def test_then_the_last_tool_that_tells_decides(outcome, end, expected):
    assert outcome(f"Started\nwork\n{end}\n") == expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("exit code 3", "failure"),
        ("Exit code: 0", "success"),
        ("+ exit 1", "failure"),
        ("exit status 2", "failure"),
        ("Process finished with exit code 0", "success"),
        ("Process exited with code 137.", "failure"),
        ("Exited with code exit status 1", "failure"),
        ("ERROR: script returned exit code 1", "failure"),
        ('The command "make test" exited with 2.', "failure"),
        ("exit 1", "unknown"),
        ("the test expected exit code 3", "unknown"),
        ("exit code 3\nand on it goes", "unknown"),
    ],
)
def test_an_exit_code_counts_as_the_last_line_alone(outcome, last, expected):
    assert outcome(f"Started\nwork\n{last}\n\n") == expected


def test_the_line_that_decided_is_kept(tmp_path):
    path = tmp_path / "nightly.log"
    path.write_text("work\n[INFO] BUILD FAILURE\n[12:00:01] Finished: FAILURE\n")
    ((imported, _),) = checked(named("ci-log"), path, series="s")
    assert imported.record["source"]["ended_by"] == "Finished: FAILURE"
