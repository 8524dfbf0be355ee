"""What an operator types about series, dreams and slots, and what comes back: words, JSON, exit codes."""

from __future__ import annotations

import json
from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from tests.store.conftest import NOW, Rows
from yume import jetstream, operate
from yume.arguments import make_parser
from yume.commands.status import COLUMNS
from yume.errors import YumeError
from yume.events import RunBatch, event
from yume.ids import new_id
from yume.settings import Settings, contracts
from yume.store import access, effects
from yume.topology import load

PS = ("tobatsu", "kamila")
WHY = ("--why", "a test")
NASTY = "\x1b[2Jgone\u202ex"


@pytest.fixture
def settings(migrated_url, tmp_path):
    return Settings(data_dir=tmp_path, database_url=SecretStr(migrated_url))


@pytest.fixture
def run(settings, capsys):
    """Do what a command line says, as `yume` does, and return its exit code and what it printed."""

    async def ran(*words, **changed):
        capsys.readouterr()
        try:
            arguments = make_parser().parse_args([str(word) for word in words])
            room, _, name = arguments.command.partition(":")
            command = getattr(import_module(f"yume.commands.{room}"), name)
            code, refusal = await command(arguments, settings.model_copy(update=changed)), ""
        except SystemExit as wrong:
            code, refusal = wrong.code, ""
        except YumeError as error:
            code, refusal = 1, str(error)
        printed = capsys.readouterr()
        return SimpleNamespace(code=code, out=printed.out, err=printed.err + refusal)

    return ran


@pytest.fixture
def told(run):
    """Run a command with --json; return the one document that it printed."""

    async def ran(*words, **changed):
        ended = await run(*words, "--json", **changed)
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    return ran


@pytest.fixture
def rows(db):
    return Rows(db)


@pytest.fixture
async def series(rows):
    return await rows.series()


# Usage


