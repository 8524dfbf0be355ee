"""The command line as a person meets it: real processes, exit codes, and errors that say what to do next."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from yume.settings import inherited

ROOT = Path(__file__).parent.parent


@pytest.fixture
def yume(tmp_path):
    """Run a command in an environment of its own."""

    def run(*words, **variables):
        return subprocess.run(
            [sys.executable, "-m", "yume.cli", *words],
            cwd=ROOT,
            env=dict(inherited()) | {"YUME_DATA_DIR": str(tmp_path / "data")} | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_help_names_every_command_with_what_it_does(yume):
    shown = yume("--help").stdout
    for command in (
        "demo",
        "up",
        "worker",
        "orchestrator",
        "api",
        "db",
        "streams",
        "platform",
        "dreams",
        "trail",
    ):
        assert re.search(rf"^    {command}\b", shown, re.MULTILINE)


@pytest.mark.parametrize(
    "words", [[], ["dance"], ["worker"], ["demo", "--obedience", "2"], ["demo", "--batches", "0"]]
)
def test_wrong_usage_exits_with_2(yume, words):
    assert yume(*words).returncode == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["db", "migrate"], "YUME_DATABASE_URL is not set"),
        (["streams", "apply"], "YUME_NATS_URL is not set"),
        (["dreams", "p", "s"], "YUME_DATABASE_URL is not set"),
        (["worker", "s1", "s3"], "one process serves one trust zone"),
        (["worker", "s12"], "no step is named 's12'"),
    ],
)
def test_a_refusal_exits_with_1_and_one_line_that_says_what_is_missing(yume, words, says):
    ended = yume(*words)
    assert ended.returncode == 1
    assert says in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_a_setting_that_is_refused_is_named(yume):
    ended = yume("db", "migrate", YUME_ACK_WAIT_S="0")
    assert ended.returncode == 1
    assert "YUME_ACK_WAIT_S" in ended.stderr


def test_a_server_that_cannot_be_reached_is_named_without_its_password(yume):
    ended = yume("db", "migrate", YUME_DATABASE_URL="postgresql://yume:pass-word@127.0.0.1:1/yume")
    assert ended.returncode == 1
    assert "Postgres" in ended.stderr
    assert "pass-word" not in ended.stderr


def test_an_operators_first_day(yume, database_url, nats_url, tmp_path):
    servers = {
        "YUME_DATABASE_URL": database_url,
        "YUME_NATS_URL": nats_url,
        "YUME_SECRET_KEYS": Fernet.generate_key().decode(),
        "YUME_PLATFORM_ALLOW_HTTP": "true",
    }
    assert "applied 0001_tables.sql" in yume("db", "migrate", **servers).stdout
    assert "nothing to apply" in yume("db", "migrate", **servers).stdout

    missing = yume("streams", "check", "--json", **servers)
    assert missing.returncode == 1
    assert {"tasks", "s1_pull"} <= {row["name"] for row in json.loads(missing.stdout)}
    assert "created dream" in yume("streams", "apply", **servers).stdout
    assert yume("streams", "check", **servers).returncode == 0

    token = tmp_path / "token"
    token.write_text("a-token\n")
    tokens = ["--export-token-file", str(token), "--slot-token-file", str(token)]
    added = yume("platform", "add", "tobatsu", "--base-url", "http://127.0.0.1:9", *tokens, **servers)
    assert added.returncode == 0, added.stderr
    listed = yume("platform", "list", "--json", **servers)
    assert [row["id"] for row in json.loads(listed.stdout)] == ["tobatsu"]
    assert "a-token" not in listed.stdout

    refused = yume("platform", "add", "tobatsu", "--base-url", "http://example.test", *tokens, **servers)
    assert refused.returncode == 1
    nowhere = yume("dreams", "tobatsu", "kamila", **servers)
    assert nowhere.returncode == 1
    assert "has no series 'kamila'" in nowhere.stderr


def test_a_token_file_that_is_not_there_is_named(yume, database_url):
    missing = ["--export-token-file", "/nowhere", "--slot-token-file", "/nowhere"]
    ended = yume(
        "platform", "add", "t", "--base-url", "https://example.test", *missing, YUME_DATABASE_URL=database_url
    )
    assert ended.returncode == 1
    assert "/nowhere" in ended.stderr


def test_every_command_of_the_parser_is_there():
    from yume import cli, commands  # noqa: PLC0415  # every other test here runs the real program

    named = re.findall(r'_command\(\s*\w+,\s*"[\w]+",\s*"(\w+)"', Path(cli.__file__).read_text())
    assert len(named) >= 16
    assert all(callable(getattr(commands, name)) for name in named)


def test_a_reader_that_has_seen_enough_causes_no_traceback():
    ended = subprocess.Popen(
        [sys.executable, "-m", "yume.cli", "--help"],
        cwd=ROOT,
        env=dict(inherited()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    ended.stdout.close()
    assert ended.stderr.read() == ""
    ended.stderr.close()
    assert ended.wait(30) == 0
