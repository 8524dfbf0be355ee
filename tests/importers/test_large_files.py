"""Files larger than what may be held: memory stays flat while they are read.

`--large` makes them 200 MB; without it they are large enough to show a reader that keeps what it has read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import pytest

from yume.importers.formats import FORMATS
from yume.settings import inherited

MIB = 1 << 20
GROWTH_MIB = 60  # over the peak of the same format with a single run
TEXT = "x" * 2_000


def _repeat(path, size, piece, *, around, between=","):
    """Write a file of about `size` bytes from numbered pieces, at least one."""
    before, after = around
    written = number = 0
    with path.open("w", encoding="utf-8") as stream:
        stream.write(before)
        while written < size:
            written += stream.write((between if number else "") + piece(number))
            number += 1
        stream.write(after)


def _contract(path, size):
    def piece(number):
        task = {
            "id": f"t{number}",
            "series_id": "s",
            "status": "failed",
            "finished_at": "2026-01-01T00:00:00Z",
        }
        return json.dumps({"task": task | {"title": TEXT}, "runs": []})

    _repeat(path, size, piece, around=("", "\n"), between="\n")


def _terminal_bench(path, size):
    def piece(number):
        return json.dumps(
            {"task_id": f"t{number}", "is_resolved": False, "id": str(number), "instruction": TEXT}
        )

    _repeat(path, size, piece, around=('{"accuracy": 0, "results": [', "]}"))


def _tau_bench(path, size):
    def piece(number):
        said = [{"role": "user", "content": TEXT}]
        return json.dumps({"task_id": number, "trial": 0, "reward": 0.0, "traj": said})

    _repeat(path, size, piece, around=("[", "]"))


def _agbench(path, size):
    def piece(number):
        return json.dumps(f"Test{number}") + ":" + json.dumps({"task": TEXT, "metrics": {"success": False}})

    _repeat(path, size, piece, around=('{"tests": {', '}, "config": {}}'))


def _swe_bench(path, size):
    def piece(number):
        report = {"resolved": False, "tests_status": {"FAIL_TO_PASS": {"failure": [TEXT]}}}
        return f'"django-{number}": {json.dumps(report)}'

    _repeat(path, size, piece, around=("{", "}"))


def _inspect_ai(path, size):
    def piece(number):
        score = {"match": {"value": "I", "explanation": TEXT}}
        said = [{"role": "user", "content": TEXT}]
        return json.dumps({"id": number, "epoch": 1, "messages": said, "scores": score})

    head = {
        "version": 2,
        "status": "success",
        "eval": {"task": "t", "model": "m", "created": "2026-01-01T00:00:00Z"},
    }
    _repeat(path, size, piece, around=(json.dumps(head)[:-1] + ', "samples": [', "]}"))


def _junit(path, size):
    def piece(number):
        return f'<testcase classname="c" name="n{number}"><failure message="no">{TEXT}</failure></testcase>'

    around = '<?xml version="1.0"?><testsuites><testsuite>', "</testsuite></testsuites>"
    _repeat(path, size, piece, around=around, between="")


def _ci_log(path, size):
    around = "", "\nERROR: it broke\nFinished: FAILURE\n"
    _repeat(path, size, lambda number: f"{number} {TEXT[:120]}", around=around, between="\n")


WRITERS = {
    "contract": (_contract, "runs.jsonl"),
    "terminal-bench": (_terminal_bench, "results.json"),
    "tau-bench": (_tau_bench, "results.json"),
    "agbench": (_agbench, "report.json"),
    "swe-bench": (_swe_bench, "report.json"),
    "inspect-ai": (_inspect_ai, "log.json"),
    "junit": (_junit, "report.xml"),
    "ci-log": (_ci_log, "build.log"),
}


def peak_mib(name, path):
    """Import a file in a process of its own and return the most memory that it took."""
    process = subprocess.Popen(
        [sys.executable, "-m", "yume.cli", "import", name, str(path), "--json"],
        env=dict(inherited()),
        stdout=subprocess.PIPE,
        text=True,
    )
    told = json.loads(process.stdout.read().splitlines()[-1])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    assert process.returncode == 0
    assert told["unread"] == 0
    return usage.ru_maxrss / 1024, told["runs"]


def test_every_format_has_a_large_file():
    assert set(WRITERS) == {each.name for each in FORMATS}


@pytest.mark.parametrize("name", WRITERS)
def test_memory_stays_flat_however_large_the_file_is(tmp_path, request, capfd, name):
    size = (200 if request.config.getoption("--large") else 24) * MIB
    write, file = WRITERS[name]
    small, large = tmp_path / "small" / file, tmp_path / "large" / file
    for path, length in ((small, 1), (large, size)):
        path.parent.mkdir()
        write(path, length)
    assert large.stat().st_size >= size
    base, few = peak_mib(name, small)
    peak, many = peak_mib(name, large)
    figures = f"{large.stat().st_size / MIB:.0f} MiB, {many} runs: {base:.0f} to {peak:.0f} MiB of memory"
    if request.config.getoption("--large"):
        with capfd.disabled():
            sys.stdout.write(f"\n{name}: {figures}\n")
    assert few == 1
    assert many > 1_000 or name == "ci-log"
    assert peak - base < GROWTH_MIB, figures


def test_a_zip_of_samples_is_read_member_by_member(tmp_path, request):
    size = (200 if request.config.getoption("--large") else 24) * MIB
    paths = []
    for count in (1, size // 20_000):
        path = tmp_path / f"{count}.eval"
        head = {
            "version": 2,
            "status": "success",
            "eval": {"task": "t", "model": "m", "created": "2026-01-01T00:00:00Z"},
        }
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("header.json", json.dumps(head))
            for number in range(count):
                sample = {"id": number, "epoch": 1, "messages": [{"role": "user", "content": TEXT * 10}]}
                archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))
        paths.append(path)
    (base, _), (peak, runs) = (peak_mib("inspect-ai", path) for path in paths)
    assert runs == size // 20_000
    assert peak - base < GROWTH_MIB