@pytest.mark.parametrize(
    "words",
    [
        ("series", "set", *PS),
        ("series", "set", *PS, "--batch-max-wait", "soon"),
        ("series", "set", *PS, "--batch-max-wait", "6"),
        ("series", "set", *PS, "--batch-max-wait", "-1h"),
        ("series", "set", *PS, "--batch-max-wait", "9999999999d"),
        ("series", "set", *PS, "--language", "fr"),
        ("series", "set", *PS, "--boundary", "bonferroni"),
        ("series", "set", *PS, "--schedule", "0 3 * * *"),
        ("series", "set", *PS, "--zone", "UTC"),
        ("series", "add", *PS, "--no-schedule"),
        ("series", "adopt", *PS, "--sha256", "ab" * 32),
        ("dream", "tobatsu"),
        ("dream", *PS, "--why", " "),
        ("cancel", *PS, 1),
        ("cancel", *PS, 0, *WHY),
        ("resume", *PS),
        ("replay", *PS),
        ("replay", *PS, 1, "--apply"),
        ("replay", *PS, 1, "--since", "2h"),
        ("replay", *PS, 1, "--key", ""),
        ("replay", *PS, 1, "--key", "x" * 201),
        ("replay", "--subject", "yume.dream.classified.a.b"),
        ("replay", *PS, 1, "--subject", "yume.dream.classified.a.b", "--since", "2h"),
        ("replay", "--subject", "yume.dream.classified.a.b", "--since", "2h", "--from", "s3"),
        ("replay", "--subject", "yume.dream.classified.a.b", "--since", "2h", "--apply"),
        ("release", *PS, "--now"),
        ("rollback", *PS),
        ("rollback", *PS, "--to", 0, *WHY),
        ("kill", *PS),
    ],
)
async def test_what_is_no_command_line_exits_with_2_and_changes_nothing(run, db, series, words):
    before = await db.fetchrow("SELECT * FROM yume.series")
    ended = await run(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "usage: yume" in ended.err
    assert await db.fetchrow("SELECT * FROM yume.series") == before
    assert await db.fetchval("SELECT count(*) FROM yume.dream_runs") == 0
    assert await db.fetchval("SELECT count(*) FROM yume.injections") == 0


@pytest.mark.parametrize(
    "words",
    [
        ("series", "show"),
        ("series", "set", "--batch-max-runs", 3),
        ("series", "pause"),
        ("series", "resume"),
        ("series", "adopt"),
        ("dream",),
        ("preview",),
        ("release", "--now", *WHY),
        ("rollback", *WHY),
        ("rollback", "--dry-run"),
        ("kill", *WHY),
        ("dreams",),
    ],
)
async def test_a_series_that_is_not_known_is_refused_with_its_name(run, series, words):
    cut = 2 if words[0] == "series" else 1
    ended = await run(*words[:cut], "tobatsu", "nobody", *words[cut:])
    assert (ended.code, ended.out) == (1, "")
    assert "platform 'tobatsu' has no series 'nobody'" in ended.err


# Series


async def test_a_series_is_added_changed_paused_resumed_and_shown(run, told, series):
    policy = ("--batch-max-runs", 7, "--batch-max-wait", "6h", "--budget-tokens", 900, "--language", "zh")
    clock = ("--schedule", "0 3 * * *", "--zone", "Asia/Shanghai", "--instructions", f"be brief{NASTY}")
    added = await run("series", "add", "tobatsu", "mirai", *policy, *clock)
    assert (added.code, added.out) == (0, "tobatsu/mirai is new and only reports\n")
    assert "was known" in (await run("series", "add", "tobatsu", "mirai")).out
    assert (await run("series", "set", "tobatsu", "mirai", "--batch-max-runs", 8)).code == 0
    assert "is paused" in (await run("series", "pause", "tobatsu", "mirai", "--why", "holidays")).out
    shown = (await run("series", "show", "tobatsu", "mirai")).out
    for words in (
        "report_only",
        "holidays",
        "8 tasks at most, 6:00:00 at most",
        "0 3 * * * in Asia/Shanghai, next 20",
        "900 tokens at most, in zh",
        r"be brief\x1b[2Jgone\u202ex",
        "Yume never wrote there",
        "no dream yet",
    ):
        assert words in shown
    assert "goes on" in (await run("series", "resume", "tobatsu", "mirai")).out
    assert (await told("series", "resume", "tobatsu", "mirai")) == {
        "platform": "tobatsu",
        "series": "mirai",
        "changed": False,
    }
    assert (await run("series", "set", "tobatsu", "mirai", "--no-schedule")).code == 0
    document = await told("series", "show", "tobatsu", "mirai")
    assert (document["policy"]["schedule"], document["policy"]["batch_max_runs"]) == (None, 8)
    assert document["policy"]["batch_max_wait"] == "6:00:00"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--batch-max-runs", 0), "a batch of 0 tasks: 1 to 10000 are allowed"),
        (("--batch-max-wait", "0s"), "a wait of 0:00:00: 1 second to 366 days are allowed"),
        (("--budget-tokens", 10), "a budget of 10 tokens: 50 to 100000 are allowed"),
        (("--instructions", "x" * 5000), "5000 characters, 4096 are allowed"),
        (("--schedule", "never", "--zone", "UTC"), "has 1 fields, 5 are wanted"),
        (("--schedule", "0 3 * * *", "--zone", "Atlantis"), "no time zone is called 'Atlantis'"),
    ],
)
async def test_a_value_beyond_its_limit_is_refused_with_both(run, series, words, says):
    ended = await run("series", "set", *PS, *words)
    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err


async def test_a_boundary_is_set_shown_and_set_back(run, told, series):
    for boundary, words in (("pocock", "first 15 looks, and none after"), ("always_valid", "any number of")):
        assert (await run("series", "set", *PS, "--boundary", boundary)).code == 0
        assert words in (await run("series", "show", *PS)).out
        assert (await told("series", "show", *PS))["policy"]["boundary"] == boundary


