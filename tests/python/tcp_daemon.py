"""A tvarantd that serves TCP with mutual TLS on loopback, for tests."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support import Daemon

REPOSITORY = Path(__file__).parents[2]


@functools.cache
def certificates() -> Path:
    """A folder with the files of an authority made for this run."""
    folder = Path(tempfile.mkdtemp(prefix="tvc"))
    script = REPOSITORY / "deploy" / "certificates.sh"
    hosts = "localhost,127.0.0.1,10.77.0.2"
    subprocess.run([script, folder, hosts, "alice", "bob"], check=True)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class TcpDaemon(Daemon):
    """Serves `endpoint`; `env` sends a client there as user alice."""

    def __init__(
        self,
        *options: str,
        port: int = 0,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        self.host, self.port = host, port or free_port()
        files = certificates()
        super().__init__(
            f"--listen-tcp={host}:{self.port}",
            f"--tls-cert={files}/daemon.pem",
            f"--tls-key={files}/daemon.key",
            f"--tls-client-ca={files}/ca.pem",
            *options,
            prefix=prefix,
        )

    @property
    def endpoint(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        return {"TVARANT_ENDPOINT": self.endpoint, **identity("alice")}


def identity(user: str) -> dict[str, str]:
    """Environment of a client that the daemon's authority knows as `user`."""
    files = certificates()
    return {
        "TVARANT_TLS_CA": os.fspath(files / "ca.pem"),
        "TVARANT_TLS_CERT": os.fspath(files / f"{user}.pem"),
        "TVARANT_TLS_KEY": os.fspath(files / f"{user}.key"),
    }
