"""The asyncio server: it begins, closes idle connections, and shuts down cleanly.

Its listener accepts the clients.
"""

from __future__ import annotations

import asyncio
from typing import Final

from tallyveil.catalog import CatalogSocket
from tallyveil.events import report
from tallyveil.proxy.admission.auth import Authentication, Trust
from tallyveil.proxy.admission.port_listener import PortListener, check_address
from tallyveil.proxy.admission.server_limits import ServerLimits
from tallyveil.proxy.admission.tls import Tls
from tallyveil.proxy.client_connection import ClientConnection
from tallyveil.proxy.client_socket import IDLE_LOOKS
from tallyveil.proxy.processes import WorkerListener
from tallyveil.proxy.protocol_errors import AdminShutdown
from tallyveil.proxy.server_state import ServerState, SessionFactory

__all__ = ["Server", "SessionFactory"]

GRACE: Final = 2.0
"""Seconds that a closing server waits for its clients."""
JOIN: Final = 0.5
"""Seconds that it then waits for the threads that still run statements."""

_SHUTDOWN: Final = AdminShutdown("terminating connection due to administrator command")


class Server(ServerState):
    """A PostgreSQL server whose sessions ``session_factory`` opens; port 0 takes any free port.

    It opens the port itself unless a ``listener`` gives it its clients.

    ``catalog`` answers questions about the catalogs; without it the gate refuses them.

    Raises InsecureAddress if other machines can reach the address and TLS or users are missing,
    unless ``allow_insecure`` declares that the network is closed.
    """

    def __init__(
        self,
        session_factory: SessionFactory,
        host: str = "127.0.0.1",
        port: int = 5432,
        *,
        auth: Authentication | None = None,
        tls: Tls | None = None,
        limits: ServerLimits | None = None,
        allow_insecure: bool = False,
        listener: PortListener | WorkerListener | None = None,
        catalog: CatalogSocket | None = None,
    ) -> None:
        auth, limits = auth or Trust(), limits or ServerLimits()
        if not allow_insecure:
            check_address(host, auth, tls)
        super().__init__(
            session_factory,
            listener or PortListener(host, port, limits),
            auth=auth,
            tls=tls,
            limits=limits,
            allow_insecure=allow_insecure,
            catalog=catalog,
        )
        self.host = host
        self._closed: asyncio.Event | None = None

    # Starting and stopping

    async def start(self) -> None:
        """Listen. Raises OSError if it cannot listen on the address."""
        loop = asyncio.get_running_loop()
        await self._listener.open(lambda: ClientConnection(self, loop), self._cancel_own)
        self._closed = asyncio.Event()
        self._housekeeping.start()
        self._look_for_idle(loop)
        report("listening", host=self.host, port=self.port, tls=self.tls is not None)

    @property
    def port(self) -> int:
        """The port that the server listens on. Raises RuntimeError before `start`."""
        return self._listener.port

    async def serve_forever(self) -> None:
        """Return after `close` was called and has finished."""
        if self._closed is None:
            await self.start()
        if self._closed is not None:
            await self._closed.wait()

    async def close(self) -> None:
        """Stop listening, cancel all statements, send every client an error (57P01), and wait for
        the clients, at most `GRACE` seconds."""
        if self._closed is None:
            self._stop_workers()
            return
        self._closing = True
        report("closing", connections=len(self._connections))
        self._listener.close()
        ending = [connection.closed for connection in self._connections]
        for connection in tuple(self._connections):
            connection.stop(_SHUTDOWN)
        if ending:
            # Twice the timeout: once for the client to read the error, once to close its session.
            await asyncio.wait(ending, timeout=min(2 * self.limits.close_timeout, GRACE))
        self._stop_workers()
        # A session reports its end a moment before its thread ends.
        await asyncio.to_thread(self.workers.join, JOIN)
        report("closed")
        self._closed.set()

    def _look_for_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check for idle connections at intervals, so that no statement needs a timer."""
        timeout = self.limits.idle_timeout
        if timeout is None or self._closing:
            return
        for connection in tuple(self._connections):
            connection.look()
        loop.call_later(timeout / IDLE_LOOKS, self._look_for_idle, loop)

    @property
    def busy(self) -> bool:
        """Whether statements are still running."""
        return self.workers.busy

    def _stop_workers(self) -> None:
        self._housekeeping.close()
        # The workers still close the sessions that are queued.
        self.workers.stop()