async def test_who_did_it_and_why_is_on_the_row(run, db, series):
    await run("series", "pause", *PS, "--why", "holidays")
    await run("series", "mode", *PS, "auto", *WHY)
    acts = await db.fetchval("SELECT promotions FROM yume.series")
    assert [(each["by"].partition(":")[0], each["why"]) for each in acts] == [
        ("cli", "holidays"),
        ("cli", "a test"),
    ]


# Dreams


async def test_a_dream_is_started_and_cancelled_by_hand(run, told, db, series):
    started = await run("dream", *PS)
    assert (started.code, started.out) == (
        0,
        "dream 1 of tobatsu/kamila is queued: the orchestrator starts it\n",
    )
    assert await db.fetchval("SELECT asked_by LIKE 'cli:%' FROM yume.dream_runs")
    cancelled = await told("cancel", *PS, 1, *WHY)
    assert cancelled == {
        "platform": "tobatsu",
        "series": "kamila",
        "dream": 1,
        "status": "cancelled",
        "was": "queued",
    }
    again = await run("cancel", *PS, 1, *WHY)
    assert (again.code, again.out) == (1, "")
    assert "there is nothing left to cancel" in again.err


async def test_a_dream_of_a_paused_series_says_that_it_waits(run, series):
    await run("series", "pause", *PS)
    assert "the series is paused" in (await run("dream", *PS)).out


async def test_only_a_parked_dream_is_resumed(run, rows, db, series):
    await rows.dream(series, "parked")
    assert "is queued again" in (await run("resume", *PS, 1)).out
    assert await db.fetchval("SELECT status FROM yume.dream_runs") == "queued"
    refused = await run("resume", *PS, 1)
    assert refused.code == 1
    assert "only a parked dream can be resumed" in refused.err


async def test_a_replay_is_queued_once_a_key_and_listed_with_its_original(run, told, rows, series):
    await rows.dream(series, "finished")
    for _ in range(2):
        made = await told("replay", *PS, 1, "--key", "k", "--no-wait")
        assert (made["dream"], made["of"], made["from"], made["applies"]) == (2, 1, "s1_pull", False)
    another = await told("replay", *PS, 2, "--no-wait")
    assert (another["dream"], another["of"]) == (3, 1)
    listed = await told("dreams", *PS)
    assert [(each["number"], each["trigger"], each["of"]) for each in listed] == [
        (1, "callback", None),
        (2, "replay", 1),
        (3, "replay", 1),
    ]
    table = (await run("dreams", *PS)).out.splitlines()
    assert table[0].split()[:4] == ["number", "trigger", "of", "status"]
    assert table[2].split()[:4] == ["2", "replay", "1", "queued"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((1, "--from", "s12"), "no step is named 's12'"),
        ((1, "--from", "s4"), "came no further than s0_requested"),
        ((9,), "has no dream 9"),
    ],
)
async def test_what_cannot_be_replayed_is_refused(run, rows, series, words, says):
    await rows.dream(series, "finished")
    ended = await run("replay", *PS, *words)
    assert (ended.code, ended.out) == (1, "")
    assert says in ended.err


async def test_a_replay_that_does_not_end_well_exits_with_1(run, rows, db, series):
    await rows.dream(series, "finished")
    await run("replay", *PS, 1, "--key", "k", "--no-wait")
    await run("cancel", *PS, 2, "--why", "no longer wanted")
    ended = await run("replay", *PS, 1, "--key", "k")
    assert ended.code == 1
    assert "dream 2 is cancelled: cancelled by cli:" in ended.err
    document = await run("replay", *PS, 1, "--key", "k", "--json")
    assert (document.code, json.loads(document.out)["status"]) == (1, "cancelled")


# Stored messages


