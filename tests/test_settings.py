from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from yume import settings
from yume.errors import PermanentError
from yume.settings import MIB, PREFIX, Settings

README = Path(__file__).parents[1] / "README.md"
ROW = re.compile(rf"^\|\s*`({PREFIX}\w+)`\s*\|\s*(.*?)\s*\|\s*(.*?)\s*\|\s*$", re.MULTILINE)
NAMES = {PREFIX + name.upper(): name for name in Settings.model_fields}


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """Begin without any of Yume's variables."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def shown(default: object) -> str:
    """Return a default as the table shows it."""
    if default is None:
        return "-"
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return f"`{default}`"


def test_every_setting_is_a_row_of_the_readmes_table_and_no_row_is_none():
    rows = ROW.findall(README.read_text("utf-8"))
    assert len(rows) == len({name for name, _, _ in rows})
    assert {name: default for name, default, _ in rows} == {
        name: shown(Settings.model_fields[field].default) for name, field in NAMES.items()
    }
    assert all(meaning for _, _, meaning in rows)


def test_every_setting_says_what_it_means():
    assert all(field.description for field in Settings.model_fields.values())


def test_nothing_has_to_be_set():
    found = settings.load()
    assert all(getattr(found, name) == field.default for name, field in Settings.model_fields.items())


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("DATA_DIR", "/srv/yume", Path("/srv/yume")),
        ("ACK_WAIT_S", "1", 1),
        ("ACK_WAIT_S", "3600", 3600),
        ("SWEEP_EVERY_S", "2.5", 2.5),
        ("STALL_AFTER_S", "5", 5),
        ("DATABASE_POOL", "2", 2),
        ("STREAM_REPLICAS", "3", 3),
        ("PLATFORM_MAX_RESPONSE_BYTES", str(MIB), MIB),
        ("PLATFORM_ALLOW_HTTP", "true", True),
        ("API_PORT", "65535", 65535),
        ("HEALTH_PORT", "0", 0),
        ("LOG_FORMAT", "json", "json"),
        ("LOG_LEVEL", "debug", "debug"),
    ],
)
def test_a_value_within_the_bounds_is_taken(monkeypatch, name, value, read):
    monkeypatch.setenv(PREFIX + name, value)
    assert getattr(settings.load(), name.lower()) == read


SECONDS = ("ACK_WAIT_S", "SWEEP_EVERY_S", "HEAL_EVERY_S", "STALL_AFTER_S")
NUMBERS = (*SECONDS, "DATABASE_POOL", "PLATFORM_MAX_RESPONSE_BYTES", "STREAM_REPLICAS")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "-inf", "1e12", "many", "1,5"])
def test_a_number_that_would_switch_a_guard_off_is_refused_by_name(monkeypatch, name, value):
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(PermanentError, match=f"{PREFIX}{name}: "):
        settings.load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODEL", "none"),
        ("MODEL", "gpt"),
        ("LOG_LEVEL", "silent"),
        ("LOG_FORMAT", "xml"),
        ("STREAM_REPLICAS", "2"),
        ("STREAM_REPLICAS", "4"),
        ("DATABASE_POOL", "1"),  # the orchestrator and its handlers would wait for one another
        ("DATABASE_POOL", "101"),
        ("PLATFORM_MAX_RESPONSE_BYTES", str(2**30 + 1)),
        ("PLATFORM_ALLOW_HTTP", "perhaps"),
        ("API_PORT", "65536"),
        ("HEALTH_PORT", "-1"),
    ],
)
def test_any_other_value_that_is_no_settings_is_refused_by_name(monkeypatch, name, value):
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(PermanentError, match=f"1 settings are refused: {PREFIX}{name}: "):
        settings.load()


def test_all_refused_settings_are_named_at_once_and_their_values_are_not_repeated(monkeypatch):
    monkeypatch.setenv("YUME_API_PORT", "hunter2")
    monkeypatch.setenv("YUME_ACK_WAIT_S", "correct horse")
    with pytest.raises(PermanentError, match="2 settings are refused") as refusal:
        settings.load()
    told = str(refusal.value)
    assert "YUME_API_PORT" in told
    assert "YUME_ACK_WAIT_S" in told
    assert "hunter2" not in told
    assert "correct horse" not in told


@pytest.mark.parametrize("name", ["DATABASE_URL", "NATS_URL", "ARCHIVE_SECRET_KEY", "SECRET_KEYS"])
def test_an_empty_variable_is_an_unset_one(monkeypatch, name):
    monkeypatch.setenv(PREFIX + name, "")
    assert getattr(settings.load(), name.lower()) is None


@pytest.mark.parametrize(
    "name", ["DATABASE_URL", "NATS_URL", "ARCHIVE_ACCESS_KEY", "ARCHIVE_SECRET_KEY", "SECRET_KEYS"]
)
def test_a_secret_is_shown_nowhere(monkeypatch, name):
    monkeypatch.setenv(PREFIX + name, "postgresql://u:hunter2@db/yume")
    found = settings.load()
    assert "hunter2" not in f"{found!r} {found} {found.model_dump_json()}"
    assert "hunter2" in getattr(found, name.lower()).get_secret_value()


def test_settings_never_change():
    with pytest.raises(ValidationError):
        settings.load().ack_wait_s = math.inf


def test_a_child_inherits_everything_but_yumes_own_variables(monkeypatch):
    monkeypatch.setenv("YUME_SECRET_KEYS", "hunter2")
    monkeypatch.setenv("OTHER", "kept")
    inherited = settings.inherited()
    assert inherited["OTHER"] == "kept"
    assert not [name for name in inherited if name.startswith(PREFIX)]


@pytest.mark.parametrize(
    ("folder", "file"), [("streams", "dream.json"), ("schemas", "postgres/0001_tables.sql")]
)
def test_a_contract_folder_is_found(folder, file):
    assert (settings.contracts(folder) / file).is_file()


def test_a_misspelt_setting_is_refused_with_the_name_that_was_meant(monkeypatch):
    monkeypatch.setenv("YUME_DATABSE_URL", "postgresql://u:hunter2@db/yume")
    with pytest.raises(
        PermanentError, match=r"YUME_DATABSE_URL is no setting; did you mean YUME_DATABASE_URL\?"
    ) as refused:
        settings.load()
    assert "hunter2" not in str(refused.value)
