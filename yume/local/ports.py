"""A loopback port that a server keeps over its restarts."""

from __future__ import annotations

import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Say whether a server could listen on this port now; connections that linger do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a port that nobody listens on; somebody else may take it before you do."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def remembered_port(folder: Path) -> int | None:
    """Return the port that `remember_port` wrote, or None if there is none or somebody else listens on it."""
    try:
        port = int((folder / "port").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return port if is_free(port) else None


def remember_port(folder: Path, port: int) -> None:
    """Write the port down for the next start on this folder."""
    (folder / "port").write_text(f"{port}\n")
