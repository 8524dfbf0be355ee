"""What a step may touch: opened once a process, made for its trust zone, passed explicitly, never global."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import SecretStr

from yume.clients.answers import Remembering
from yume.clients.archive import Archive, open_archive
from yume.clients.http import Limits
from yume.clients.model import Model
from yume.clients.platform import Export, Slot, open_export, open_slot
from yume.clients.rules import Rules
from yume.clients.vault import Vault, key_in
from yume.errors import PermanentError
from yume.settings import Settings
from yume.store.access import Platform
from yume.store.database import Database, open_database

Zone = Literal["ingest", "dream", "gate", "slot", "measure", "orchestrator", "api", "cli"]
Holding = Literal["archive", "export", "slot", "model"]

# What each zone holds besides its connection to Postgres. The model steps hold no platform's credential; the
# archive is there for their answers, so that what was answered once is not asked again.
HOLDINGS: Final[Mapping[Zone, frozenset[Holding]]] = {
    "ingest": frozenset({"archive", "export"}),
    "dream": frozenset({"archive", "model"}),
    "gate": frozenset(),
    "slot": frozenset({"archive", "slot"}),
    "measure": frozenset(),
    "orchestrator": frozenset(),
    "api": frozenset(),
    "cli": frozenset({"archive"}),
}


def now() -> datetime:
    """Read the clock: the only place in Yume that does."""
    return datetime.now(UTC)  # noqa: TID251  # this is that place


@dataclass(frozen=True, slots=True)
class Resources:
    """The database, the clock, and what else the zone holds; asking for anything else is refused."""

    zone: Zone
    db: Database
    limits: Limits
    allow_http: bool
    held_archive: Archive | None = None
    held_model: Model | None = None
    vault: Vault | None = field(default=None, repr=False)

    def now(self) -> datetime:
        """Read the clock."""
        return now()

    @property
    def archive(self) -> Archive:
        """Return the archive of raw run records and model answers."""
        if self.held_archive is None:
            raise PermanentError(f"zone {self.zone} holds no archive")
        return self.held_archive

    @property
    def model(self) -> Model:
        """Return who answers the questions of S3, S4 and S5."""
        if self.held_model is None:
            raise PermanentError(f"zone {self.zone} holds no model")
        return self.held_model

    def export(self, platform: Platform) -> AbstractAsyncContextManager[Export]:
        """Open a platform's run export; only S1's zone can."""
        token = self._credential("export", platform.export_credential, platform.id)
        return open_export(platform.base_url, token, limits=self.limits, allow_http=self.allow_http)

    def slot(self, platform: Platform) -> AbstractAsyncContextManager[Slot]:
        """Open a platform's lesson slots; only S8's zone can."""
        token = self._credential("slot", platform.slot_credential, platform.id)
        empty = bool(platform.capabilities.get("not_found_is_empty", False))
        return open_slot(
            platform.base_url, token, not_found_is_empty=empty, limits=self.limits, allow_http=self.allow_http
        )

    def _credential(self, name: Holding, sealed: bytes | None, platform: str) -> SecretStr:
        if self.vault is None or name not in HOLDINGS[self.zone]:
            raise PermanentError(f"zone {self.zone} holds no {name} credential")
        return self.vault.open(sealed, f"the {name} token of platform {platform!r}")


@asynccontextmanager
async def open_resources(settings: Settings, zone: Zone) -> AsyncGenerator[Resources]:
    """Open what the zone holds, and close it again."""
    if settings.database_url is None:
        raise PermanentError(
            "YUME_DATABASE_URL is not set: name one, or start `yume up`, which brings its own"
        )
    holdings = HOLDINGS[zone]
    async with AsyncExitStack() as stack:
        db = await stack.enter_async_context(
            open_database(settings.database_url.get_secret_value(), size=settings.database_pool)
        )
        archive = await stack.enter_async_context(archive_of(settings)) if "archive" in holdings else None
        yield Resources(
            zone=zone,
            db=db,
            limits=Limits(max_response_bytes=settings.platform_max_response_bytes),
            allow_http=settings.platform_allow_http,
            held_archive=archive,
            held_model=None if archive is None or "model" not in holdings else Remembering(model(), archive),
            vault=vault_of(settings) if holdings & {"export", "slot"} else None,
        )


def model() -> Model:
    """Return who answers the three questions."""
    return Rules()


def archive_of(settings: Settings) -> AbstractAsyncContextManager[Archive]:
    """Open the archive that the settings name, or the folder of the embedded default."""
    url = settings.archive_url or (settings.data_dir.absolute() / "archive").as_uri()
    access_key = settings.archive_access_key
    return open_archive(
        url,
        endpoint=settings.archive_endpoint,
        access_key=None if access_key is None else access_key.get_secret_value(),
        secret_key=settings.archive_secret_key,
        region=settings.archive_region,
    )


def vault_of(settings: Settings) -> Vault:
    """Return the vault of the keys that the settings list, or of the key in the data folder."""
    return Vault(settings.secret_keys or key_in(settings.data_dir))
