"""Credentials at rest: encrypted with the newest key, readable with any that is still listed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import SecretStr

from yume.errors import PermanentError

_PRIVATE: Final = 0o600


class Vault:
    """Seals and opens the credentials of `platforms`."""

    def __init__(self, keys: SecretStr) -> None:
        names = [key.strip() for key in keys.get_secret_value().split(",") if key.strip()]
        try:
            self._fernet = MultiFernet([Fernet(name) for name in names])
        except ValueError as error:
            raise PermanentError(
                f"YUME_SECRET_KEYS holds {len(names)} keys, not all are Fernet keys (44 characters of base64)"
            ) from error

        # Names the newest key without telling it.
        self.name = hashlib.sha256(f"yume {names[0]}".encode()).hexdigest()[:12]

    def seal(self, secret: SecretStr) -> bytes:
        """Encrypt with the newest key."""
        return self._fernet.encrypt(secret.get_secret_value().encode())

    def open(self, sealed: bytes | None, what: str) -> SecretStr:
        """Decrypt; `what` names the credential in errors."""
        if sealed is None:
            raise PermanentError(f"{what} is not set: give it with `yume platform add`")
        try:
            return SecretStr(self._fernet.decrypt(sealed).decode())
        except InvalidToken as error:
            raise PermanentError(
                f"{what} was sealed with a key that YUME_SECRET_KEYS no longer lists: add it at the end"
            ) from error


def key_in(folder: Path) -> SecretStr:
    """Return the key kept in the embedded data folder; it is made once, readable by its owner alone."""
    file = folder / "secret.key"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError:
        return SecretStr(file.read_text().strip())
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(Fernet.generate_key())
    return SecretStr(file.read_text().strip())