@pytest.fixture
async def js(nats_url):
    async with jetstream.connect(nats_url, name="test") as connected:
        topology = load(contracts("streams"), replicas=1, ack_wait_s=30)
        await connected.apply(topology)
        yield connected
        for stream in topology.streams:
            await connected.client.request(f"$JS.API.STREAM.DELETE.{stream}", b"{}")


@pytest.fixture
def store(js):
    """Store a message as a dream's step consumes it, or whatever else stands in a body."""

    async def stored(dream, kind="dream.requested", series="kamila", body=None):
        batch = RunBatch(platform="tobatsu", series=series, dream_id=dream)
        sent = event(kind, batch, key=str(new_id()), at=NOW)
        await js.store_bytes(sent.subject, body or sent.to_bytes(), stream="dream", key=sent.id)

    return stored


async def test_each_dream_that_stored_messages_name_is_replayed_once(run, rows, series, store, nats_url):
    db = rows.db
    ended, another = await rows.dream(series, "finished"), await rows.dream(series, "finished")
    other = await rows.dream(await rows.series("mirai"), "finished")
    open_ = await rows.dream(series, "queued")
    for dream in (ended, ended, another, open_):
        await store(dream)
    await store(ended, body=b"no event at all")
    await store(new_id())
    await store(other, series="mirai")
    await store(ended, kind="dream.pulled")
    nats = {"nats_url": SecretStr(nats_url)}
    words = ("replay", "--subject", "yume.dream.requested.tobatsu.kamila", "--since", "2h", "--key", "k")
    done = await run(*words, **nats)
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines == [
        "tobatsu/kamila dream 4, a replay of 1 from s1_pull, is queued",
        "tobatsu/kamila dream 5, a replay of 2 from s1_pull, is queued",
        "2 queued, 0 skipped, 3 refused; key k",
    ]
    assert "tobatsu/kamila dream 3 is refused: dream 3 is queued" in done.err
    assert "message 5 is refused: it names no dream" in done.err
    assert "there is no dream" in done.err
    assert await db.fetchval("SELECT count(*) FROM yume.dream_runs WHERE trigger = 'replay'") == 2

    document = json.loads((await run(*words, "--json", **nats)).out)
    assert [each["dream"] for each in document["queued"]] == [4, 5]
    assert await db.fetchval("SELECT count(*) FROM yume.dream_runs WHERE trigger = 'replay'") == 2
    every = ("replay", "--subject", "yume.dream.requested.*.*", "--since", "2h", "--no-wait")
    assert "mirai dream 2, a replay of 1" in (await run(*every, **nats)).out
    since = ("replay", "--subject", "yume.dream.requested.>", "--since", "0s")
    assert (await run(*since, **nats)).out.startswith("0 queued, 0 skipped, 0 refused")


async def test_a_message_of_a_replay_is_skipped(run, rows, series, store, nats_url):
    db = rows.db
    await rows.dream(series, "finished")
    await run("replay", *PS, 1, "--no-wait")
    await store(await db.fetchval("SELECT id FROM yume.dream_runs WHERE number = 2"))
    words = ("replay", "--subject", "yume.dream.requested.tobatsu.kamila", "--since", "2h")
    done = await run(*words, nats_url=SecretStr(nats_url))
    assert done.code == 0
    assert "tobatsu/kamila dream 2 is skipped: it is a replay itself" in done.out
    assert "0 queued, 1 skipped, 0 refused" in done.out


@pytest.mark.parametrize(
    "subject",
    [
        "yume.dream.finished.tobatsu.kamila",
        "yume.task.finished.tobatsu.kamila",
        "yume.dream.requested",
        "yume.dream.requested.tobatsu",
        "yume.dream.requested.tobatsu.kamila.x",
        "yume.dream.requested.tobatsu.ka mila",
        "yume.dream.>",
        "yume.*.requested.tobatsu.kamila",
        "",
    ],
)
async def test_a_subject_that_no_step_consumes_is_refused(run, series, js, nats_url, subject):
    ended = await run("replay", "--subject", subject, "--since", "2h", nats_url=SecretStr(nats_url))
    assert ended.code == 1
    assert f"no step consumes the subject {subject!r}" in ended.err


