"""Everything that differs between two deployments. Read once, in `yume/cli.py`, and nowhere else."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from yume.errors import PermanentError
from yume.logs import LogFormat, LogLevel

PREFIX = "YUME_"
MIB = 1024 * 1024

Replicas = Annotated[Literal[1, 3, 5], BeforeValidator(int)]
Seconds = Annotated[float, Field(ge=1, le=3600)]


class Settings(BaseSettings):
    """Each field is an environment variable: `YUME_` and the field's name in capitals."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore", allow_inf_nan=False
    )

    data_dir: Path = Field(
        Path(".yume"), description="folder of the embedded servers, the archive and the secret key"
    )
    database_url: SecretStr | None = Field(
        None, description="Postgres; without it an embedded server is started"
    )
    nats_url: SecretStr | None = Field(
        None, description="NATS with JetStream; without it an embedded one is started"
    )
    archive_url: str | None = Field(
        None,
        description="run records: `file:///folder` or `s3://bucket/prefix`; else a folder in the data folder",
    )
    archive_endpoint: str | None = Field(
        None, description="the S3 service's URL, such as R2's; only with `s3://`"
    )
    archive_region: str = Field("auto", description="the S3 region")
    archive_access_key: SecretStr | None = Field(None, description="the S3 access key")
    archive_secret_key: SecretStr | None = Field(None, description="the S3 secret key")
    secret_keys: SecretStr | None = Field(
        None,
        description="Fernet keys of the credentials at rest, newest first, comma between; "
        "without them one is made in the data folder",
    )
    model: Literal["rules"] = Field(
        "rules", description="who answers S3, S4 and S5; `rules` is deterministic code"
    )
    platform_allow_http: bool = Field(
        default=False, description="let a platform on loopback be reached over plain http"
    )
    platform_max_response_bytes: int = Field(
        64 * MIB, ge=MIB, le=1024 * MIB, description="the largest answer of a platform that is read"
    )
    stream_replicas: Replicas = Field(1, description="copies of each stream that NATS keeps")
    ack_wait_s: Seconds = Field(30, description="silence after which NATS hands a message to another worker")
    sweep_every_s: Seconds = Field(2, description="how often the orchestrator looks for what is due")
    heal_every_s: Seconds = Field(
        10, description="how often the orchestrator restores missing streams and consumers"
    )
    stall_after_s: Annotated[float, Field(ge=5, le=86400)] = Field(
        120, description="silence of a running dream after which its step is announced again"
    )
    release_after_s: Annotated[float, Field(ge=0, le=86400)] = Field(
        300, description="how long a series' lessons have to be left alone before a release of them opens"
    )
    database_pool: int = Field(6, ge=2, le=100, description="connections a process holds to Postgres at most")
    api_port: int = Field(0, ge=0, le=65535, description="loopback port of the API; 0 takes a free one")
    health_port: int | None = Field(
        None, ge=0, le=65535, description="loopback port on which a worker serves /livez and /readyz"
    )
    log_format: LogFormat = Field("console", description="`console` or `json`")
    log_level: LogLevel = Field("info", description="`debug`, `info`, `warning` or `error`")


def contracts(folder: Literal["streams", "schemas"]) -> Path:
    """Return where a contract folder lies: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).parent
    beside = package.parent / folder
    return beside if beside.is_dir() else package / "contracts" / folder


def load() -> Settings:
    """Read the environment; an unknown name and a value that cannot be are refused, with the reason."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    environment = os.environ  # noqa: TID251  # this is the place that reads it
    if unknown := sorted(name for name in environment if name.startswith(PREFIX) and name not in known):
        nearest = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else "; the README lists those that there are"
        raise PermanentError(f"{unknown[0]} is no setting{hint}")
    try:
        return Settings()
    except ValidationError as error:
        reasons = "; ".join(
            f"{PREFIX}{'.'.join(str(part) for part in fault['loc']).upper()}: {fault['msg']}"
            for fault in error.errors()
        )
        raise PermanentError(f"{error.error_count()} settings are refused: {reasons}") from error


def inherited() -> Mapping[str, str]:
    """Return this process's environment without Yume's own variables: what a child process may start from."""
    environment = os.environ  # noqa: TID251  # this is the place that reads it
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
