"""The run archive: raw records and raw model answers, written once, in a folder or on S3 or R2."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from yume.clients.folder import FolderArchive
from yume.clients.objects import LostEvidence
from yume.clients.s3 import S3Archive, open_s3, s3_config
from yume.errors import PermanentError

__all__ = ["Archive", "FolderArchive", "LostEvidence", "S3Archive", "describe", "open_archive", "s3_config"]

_FORMS: Final = "file:///absolute/folder or s3://bucket/prefix?endpoint=https://…&region=auto"
_ANY_REGION: Final = "auto"  # R2's and SeaweedFS's; AWS has none of this name


class Archive(Protocol):
    """Holds bytes under keys like `runs/kamila/42.json`."""

    async def put(self, key: str, data: bytes, /) -> None:
        """Store the bytes; the same again is fine, others under a taken key raise LostEvidence."""
        ...

    async def get(self, key: str, /) -> bytes:
        """Return the bytes that were put, or raise LostEvidence."""
        ...

    async def find(self, key: str, /) -> bytes | None:
        """Return the bytes that were put, or None if nothing was; changed ones raise LostEvidence."""
        ...


@asynccontextmanager
async def open_archive(
    url: str,
    *,
    endpoint: str | None = None,
    access_key: str | None = None,
    secret_key: SecretStr | None = None,
    region: str | None = None,
) -> AsyncIterator[Archive]:
    """Yield the archive of a `file:` or `s3:` URL; `endpoint` and `region` win over those in the URL."""
    place = _place(url)
    if isinstance(place, Path):
        yield FolderArchive(place)
        return
    endpoint, region = endpoint or place.endpoint, region or place.region
    if not access_key or secret_key is None or not secret_key.get_secret_value():
        raise PermanentError(
            f"{describe(url)} needs an access key and a secret key, as settings of their own"
        )
    if endpoint is None and region == _ANY_REGION:
        raise PermanentError(f"{describe(url)} needs an endpoint (R2 and others) or a region (AWS)")
    async with open_s3(
        place.bucket,
        place.prefix,
        endpoint=None if endpoint is None else _checked_endpoint(endpoint),
        access_key=access_key,
        secret_key=secret_key,
        region=region,
    ) as archive:
        yield archive


def describe(url: str) -> str:
    """Return what may be printed of an archive's URL: never user, password or unknown parameters."""
    place = _place(url)
    if isinstance(place, Path):
        return place.as_uri()
    shown = f"s3://{place.bucket}/{place.prefix}".rstrip("/")
    return f"{shown} at {place.endpoint}" if place.endpoint else shown


@dataclass(frozen=True, slots=True)
class _Bucket:
    bucket: str
    prefix: str
    endpoint: str | None
    region: str


def _place(url: str) -> Path | _Bucket:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise PermanentError(f"the archive's URL cannot be read: give {_FORMS}") from error
    if "@" in parts.netloc:
        raise PermanentError(
            f"the archive's URL carries credentials: they are settings of their own; give {_FORMS}"
        )
    match parts.scheme:
        case "file" if not parts.netloc and not parts.query and parts.path.startswith("/"):
            return Path(unquote(parts.path))
        case "s3" if parts.netloc and not parts.fragment:
            return _bucket(parts)
        case _:
            raise PermanentError(
                f"an archive of scheme {parts.scheme!r} in this form is unknown: give {_FORMS}"
            )


def _bucket(parts: SplitResult) -> _Bucket:
    query = dict(parse_qsl(parts.query))
    unknown = sorted(query.keys() - {"endpoint", "region"})
    if unknown:
        raise PermanentError(f"the archive's URL has unknown parameters {', '.join(unknown)}: give {_FORMS}")
    endpoint = query.get("endpoint")
    return _Bucket(
        bucket=parts.netloc,
        prefix=unquote(parts.path).strip("/"),
        endpoint=None if endpoint is None else _checked_endpoint(endpoint),
        region=query.get("region", _ANY_REGION),
    )


def _checked_endpoint(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and parts.hostname and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable:
        raise PermanentError("the archive's endpoint is not http(s)://host[:port] without credentials")
    return endpoint
