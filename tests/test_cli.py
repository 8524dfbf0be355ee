"""The command line as a person meets it: real processes, exit codes, and errors that say what to do next."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import sys
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis.strategies import characters, text

from yume import jetstream
from yume.arguments import make_parser
from yume.commands.printing import as_json, escaped
from yume.settings import contracts, inherited
from yume.settle import bury
from yume.topology import load

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
        "dead",
        "dreams",
        "trail",
    ):
        assert re.search(rf"^    {command}\b", shown, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["dance"],
        ["worker"],
        ["demo", "--obedience", "2"],
        ["demo", "--batches", "0"],
        ["dead", "show", "0"],
        ["dead", "drop", "1"],
    ],
)
def test_wrong_usage_exits_with_2(yume, words):
    assert yume(*words).returncode == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["db", "migrate"], "YUME_DATABASE_URL is not set"),
        (["streams", "apply"], "YUME_NATS_URL is not set"),
        (["dreams", "p", "s"], "YUME_DATABASE_URL is not set"),
        (["dead", "list"], "YUME_NATS_URL is not set"),
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


NASTY = "\x1b[2Jgone\u202ex \u00e9\x7f\x9b0m\u2066"


@pytest.fixture
async def dead(nats_url):
    """A server whose dead stream holds a task's message and one that nobody but a stranger wrote."""
    async with jetstream.connect(nats_url, name="test") as js:
        await js.apply(load(contracts("streams"), replicas=1, ack_wait_s=30))
        told = SimpleNamespace(
            subject="yume.task.finished.tobatsu.kamila",
            body=b'{"a": "task"}',
            stream="tasks",
            consumer="orchestrator_tasks",
            sequence=4,
            tries=5,
        )
        await bury(js, told, "PermanentError: the reason")
        headers = {"Yume-Subject": f"yume.dead.{NASTY}", "Yume-Reason": NASTY}
        nasty = f"{NASTY}\nyume: all is well".encode() + b"\xff"
        await js.store_bytes("yume.dead.tasks.x", nasty, stream="dead", key="k", headers=headers)
        yield js
        await js.client.request("$JS.API.STREAM.DELETE.dead", b"{}")
        await js.client.request("$JS.API.STREAM.DELETE.tasks", b"{}")


def plain(text):
    """Say whether a text is what a terminal shows as it is."""
    return all(line.isprintable() for line in text.splitlines()) and "\x1b" not in text


async def test_an_operator_looks_through_the_dead_letters(yume, nats_url, migrated_url, dead):
    servers = {"YUME_DATABASE_URL": migrated_url, "YUME_NATS_URL": nats_url}

    async def run(*words):
        return await asyncio.to_thread(yume, "dead", *words, **servers)

    listed = (await run("list")).stdout
    assert "orchestrator_tasks" in listed
    assert "PermanentError: the reason" in listed
    assert [row["sequence"] for row in json.loads((await run("list", "--json")).stdout)] == [1, 2]
    assert '{"a": "task"}' in (await run("show", "1")).stdout
    assert json.loads((await run("show", "1", "--json")).stdout)["body"] == '{"a": "task"}'

    done = await run("requeue", "2", "7", "1")
    assert done.returncode == 1
    assert done.stdout == "requeued 1 into stream tasks\n"
    assert ["dead letter 2" in line for line in done.stderr.splitlines()].count(True) == 1
    assert "there is no dead letter 7" in done.stderr
    assert [each.body async for each in dead.stored("tasks")] == [b'{"a": "task"}']

    done = await run("drop", "2", "7", "--why", "a stranger's")
    assert done.returncode == 1
    assert done.stdout == "dropped 2\n"
    assert "letter_dropped" in done.stderr
    assert "a stranger's" in done.stderr
    assert (await run("list")).stdout == "no dead letter\n"
    assert json.loads((await run("list", "--json")).stdout) == []


async def test_no_word_of_a_letter_steers_the_terminal(yume, nats_url, migrated_url, dead):
    servers = {"YUME_DATABASE_URL": migrated_url, "YUME_NATS_URL": nats_url}
    for words in (["list"], ["list", "--json"], ["show", "2"], ["show", "2", "--json"], ["requeue", "2"]):
        ended = await asyncio.to_thread(yume, "dead", *words, **servers)
        assert plain(ended.stdout + ended.stderr), words
        assert "gone" in ended.stdout + ended.stderr, words
    told = json.loads((await asyncio.to_thread(yume, "dead", "show", "2", "--json", **servers)).stdout)
    assert base64.b64decode(told["body_base64"]).decode("utf-8", "ignore").startswith(NASTY)
    assert told["body"] is None
    shown = (await asyncio.to_thread(yume, "dead", "show", "2", **servers)).stdout
    assert "yume: all is well" not in shown.splitlines()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("plain text, 日本語, é", "plain text, 日本語, é"),
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\u202e\u2066\u200b", r"\u202e\u2066\u200b"),
        ("\x7f\x9b\x00", r"\x7f\x9b\x00"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_no_visible_character_is_spelt_out(words, shown):
    assert escaped(words) == shown


@given(text(characters()))
def test_json_for_the_terminal_is_visible_and_means_the_same(words):
    printed = as_json({"a": words})
    assert printed.isprintable()
    assert json.loads(printed) == {"a": words}


def leaves(parser):
    """Return every parser below this one that takes no further command."""
    below = [
        child
        for action in parser._actions  # noqa: SLF001  # argparse has no other way to its subcommands
        if isinstance(action.choices, dict)
        for child in action.choices.values()
    ]
    return [leaf for child in below for leaf in leaves(child)] or [parser]


def test_every_command_of_the_parser_is_there():
    named = [leaf.get_default("command") for leaf in leaves(make_parser())]
    assert len(named) >= 16
    assert len(set(named)) == len(named)
    for room, function in (name.split(":") for name in named):
        assert iscoroutinefunction(getattr(import_module(f"yume.commands.{room}"), function))


@pytest.mark.parametrize("words", [["--help"], ["platform", "--help"], ["dance"]])
def test_help_and_wrong_usage_load_none_of_what_the_commands_load(words):
    told = "import sys\nfrom yume import cli\ntry: cli.main()\nfinally: print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", told, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    loaded = {name.partition(".")[0] for name in ended.stdout.splitlines()[-1].split()}
    assert "yume" in loaded
    assert not {"asyncpg", "nats", "faststream", "httpx", "aioboto3"} & loaded


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
