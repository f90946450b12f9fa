from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallyveil.proxy import Server, ServerLimits, ServerThread, Tls, self_sign
from tests.proxy.fake_session import Sessions


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def server(sessions: Sessions) -> Iterator[Server]:
    """A server on a free port, trusting everybody, with small bounds."""
    limits = ServerLimits(startup_timeout=5, close_timeout=2, max_connections=8, max_waiting=8)
    running = Server(sessions, port=0, limits=limits)
    with ServerThread(running):
        yield running


@pytest.fixture
def dsn(server: Server) -> str:
    return f"postgresql://alice@127.0.0.1:{server.port}/demo"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of this machine, with its key beside it."""
    path = tmp_path_factory.mktemp("tls") / "server.crt"
    self_sign(path, path.with_suffix(".key"), "127.0.0.1")
    return path


@pytest.fixture(scope="session")
def tls(certificate: Path) -> Tls:
    return Tls(certificate, certificate.with_suffix(".key"))
