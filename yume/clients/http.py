"""One platform behind one token: what is sent, how much may come back, and what each refusal means.

Every answer of a platform passes `Wire.send`: the one place where httpx's errors, HTTP statuses and broken
bodies become `TransientError` or `PermanentError`.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlencode

import httpx
from pydantic import SecretStr

from yume.clients.addresses import checked_base_url, host_of, is_loopback
from yume.clients.bodies import deeper_than, parse, read_body
from yume.domain.text import clean
from yume.errors import PermanentError, TransientError, YumeError

_TRY_AGAIN: Final = frozenset({408, 425, 429})  # and every 5xx
_UNAUTHORISED: Final = frozenset({401, 403})
_LONGEST_WAIT: Final = timedelta(days=1)  # a dream's own deadline: nobody waits longer
_QUOTED_CHARACTERS: Final = 200
_REFUSAL_BYTES: Final = 4096


class Refused(PermanentError):  # noqa: N818  # its base says Error, its name says what happened
    """The platform answered with a 4xx `status` that no retry changes."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(PermanentError):  # noqa: N818  # says what happened, as Refused does
    """An answer is longer or deeper than Yume reads; who asked may leave out the one record and go on."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one platform may cost; sizes count after decompression and over all pages of one listing."""

    max_response_bytes: int = 64 * 2**20
    max_nesting: int = 100  # what is read must also be writable: json.dumps recurses
    max_pages: int = 10_000
    at_once: int = 8
    connect_s: float = 5
    read_s: float = 30
    total_s: float = 120  # a body that drips never trips read_s


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that was asked for: `value` is its JSON, None where an expected refusal carried none."""

    where: str
    status: int
    value: Any
    size: int

    def object(self) -> dict[str, Any]:
        """Return the value where an object is due."""
        if not isinstance(self.value, dict):
            raise TransientError(f"{self.where} answered {self.status} with JSON that is no object")
        return self.value


class Wire:
    """Sends requests with one platform's token; the token appears in no message and no repr."""

    def __init__(
        self,
        base_url: str,
        token: SecretStr,
        *,
        token_name: str,
        client: httpx.AsyncClient,
        limits: Limits,
        version: str,
    ) -> None:
        self.base_url = base_url
        self.limits = limits
        self._token = _checked_token(token, token_name)
        self._token_name = token_name
        self._client = client
        self._user_agent = f"yume/{version}"
        self._at_once = asyncio.Semaphore(limits.at_once)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Iterable[tuple[str, str]] = (),
        body: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        expected: AbstractSet[int] = frozenset(),
        spent_bytes: int = 0,
    ) -> Reply:
        """Return a 2xx with its JSON, or a refusal whose status is in `expected`; everything else raises."""
        where = f"{method} {self.base_url}{path}"
        request = self._request(method, path, query, body, idempotency_key)
        async with self._at_once:
            try:
                async with asyncio.timeout(self.limits.total_s):
                    return await self._exchange(request, where, expected, spent_bytes)
            except TimeoutError as error:
                raise TransientError(f"{where} took longer than {self.limits.total_s:g} s") from error
            except httpx.TimeoutException as error:
                raise TransientError(f"{where}: {type(error).__name__}, the platform is silent") from error
            except httpx.LocalProtocolError as error:
                raise PermanentError(f"{where} cannot be sent: {self._excerpt(str(error))}") from error
            except httpx.RequestError as error:
                why = f"{type(error).__name__} {self._excerpt(str(error))}".rstrip()
                raise TransientError(f"{where}: no answer, {why}") from error

    def _request(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]],
        body: Mapping[str, Any] | None,
        idempotency_key: str | None,
    ) -> httpx.Request:
        parameters = urlencode(list(query), errors="surrogatepass")
        headers = {
            "Authorization": f"Bearer {self._token.get_secret_value()}",
            "User-Agent": self._user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "gzip",  # the one that can be unpacked with a bound
        }
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            return self._client.build_request(
                method,
                f"{self.base_url}{path}" + (f"?{parameters}" if parameters else ""),
                content=None if body is None else json.dumps(body).encode(),
                headers=headers,
                timeout=httpx.Timeout(self.limits.read_s, connect=self.limits.connect_s),
            )
        except httpx.InvalidURL as error:
            raise PermanentError(f"{method} {self.base_url}{path[:80]}: {error}") from error

    async def _exchange(
        self, request: httpx.Request, where: str, expected: AbstractSet[int], spent_bytes: int
    ) -> Reply:
        response = await self._client.send(request, stream=True, auth=None, follow_redirects=False)
        try:
            status = response.status_code
            if not response.is_success and status not in expected:
                beginning = b""
                with suppress(YumeError):  # the status counts, whatever became of its body
                    beginning, _ = await read_body(response, _REFUSAL_BYTES, where)
                raise self._refusal(response, beginning, where)
            data, whole = await read_body(response, self.limits.max_response_bytes - spent_bytes, where)
            if not whole:
                raise TooLarge(f"{where} is larger than {self.limits.max_response_bytes} bytes")
        finally:
            await response.aclose()
        if response.is_success:
            return Reply(where, status, self._json(data, where, status), len(data))
        with suppress(YumeError):  # an expected 404 may well be a page of HTML
            return Reply(where, status, self._json(data, where, status), len(data))
        return Reply(where, status, None, len(data))

    def _json(self, data: bytes, where: str, status: int) -> Any:
        try:
            value = parse(data)
        except RecursionError as error:
            raise TooLarge(f"{where} is JSON nested too deep to be read") from error
        except ValueError as error:
            # A gateway's page in front of a healthy platform: it passes, and the worker's tries are counted.
            said = self._excerpt(data[:_REFUSAL_BYTES].decode(errors="replace"))
            raise TransientError(f"{where} answered {status} without JSON: {said!r}") from error
        if deeper_than(value, self.limits.max_nesting):
            raise TooLarge(f"{where} is JSON nested deeper than {self.limits.max_nesting} levels")
        return value

    def _refusal(self, response: httpx.Response, beginning: bytes, where: str) -> YumeError:
        status = response.status_code
        said = f"{where} answered {status}: {self._excerpt(beginning.decode(errors='replace'))!r}"
        if status in _TRY_AGAIN or response.is_server_error:
            return TransientError(said, retry_in=retry_after(response.headers))
        if not response.is_client_error:
            target = self._excerpt(host_of(response.headers.get("Location", "")) or "another path of its own")
            return PermanentError(
                f"{where} answered {status} and redirects to {target}; no redirect is followed: "
                "give the platform's final address as its base URL"
            )
        if status in _UNAUTHORISED:
            said += (
                f"; check the {self._token_name}: is it the right one, unexpired, with the rights it needs?"
            )
        return Refused(said, status=status)

    def _excerpt(self, text: str) -> str:
        text = clean(text).replace(self._token.get_secret_value(), "***")
        return " ".join(re.sub(r"(?i)\bbearer\s+\S+", "Bearer ***", text).split())[:_QUOTED_CHARACTERS]