# The slot


@pytest.fixture
async def written(db, rows, series):
    """A series that may write, with v1 and v2 written; v2 has a rule more, and an owner's one more."""
    await access.promote(db, series, "auto", by="ada", why="a test", now=NOW)
    rules = [await rows.lesson(series, origin="owner", state="approved") for _ in range(2)]
    for version in (1, 2):
        held = await rows.lesson_set(series, None, version, holds=tuple(rules[:version]))
        write = await rows.injection(series, held, kind="experiment")
        at = NOW + timedelta(hours=version)
        await effects.written(db, series.id, write, str(version), at)
    return rules


async def test_an_experiment_is_shown_with_what_it_leaves_out(run, told, series, written):
    start = ("experiment", "start", *PS, "--blocks", 6, "--seed", "s", *WHY)
    refused = await run(*start, "--washout-runs", 40)
    assert (refused.code, refused.out) == (1, "")
    assert "40 washout runs: a batch of 'kamila' has 40 at most, so 0 to 39 are allowed" in refused.err
    assert (await run(*start, "--washout-runs", 3)).code == 0
    shown = await run("experiment", "show", *PS)
    assert shown.out.startswith("switchback of 6 blocks, without the first 3 runs of a batch, seed s: 12 bat")
    assert (await told("experiment", "show", *PS))["washout_runs"] == 3
    assert (await run("experiment", "stop", *PS, *WHY)).code == 0
    assert (await run(*start)).out.startswith("switchback of 6 blocks, seed s: 12 batches to go")
    assert (await told("experiment", "show", *PS))["washout_runs"] == 0


async def test_a_preview_shows_the_text_what_changes_and_what_it_costs(run, told, rows, series, written):
    await rows.lesson(series, origin="owner", state="approved")
    shown = (await run("preview", *PS)).out
    assert "tobatsu/kamila: v2 -> v3," in shown
    assert "added:\n  + Look first." in shown
    assert "may be released now: no: v2 has 0 of 2 batches and 0 of 60 runs" in shown
    document = await told("preview", *PS)
    assert (document["from"], document["version"], document["changed"]) == (2, 3, True)
    assert (len(document["added"]), document["removed"], document["may_release"]) == (1, [], False)
    assert document["text"].splitlines()[-1] == "- Look first."


async def test_a_release_takes_now_and_a_reason_and_shows_its_price(run, rows, db, series, written):
    await rows.lesson(series, origin="owner", state="approved")
    shown = await run("release", *PS)
    assert shown.code == 1
    assert "v2 -> v3" in shown.out
    assert "that takes --now and --why" in shown.err
    assert await db.fetchval("SELECT count(*) FROM yume.dream_runs") == 0
    done = await run("release", *PS, "--now", *WHY)
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "price: v2 has 0 of 2 batches and 0 of 60 runs",
            "tobatsu/kamila: the release is queued as dream 1",
        ],
    )
    assert await db.fetchval("SELECT trigger = 'release' AND forced FROM yume.dream_runs")


async def test_a_series_that_only_reports_releases_nothing(run, told, rows, series):
    await rows.lesson(series, origin="owner", state="approved")
    assert (await told("preview", *PS))["why_not"] == "the series only reports"
    refused = await run("release", *PS, "--now", *WHY)
    assert refused.code == 1
    assert "only reports: nothing is written" in refused.err


async def test_a_dry_rollback_names_what_would_go_and_changes_nothing(run, told, db, series, written):
    shown = (await run("rollback", *PS, "--dry-run")).out
    assert shown.splitlines()[0] == "the slot of tobatsu/kamila would go from v2 to v1"
    assert "would go, though they are the owner's:\n  - Look first." in shown
    document = await told("rollback", *PS, "--dry-run")
    assert (document["from"], document["to"], document["approved"]) == (2, 1, [])
    assert [(each["id"], each["origin"]) for each in document["retired"]] == [(str(written[1]), "owner")]
    assert await db.fetchval("SELECT count(*) FROM yume.injections WHERE status = 'pending'") == 0
    refused = await run("rollback", *PS, "--to", 7, "--dry-run")
    assert refused.code == 1
    assert "the slot never held v7; it held v1, v2" in refused.err


