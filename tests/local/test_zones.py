"""Each zone's process gets the environment that its steps need, and no other zone's secret."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from yume.local.zones import ZONES, command, environment
from yume.pipeline import STAGES
from yume.settings import Settings

SETTINGS = Settings(
    database_url=SecretStr("postgresql://db"),
    nats_url=SecretStr("nats://nats"),
    archive_url="s3://bucket/prefix",
    archive_secret_key=SecretStr("archive-secret"),
    secret_keys=SecretStr("credentials-key"),
)


@pytest.mark.parametrize(
    ("zone", "archive", "credentials"),
    [
        ("ingest", True, True),
        ("dream", True, False),
        ("gate", False, False),
        ("slot", True, True),
        ("measure", False, False),
        ("orchestrator", False, False),
        ("api", False, False),
    ],
)
def test_a_zone_sees_the_secrets_of_its_holdings_and_no_others(zone, archive, credentials):
    values = environment(SETTINGS, zone)
    assert ("archive-secret" in values.values()) == archive
    assert ("credentials-key" in values.values()) == credentials
    assert values["YUME_DATABASE_URL"] == "postgresql://db"


def test_yumes_own_variables_of_the_parent_do_not_leak_into_a_zone(monkeypatch):
    monkeypatch.setenv("YUME_SECRET_KEYS", "from-the-parent")
    assert "YUME_SECRET_KEYS" not in environment(SETTINGS, "dream")


def test_zones_do_not_fight_for_one_health_port():
    settings = SETTINGS.model_copy(update={"health_port": 28080})
    assert not any("28080" in environment(settings, zone).values() for zone in ZONES)


def test_the_settings_survive_the_way_through_the_environment(monkeypatch):
    for name, value in environment(SETTINGS, "slot").items():
        monkeypatch.setenv(name, value)
    assert Settings() == SETTINGS.model_copy(update={"data_dir": SETTINGS.data_dir.absolute()})


def test_the_processes_together_serve_every_step_once():
    served = [name for zone in ZONES for name in command(zone) if name in {stage.name for stage in STAGES}]
    assert served == [stage.name for stage in STAGES]
