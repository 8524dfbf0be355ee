"""The run archive on S3 or R2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as ConnectionFailed
from pydantic import SecretStr

from yume.clients.objects import LostEvidence, checked_key, missing, sha256_of, taken
from yume.errors import PermanentError, TransientError, YumeError

_FORBIDDEN: Final = 403
_NOT_IMPLEMENTED: Final = 501
_PRECONDITION_FAILED: Final = 412
_TRY_AGAIN: Final = frozenset({408, 409, 429})  # 409: two conditional writes at once, and every 5xx but 501


@dataclass(frozen=True, slots=True)
class S3Archive:
    """Write-once objects under `prefix`; each carries its sha256, since R2 refuses S3's checksum headers."""

    client: Any
    bucket: str
    prefix: str = ""

    async def put(self, key: str, data: bytes, /) -> None:
        """Store the bytes; the same again is fine, others under a taken key are refused."""
        name = self._name(key)
        with self._translated(f"put {name}"):
            try:
                await self.client.put_object(
                    Bucket=self.bucket,
                    Key=name,
                    Body=data,
                    Metadata={"sha256": sha256_of(data)},
                    IfNoneMatch="*",
                )
            except ClientError as error:
                if _status(error) != _PRECONDITION_FAILED:
                    raise
                there = await self.get(key)
                if there != data:
                    raise taken(name, there=there, data=data, place=self._place) from error

    async def get(self, key: str, /) -> bytes:
        """Return the bytes that were put, or raise LostEvidence where they are missing or changed."""
        data = await self.find(key)
        if data is None:
            raise missing(self._name(key), place=self._place)
        return data

    async def find(self, key: str, /) -> bytes | None:
        """Return the bytes that were put, or None; the key has to be allowed to list the bucket for that."""
        from aiohttp import ClientError as BrokenStream  # noqa: PLC0415  # half a second; loaded with the client

        name = self._name(key)
        with self._translated(f"get {name}"):
            try:
                answer = await self.client.get_object(Bucket=self.bucket, Key=name)
            except ClientError as error:
                if _code(error) != "NoSuchKey":
                    raise
                return None
            try:
                async with answer["Body"] as stream:
                    data: bytes = await stream.read()
            except (BrokenStream, IncompleteReadError) as error:
                raise TransientError(f"{self._place}: {name} came only in part") from error
        stated, found = answer["Metadata"].get("sha256"), sha256_of(data)
        if stated != found:
            raise LostEvidence(
                f"{self._place}: {name} was put as sha256 {stated}, it is now {found}: evidence has changed"
            )
        return data

    @property
    def _place(self) -> str:
        return f"bucket {self.bucket}"

    def _name(self, key: str) -> str:
        return checked_key(f"{self.prefix}/{key}" if self.prefix else key)

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            raise self._refusal(error, doing) from error
        except (ConnectionFailed, HTTPClientError) as error:
            raise TransientError(f"{self._place}, {doing}: no answer, {error}") from error
        except BotoCoreError as error:
            raise PermanentError(f"{self._place}, {doing}: {error}") from error

    def _refusal(self, error: ClientError, doing: str) -> YumeError:
        status, code = _status(error), _code(error)
        said = f"{self._place}, {doing}: answered {status} {code}"
        if code == "NoSuchBucket":
            return PermanentError(f"{said}: create the bucket, or correct its name in the archive's URL")
        if status == _FORBIDDEN:
            return PermanentError(
                f"{said}: check the access key, its secret, this machine's clock, "
                "and that the key may read and write this bucket's objects and list them "
                "(without the list, S3 answers 403 for an object that is not there)"
            )
        if status in _TRY_AGAIN or (status >= 500 and status != _NOT_IMPLEMENTED):  # noqa: PLR2004  # 5xx
            return TransientError(said)
        return PermanentError(said)


def _code(error: ClientError) -> str:
    code: str = error.response.get("Error", {}).get("Code", "")
    return code


def _status(error: ClientError) -> int:
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status


def s3_config() -> Any:
    """Return the client settings under which R2 works; over plain http no test would notice their loss.

    By default botocore sends a checksum trailer over https, which R2 answers with 501 or a misleading 401.
    """
    from botocore.config import Config  # noqa: PLC0415  # half a second

    return Config(
        signature_version="s3v4",
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path"},
        retries={"max_attempts": 4, "mode": "standard"},
        connect_timeout=5,
        read_timeout=60,
        ignore_configured_endpoint_urls=True,
    )


@asynccontextmanager
async def open_s3(
    bucket: str, prefix: str, *, endpoint: str | None, access_key: str, secret_key: SecretStr, region: str
) -> AsyncIterator[S3Archive]:
    """Yield the archive with a client of its own; no request is made yet."""
    import aioboto3  # noqa: PLC0415  # 1.6 s that only a process with an S3 archive should pay

    async with aioboto3.Session().client(
        "s3",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key.get_secret_value(),
        config=s3_config(),
    ) as client:
        yield S3Archive(client, bucket, prefix)
