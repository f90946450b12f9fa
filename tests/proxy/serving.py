"""A server for one test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tallyveil.proxy import Server, ServerLimits, ServerThread, Tls

__all__ = ["serving"]


@contextmanager
def serving(
    sessions: Callable[[str, str], Any], *, tls: Tls | None = None, auth: Any = None, **limits: Any
) -> Iterator[int]:
    """Its port, a free one; it trusts everybody unless told otherwise."""
    chosen = ServerLimits(**{"startup_timeout": 5, "close_timeout": 1} | limits)
    server = Server(sessions, port=0, limits=chosen, tls=tls, auth=auth)
    with ServerThread(server):
        yield server.port
