from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# The helpers beside this file, under names of their own: importlib mode adds no folder to the path.
for _name in ("fake_session", "raw_client", "talk"):
    _spec = importlib.util.spec_from_file_location(
        f"proxy_{_name}", Path(__file__).with_name(f"{_name}.py")
    )
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_spec.name] = _module
    _spec.loader.exec_module(_module)

from collections.abc import Iterator  # noqa: E402

import pytest  # noqa: E402
from proxy_fake_session import Sessions  # noqa: E402

from tallyveil.proxy import Limits, Server, ServerThread  # noqa: E402


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def server(sessions: Sessions) -> Iterator[Server]:
    """A server on a free port, trusting everybody, with small bounds."""
    limits = Limits(startup_timeout=5, close_timeout=2, max_connections=8, max_waiting=8)
    running = Server(sessions, port=0, limits=limits)
    with ServerThread(running):
        yield running


@pytest.fixture
def dsn(server: Server) -> str:
    return f"postgresql://alice@127.0.0.1:{server.port}/demo"
