"""What a zone does not hold cannot be asked of its resources, whatever the code of a step says."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from yume.clients.answers import Remembering
from yume.clients.http import Limits
from yume.clients.rules import Rules
from yume.clients.vault import Vault
from yume.errors import PermanentError
from yume.ids import PlatformId
from yume.resources import HOLDINGS, Resources, open_resources
from yume.settings import Settings
from yume.store.access import Platform
from yume.store.database import Database

KEY = SecretStr("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")


def resources(zone):
    return Resources(zone, Database(None), Limits(), allow_http=True, vault=Vault(KEY))


def platform():
    sealed = Vault(KEY).seal(SecretStr("token"))
    return Platform(PlatformId("practice"), "http://127.0.0.1:1", sealed, sealed, {})


@pytest.mark.parametrize("zone", [zone for zone in HOLDINGS if zone != "ingest"])
def test_only_the_zone_of_s1_can_open_the_export(zone):
    with pytest.raises(PermanentError, match=f"zone {zone} holds no export credential"):
        resources(zone).export(platform())


@pytest.mark.parametrize("zone", [zone for zone in HOLDINGS if zone != "slot"])
def test_only_the_zone_of_s8_can_open_a_slot(zone):
    with pytest.raises(PermanentError, match=f"zone {zone} holds no slot credential"):
        resources(zone).slot(platform())


async def test_the_zones_that_hold_a_credential_can_use_it():
    async with resources("ingest").export(platform()), resources("slot").slot(platform()):
        pass


def test_the_model_steps_hold_no_platform_credential():
    assert not HOLDINGS["dream"] & {"export", "slot"}


async def test_the_model_steps_hold_a_model_that_remembers_and_no_vault(migrated_url, tmp_path):
    settings = Settings(data_dir=tmp_path, database_url=SecretStr(migrated_url), secret_keys=KEY)
    async with open_resources(settings, "dream") as held:
        assert held.model == Remembering(Rules(), held.archive)
        assert held.vault is None
    async with open_resources(settings, "slot") as held:
        assert held.held_model is None
        assert held.vault is not None


@pytest.mark.parametrize("zone", ["ingest", "gate", "slot", "measure", "orchestrator", "api"])
def test_no_other_zone_has_a_model(zone):
    assert "model" not in HOLDINGS[zone]
    with pytest.raises(PermanentError, match="holds no model"):
        _ = resources(zone).model
