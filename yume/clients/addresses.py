"""Where a platform may be: its base URL, and outside ids inside its paths."""

from __future__ import annotations

import ipaddress
from urllib.parse import quote, urlsplit

from yume.errors import PermanentError


def checked_base_url(url: str, *, allow_http: bool) -> str:
    """Return the URL without a trailing slash: https, or http to loopback where the operator allows it."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError as error:
        raise PermanentError(
            "the platform's base URL cannot be read: give https://host[:port][/path]"
        ) from error
    shown = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}".rstrip("/")
    if "@" in parts.netloc:
        raise PermanentError(f"{shown}: a base URL carries no credentials; the token is a setting of its own")
    if parts.query or parts.fragment or not host or parts.scheme not in {"http", "https"}:
        raise PermanentError(f"{shown!r} is no base URL: give https://host[:port][/path] without ? and #")
    if parts.scheme == "http" and not (allow_http and is_loopback(url)):
        raise PermanentError(
            f"{shown} would send the token in the clear: use https "
            "(plain http is for loopback only, and only with YUME_PLATFORM_ALLOW_HTTP=true)"
        )
    return shown


def path_segment(value: str) -> str:
    """Percent-encode an outside id, so that it stays one segment; lone surrogates are sent as they are."""
    if value in {"", ".", ".."}:
        raise PermanentError(
            f"the id {value!r} cannot stand in a URL's path: every server reads it as a step"
        )
    return quote(value, safe="", errors="surrogatepass")


def is_loopback(url: str) -> bool:
    """Say whether the URL names this machine, without resolving anything."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(url: str) -> str:
    """Return the host an outside URL names; empty for a relative one."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return "an address that cannot be read"