class WireOptions(TypedDict, total=False):
    """What a wire may be given besides its address and token."""

    client: httpx.AsyncClient  # stays open; without it the wire has one of its own
    limits: Limits
    allow_http: bool  # plain http to loopback
    version: str  # of Yume, for the User-Agent; default: the installed one


@asynccontextmanager
async def open_wire(
    base_url: str, token: SecretStr, *, token_name: str, **options: Unpack[WireOptions]
) -> AsyncIterator[Wire]:
    """Yield a wire; its own client never takes loopback through a proxy.

    A check of the address that a name resolves to belongs into the transport of that client.
    """
    base_url = checked_base_url(base_url, allow_http=options.get("allow_http", False))
    limits = options.get("limits", DEFAULT_LIMITS)
    version = options.get("version") or _installed_version()
    async with AsyncExitStack() as stack:
        client = options.get("client")
        if client is None:
            pool = httpx.Limits(max_connections=limits.at_once)
            own = httpx.AsyncClient(limits=pool, trust_env=not is_loopback(base_url))
            client = await stack.enter_async_context(own)
        yield Wire(base_url, token, token_name=token_name, client=client, limits=limits, version=version)


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Read Retry-After, in seconds or as a date (by the platform's own Date); at most one day."""
    value = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return min(timedelta(seconds=int(value)), _LONGEST_WAIT)
    try:
        wait = parsedate_to_datetime(value) - parsedate_to_datetime(headers["Date"])
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, timedelta()), _LONGEST_WAIT)


def _checked_token(token: SecretStr, token_name: str) -> SecretStr:
    """Refuse here what a header cannot carry: the HTTP library would quote the token in its error."""
    if re.fullmatch(r"[\x21-\x7e]+", token.get_secret_value()) is None:
        raise PermanentError(f"the {token_name} is empty or holds a space or a character outside ASCII")
    return token


def _installed_version() -> str:
    try:
        return importlib.metadata.version("yume")
    except importlib.metadata.PackageNotFoundError:
        return "0"