@pytest.mark.parametrize("words", [("rollback", *PS, *WHY), ("kill", *PS, *WHY), ("series", "adopt", *PS)])
async def test_a_command_that_nobody_carries_out_says_so_and_stays_asked_for(
    run, db, written, monkeypatch, words
):
    monkeypatch.setattr(operate, "PATIENCE_S", 0.1)
    monkeypatch.setattr(operate, "CONNECT_S", 0.1)
    with capture_logs() as logged:
        ended = await run(*words, nats_url=SecretStr("nats://127.0.0.1:1"))
    assert (ended.code, ended.out) == (1, "")
    assert [each["error"] for each in logged if each["event"] == "call_failed"] == [
        "NATS cannot be reached within 0.1 s: is the server up? See YUME_NATS_URL"
    ]
    assert "not carried out within 0.1 s: is S8's worker up" in ended.err
    assert await db.fetchval("SELECT count(*) FROM yume.injections WHERE status = 'pending'") == 1


# The whole


async def test_status_shows_each_series_in_a_line(run, told, rows, series, written):
    await rows.series("mirai")
    await rows.dream(series, "finished")
    await rows.dream(series, "collecting")
    shown = (await run("status")).out.splitlines()
    assert shown[0].split() == [*COLUMNS]
    kamila = shown[1]
    assert "tobatsu/kamila" in kamila
    assert "auto" in kamila
    assert "v2 for" in kamila
    assert "1 finished" in kamila
    assert "tobatsu/mirai" in shown[2]
    assert shown[4:] == [
        "NATS: YUME_NATS_URL is not set",
        "nobody is late: no row tells of a part that is down",
    ]
    document = await told("status")
    assert [each["series"] for each in document["series"]] == ["kamila", "mirai"]
    assert document["nats"] == {"error": "YUME_NATS_URL is not set"}


async def test_status_shows_what_lies_in_nats(run, told, js, store, nats_url):
    await store(new_id(), kind="dream.classified")
    await js.store_bytes("yume.dead.tasks.x", b"-", stream="dead", key="d")
    shown = (await run("status", nats_url=SecretStr(nats_url))).out
    assert "dead letters: 1: see `yume dead list`\nbacklog: s4_draft 1\n" in shown
    nats = (await told("status", nats_url=SecretStr(nats_url)))["nats"]
    assert (nats["dead"], nats["backlog"]["s4_draft"], nats["backlog"]["s5_merge"]) == (1, 1, 0)


async def test_status_shows_the_rows_where_nats_does_not_answer(run, series, monkeypatch):
    monkeypatch.setattr(operate, "CONNECT_S", 0.1)
    shown = await run("status", nats_url=SecretStr("nats://127.0.0.1:1"))
    assert shown.code == 0
    assert "NATS: NATS cannot be reached" in shown.out
    assert "tobatsu/kamila" in shown.out


async def test_status_names_who_is_late(run, rows, series):
    await rows.dream(series, "queued")  # at an instant long ago
    assert "silent: tobatsu/kamila: dream 1 could start" in (await run("status")).out


async def test_no_series_name_steers_the_terminal(run, rows):
    await rows.series(NASTY)
    for words in (
        ("status",),
        ("series", "show", "tobatsu", NASTY),
        ("series", "list"),
        ("dream", "tobatsu", NASTY),
    ):
        for form in ((), ("--json",)):
            ended = await run(*words, *form)
            assert ended.code == 0
            assert all(line.isprintable() for line in ended.out.splitlines()), words
            assert "gone" in ended.out
