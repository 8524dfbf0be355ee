from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load(script):
    loader = importlib.machinery.SourceFileLoader("dev_script", str(script))
    spec = importlib.util.spec_from_loader("dev_script", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def dev(tmp_path, monkeypatch):
    """The script in a checkout of its own, where making .venv takes no time."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    checkout = tmp_path / "a checkout"
    pins = checkout / "deploy" / "requirements"
    pins.mkdir(parents=True)
    (pins / "dev.txt").write_text("one==1\n")
    (pins / "bootstrap.txt").write_text("uv==1\n")
    (checkout / "dev").write_bytes((ROOT / "dev").read_bytes())
    return load(checkout / "dev")


@pytest.fixture
def making(dev, monkeypatch):
    """What `make` was called for; it makes only what the later steps look for."""
    made = []

    def make(lock):
        made.append(lock)
        dev.BIN.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(dev, "make", make)
    return made


def program(dev, name, text):
    dev.BIN.mkdir(parents=True, exist_ok=True)
    (dev.BIN / name).write_text(f"#!/bin/sh\n{text}\n")
    (dev.BIN / name).chmod(0o755)


def test_the_requirement_files_name_no_host_and_every_pin_has_a_hash():
    for name in ("runtime.txt", "dev.txt", "bootstrap.txt"):
        text = (ROOT / "deploy" / "requirements" / name).read_text()
        pins = re.findall(r"^[a-z0-9][^ ]*==\S+.*$", text, re.MULTILINE)
        assert "://" not in text
        assert pins
        assert all(pin.endswith("\\") for pin in pins), name


def test_the_pinned_uv_is_the_one_that_is_installed(dev):
    assert (ROOT / "deploy" / "requirements" / "bootstrap.txt").read_text().startswith(dev.UV_PIN + " \\\n")


def test_a_requirement_that_names_a_host_is_refused_with_its_line(dev):
    pins = dev.PINS / "dev.txt"
    dev.refuse_hosts([pins])
    pins.write_text("one==1\n--index-url https://index.example/simple\n")
    with pytest.raises(SystemExit, match=r"dev\.txt:2 names a host"):
        dev.refuse_hosts([pins])


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_needs_no_environment(dev, making, words, capsys):
    assert dev.main(words) == 0
    said = capsys.readouterr().out
    assert all(f"python3 dev {command}" in said for command in ("demo", "test", "COMMAND", "requirements"))
    assert not making


def test_an_older_python_is_told_what_is_needed(dev, making, monkeypatch):
    monkeypatch.setattr(dev.sys, "version_info", (3, 10, 4, "final", 0))
    with pytest.raises(SystemExit, match=r"3\.11 or newer is needed, this is 3\.10\.4"):
        dev.main(["demo"])
    assert not making


def test_the_environment_is_made_once(dev, making):
    dev.make_once()
    dev.make_once()
    assert len(making) == 1


@pytest.mark.parametrize("changed", ["deploy/requirements/dev.txt", "dev"])
def test_changed_pins_or_a_changed_script_make_it_again(dev, making, changed):
    dev.make_once()
    with (dev.ROOT / changed).open("a") as file:
        file.write("# changed\n")
    dev.make_once()
    assert len(making) == 2


def test_another_python_makes_it_again(dev, making, monkeypatch):
    dev.make_once()
    monkeypatch.setattr(dev.sys, "version", "3.99.0")
    dev.make_once()
    assert len(making) == 2


def test_a_moved_checkout_makes_it_again(dev, making):
    dev.make_once()
    moved = dev.ROOT.rename(dev.ROOT.with_name("moved"))
    assert load(moved / "dev").fingerprint() != (moved / ".venv" / dev.STAMP).read_text()


def test_what_was_interrupted_is_made_again(dev, making, monkeypatch):
    def interrupted(lock):
        dev.BIN.mkdir(parents=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as first_run:
        first_run.setattr(dev, "make", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dev.make_once()
    dev.make_once()
    assert len(making) == 1


def test_of_two_runs_at_once_one_makes_it_and_the_other_waits(dev):
    code = (
        "import importlib.machinery, sys, time, types\n"
        "dev = types.ModuleType('dev_script')\n"
        "dev.__file__ = sys.argv[1]\n"
        "importlib.machinery.SourceFileLoader('dev_script', sys.argv[1]).exec_module(dev)\n"
        "def make(lock): dev.BIN.mkdir(parents=True); time.sleep(0.5); print('made', flush=True)\n"
        "dev.make = make\n"
        "dev.make_once()\n"
    )
    command = [sys.executable, "-B", "-c", code, str(dev.ROOT / "dev")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [run.communicate(timeout=60)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert sorted(said) == ["", "made\n"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_checkout_that_cannot_be_written_is_named(dev):
    dev.ROOT.chmod(0o555)
    with pytest.raises(SystemExit, match="cannot be written; copy the checkout"):
        dev.make_once()


def test_a_disk_that_refuses_is_named(dev, monkeypatch):
    monkeypatch.setattr(dev.os, "access", lambda *_: False)
    with pytest.raises(SystemExit, match="cannot be written; copy the checkout to a folder of yours"):
        dev.make_once()


def test_pip_does_it_where_uv_cannot(dev, monkeypatch):
    ran = []
    packages = dev.VENV / "lib" / "python3.11" / "site-packages"

    def run(argv, lock):
        ran.append(argv)
        packages.mkdir(parents=True, exist_ok=True)
        dev.BIN.mkdir(exist_ok=True)
        return argv[0] != "uv-of-path"

    monkeypatch.setattr(dev, "run", run)
    monkeypatch.setattr(dev.shutil, "which", lambda _: "uv-of-path")
    dev.make(0)
    assert "--require-hashes" in ran[-1]
    assert ran[-1][:3] == [str(dev.BIN / "python"), "-m", "pip"]
    assert (packages / "yume-checkout.pth").read_text() == f"{dev.ROOT}\n"


def test_a_python_that_makes_no_virtual_environments_is_told_the_package(dev, monkeypatch):
    monkeypatch.setattr(dev, "run", lambda *_: False)
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        dev.new_venv(dev.VENV, 0)


def test_the_checks_stop_at_the_first_that_fails_with_its_code(dev, capfd):
    program(dev, "ruff", 'echo "ruff $*"')
    program(dev, "mypy", "exit 3")
    program(dev, "lint-imports", "echo too far")
    assert dev.check_all() == 3
    said = capfd.readouterr().out
    assert said.splitlines() == [
        "== format: ruff format --check",
        "ruff format --check",
        "== lint: ruff check",
        "ruff check",
        "== types: mypy",
        "== types failed",
    ]


def test_the_checks_run_in_order_and_pass_when_all_pass(dev, capfd):
    for _, command, *_ in dev.CHECKS:
        program(dev, command, "exit 0")
    assert dev.check_all() == 0
    headings = re.findall(r"^== (\w+):", capfd.readouterr().out, re.MULTILINE)
    assert headings == ["format", "lint", "types", "imports", "dependencies", "tests"]


def test_a_check_that_a_signal_ended_has_the_code_of_a_shell(dev):
    program(dev, "ruff", "kill -TERM $$")
    assert dev.check_all() == 128 + 15


@pytest.mark.parametrize(
    ("words", "ran"),
    [
        (["demo", "--json"], "yume demo --json"),
        (["test", "-k", "one"], "pytest -k one"),
        (["mypy"], "mypy"),
        (["yume", "status"], "yume status"),
    ],
)
def test_a_command_becomes_the_program_with_its_code_and_place(dev, words, ran, tmp_path):
    for name in ("yume", "pytest", "mypy"):
        program(dev, name, f'echo "{name}${{1:+ }}$*"; pwd; exit 7')
    (dev.VENV / dev.STAMP).write_text(dev.fingerprint())
    command = [sys.executable, str(dev.ROOT / "dev"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    place = tmp_path if ran.startswith("yume") else dev.ROOT
    assert (done.stdout.splitlines(), done.returncode) == ([ran, str(place)], 7), done.stderr


def test_a_command_that_is_not_there_is_named(dev):
    dev.BIN.mkdir(parents=True)
    with pytest.raises(SystemExit, match="no command 'nope'"):
        dev.become(["nope"])


@pytest.fixture
def committed(dev, monkeypatch):
    """The checkout as a repository whose one commit holds everything."""
    monkeypatch.setattr(dev, "FIGURES", (("bench", "trust"),))
    program(dev, "yume", 'echo "$@ came to 7"')
    (dev.ROOT / ".gitignore").write_text(".venv\n")
    git(dev, "init", "--quiet")
    git(dev, "add", ".")
    git(dev, "-c", "user.name=T", "-c", "user.email=t@localhost", "commit", "--quiet", "-m", "all")
    (dev.ROOT / "docs").mkdir()
    return dev


def git(dev, *words):
    return subprocess.check_output(["git", "-C", str(dev.ROOT), *words], text=True).strip()


def test_figures_name_the_day_and_the_commit_that_they_were_measured_on(committed):
    page = committed.ROOT / "docs" / "figures.md"
    assert committed.write_figures(page) == 0
    said = page.read_text()
    assert git(committed, "rev-parse", "--short=12", "HEAD") in said
    assert re.search(r" on \d{4}-\d\d-\d\d at commit", said)
    assert "## `yume bench trust`\n\n```text\nbench trust came to 7\n```" in said


def test_figures_of_what_no_commit_holds_are_refused(committed):
    with (committed.ROOT / "dev").open("a") as file:
        file.write("# changed\n")
    page = committed.ROOT / "docs" / "figures.md"
    with pytest.raises(SystemExit, match="commit first"):
        committed.write_figures(page)
    assert not page.exists()
