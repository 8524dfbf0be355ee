"""The commands on files, as a person runs them: reports, records, progress and errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from yume.settings import inherited

SHARED = Path(__file__).parents[2] / "shared" / "data"
TRIAL = {"task_id": "t", "is_resolved": False, "trial_ended_at": "2026-01-01T00:00:00Z"}
COMMAND = (sys.executable, "-m", "yume.cli")
OUTCOMES = ("success", "failure", "infrastructure", "cancelled", "unknown")


@pytest.fixture
def yume(tmp_path):
    def run(*words):
        return subprocess.run(
            [*COMMAND, *map(str, words)],
            cwd=tmp_path,
            env=dict(inherited()),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def trials(tmp_path):
    path = tmp_path / "trials.jsonl"
    rows = [TRIAL | {"id": f"r{number}", "task_id": f"task-{number}"} for number in range(5)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    return path


@pytest.mark.parametrize(
    ("name", "folder", "facts"),
    [
        ("terminal-bench", "tbench_orca", ("n_trials", "n_batches")),
        ("tau-bench", "tau_airline", ("runs", None)),
    ],
)
def test_a_dream_over_real_runs_counts_as_their_facts_do(yume, name, folder, facts):
    if not SHARED.is_dir():
        pytest.skip("the real run data (../shared/data) is not on this machine")
    known = json.loads((SHARED / folder / "facts.json").read_text())
    done = yume("dream", "--runs", SHARED / folder, "--format", name, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["runs"] == known[facts[0]]
    assert tuple(told["outcomes"]) == OUTCOMES
    assert sum(told["outcomes"].values()) == told["runs"]
    if facts[1]:
        by_batch = {each["batch"]: each for each in known["by_batch_in_time_order"]}
        assert len(told["versions"]) == known[facts[1]]
        for version in told["versions"]:
            batch = by_batch[version["version"]]
            assert version["failures"] == batch["not_resolved"]
            assert version["unknown"] == batch["null_verdict"]
            assert version["rate"] == pytest.approx(batch["failure_rate_excl_null"], abs=1e-6)
    else:
        assert told["outcomes"]["failure"] == sum(
            count for key, count in known["by_trial_reward"].items() if key.endswith("|0.0")
        )


def test_the_report_is_markdown_and_goes_where_it_is_asked_to(yume, trials, tmp_path):
    shown = yume("dream", "--runs", trials, "--format", "terminal-bench")
    assert shown.returncode == 0
    assert shown.stdout.startswith("# A dream over trials.jsonl\n")
    assert "left out: trials.jsonl line 6: no JSON" in shown.stderr
    written = yume("dream", "--runs", trials, "--format", "terminal-bench", "--output", "report.md")
    assert written.stdout == "5 runs; the report is in report.md\n"
    assert (tmp_path / "report.md").read_text() == shown.stdout


def test_records_that_were_imported_give_the_same_dream(yume, trials, tmp_path):
    imported = yume("import", "terminal-bench", trials, "--output", "runs.jsonl", "--json")
    assert json.loads(imported.stdout) == {
        "format": "terminal-bench",
        "runs": 5,
        "unread": 1,
        "first_unread": [
            {
                "place": "trials.jsonl line 6",
                "why": "no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
            }
        ],
    }
    direct, again = (
        json.loads(yume("dream", "--runs", path, "--format", name, "--json").stdout)
        for path, name in ((trials, "terminal-bench"), (tmp_path / "runs.jsonl", "contract"))
    )
    for key in ("runs", "outcomes", "classes", "versions"):
        assert direct[key] == again[key]


def test_imported_records_go_to_standard_output_and_the_rest_to_standard_error(yume, trials):
    done = yume("import", "terminal-bench", trials)
    assert [json.loads(line)["task"]["id"] for line in done.stdout.splitlines()] == [
        f"task-{number}" for number in range(5)
    ]
    assert "5 runs read as terminal-bench, 1 pieces could not be read" in done.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no run in it; is it empty, and is it terminal-bench?"),
        (
            '{"reward": 1}\n',
            "none of 1 pieces is a run as terminal-bench writes it; the first, t.jsonl line 1",
        ),
    ],
)
def test_a_source_without_a_run_is_refused_and_leaves_no_file(yume, tmp_path, content, told):
    (tmp_path / "t.jsonl").write_text(content)
    for words in (
        ("import", "terminal-bench", "t.jsonl", "--output", "out.jsonl"),
        ("dream", "--runs", "t.jsonl", "--format", "terminal-bench"),
    ):
        done = yume(*words)
        assert done.returncode == 1
        assert told in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.parametrize(
    "words",
    [
        ("dream",),
        ("dream", "tobatsu"),
        ("dream", "tobatsu", "kamila", "--format", "contract"),
        ("dream", "tobatsu", "kamila", "--runs", "x"),
        ("dream", "--runs", "x", "--why", "because"),
        ("import", "terminal-bench"),
    ],
)
def test_files_and_a_series_are_not_mixed(yume, words):
    assert yume(*words).returncode == 2


def test_an_unknown_format_and_a_missing_file_say_what_there_is(yume):
    assert "these are: contract, " in yume("import", "csv", "x").stderr
    assert "nowhere: no such file or folder" in yume("import", "contract", "nowhere").stderr


def test_the_formats_are_listed(yume):
    listed = json.loads(yume("formats", "--json").stdout)
    assert {"contract", "terminal-bench", "tau-bench"} <= {each["format"] for each in listed}
    assert all(each["about"] for each in listed)


def test_colours_and_bells_from_a_file_do_not_reach_the_terminal(yume, tmp_path):
    row = TRIAL | {"id": "r", "_batch": "v\x1b[31m\x07", "parser_results": {"\x1b]0;title\x07test": "failed"}}
    (tmp_path / "trials.jsonl").write_text(json.dumps(row) + "\n\x1b[2J\n")
    done = yume("dream", "--runs", "trials.jsonl", "--format", "terminal-bench")
    assert done.returncode == 0
    assert not {"\x1b", "\x07"} & set(done.stdout + done.stderr)


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_at_once_and_leaves_no_half_file(tmp_path, sign, code):
    (tmp_path / "out").mkdir()
    with (tmp_path / "trials.jsonl").open("w") as stream:
        for number in range(400_000):
            stream.write(json.dumps(TRIAL | {"id": str(number)}) + "\n")
    process = subprocess.Popen(
        [*COMMAND, "import", "terminal-bench", "trials.jsonl", "--output", "out/runs.jsonl"],
        cwd=tmp_path,
        env=dict(inherited()),
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(path.stat().st_size for path in (tmp_path / "out").iterdir()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(sign)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == code
    assert "Traceback" not in errors
    assert not list((tmp_path / "out").iterdir())


def test_output_follows_a_link_and_keeps_it(yume, trials, tmp_path):
    (tmp_path / "kept").mkdir()
    aim = tmp_path / "kept" / "aim.jsonl"
    aim.write_text("of before\n")
    aim.chmod(0o640)
    (tmp_path / "runs.jsonl").symlink_to(aim)
    assert yume("import", "terminal-bench", trials, "--output", "runs.jsonl").returncode == 0
    assert (tmp_path / "runs.jsonl").is_symlink()
    assert len(aim.read_text().splitlines()) == 5
    assert aim.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["aim.jsonl"]


def test_output_goes_through_a_pipe_and_leaves_it(yume, trials, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        assert yume("import", "terminal-bench", trials, "--output", pipe).returncode == 0
        assert os.read(reader, 1 << 16).count(b"\n") == 5
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", [("import", "terminal-bench"), ("dream", "--format", "terminal-bench")])
def test_output_never_replaces_what_is_read(yume, tmp_path, command):
    folder = tmp_path / "runs"
    folder.mkdir()
    trials = folder / "trials.jsonl"
    trials.write_text(json.dumps(TRIAL | {"id": "r"}) + "\n")
    os.link(trials, tmp_path / "linked.jsonl")
    path = ("--runs",) if command[0] == "dream" else ()
    for source, output in (
        (trials, trials),
        (trials, tmp_path / "linked.jsonl"),
        (folder, trials),
        (folder, folder / "new.jsonl"),
    ):
        done = yume(*command, *path, source, "--output", output)
        assert done.returncode == 1
        assert "for --output" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["trials.jsonl"]
    assert json.loads(trials.read_text())["id"] == "r"
    assert yume(*command, *path, folder, "--output", folder / "report.md").returncode == 0


def test_a_place_that_cannot_be_written_is_named(yume, trials):
    done = yume("import", "terminal-bench", trials, "--output", "no/such/folder.jsonl")
    assert done.stderr.endswith("yume: no/such/folder.jsonl cannot be written: No such file or directory\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_output_without_room_is_told_in_one_line(trials):
    for words in (("formats",), ("import", "terminal-bench", trials)):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [*COMMAND, *map(str, words)],
                env=dict(inherited()),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr == "yume: the output cannot be written: No space left on device\n"
