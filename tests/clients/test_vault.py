"""Credentials at rest: sealed with the newest key, opened with any listed one, never in a message."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from yume.clients.vault import Vault, key_in
from yume.errors import PermanentError

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()
TOKEN = "an-export-token"


def test_what_was_sealed_opens_again_and_is_not_readable_in_between():
    vault = Vault(SecretStr(NEW))
    sealed = vault.seal(SecretStr(TOKEN))
    assert TOKEN.encode() not in sealed
    assert vault.open(sealed, "it").get_secret_value() == TOKEN


def test_a_key_is_rotated_by_listing_the_new_one_first():
    sealed = Vault(SecretStr(OLD)).seal(SecretStr(TOKEN))
    both = Vault(SecretStr(f"{NEW}, {OLD}"))
    assert both.open(sealed, "it").get_secret_value() == TOKEN
    assert Vault(SecretStr(NEW)).open(both.seal(SecretStr(TOKEN)), "it").get_secret_value() == TOKEN


def test_a_key_that_is_no_longer_listed_is_named_as_the_reason():
    sealed = Vault(SecretStr(OLD)).seal(SecretStr(TOKEN))
    with pytest.raises(PermanentError, match=r"the slot token .* no longer lists") as refused:
        Vault(SecretStr(NEW)).open(sealed, "the slot token of platform 'tobatsu'")
    assert TOKEN not in str(refused.value)


def test_a_credential_that_was_never_given_is_named():
    with pytest.raises(PermanentError, match=r"the slot token is not set"):
        Vault(SecretStr(NEW)).open(None, "the slot token")


@pytest.mark.parametrize("keys", ["short", f"{NEW},short", ""], ids=["short", "one is", "none"])
def test_a_key_that_is_none_is_refused_without_showing_it(keys):
    with pytest.raises(PermanentError, match="YUME_SECRET_KEYS") as refused:
        Vault(SecretStr(keys))
    assert NEW not in str(refused.value)


def test_the_embedded_key_is_made_once_and_is_its_owners_alone(tmp_path: Path):
    first = key_in(tmp_path / "data")
    assert key_in(tmp_path / "data").get_secret_value() == first.get_secret_value()
    assert stat.S_IMODE((tmp_path / "data" / "secret.key").stat().st_mode) == 0o600
