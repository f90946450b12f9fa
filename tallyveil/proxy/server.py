"""The asyncio server: what its connections share, cancel requests, and a clean shutdown.

Its listener accepts the clients.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tallyveil.catalog import CatalogSocket
from tallyveil.events import report
from tallyveil.gate import GateSession
from tallyveil.proxy.admission.auth import Authentication, Trust
from tallyveil.proxy.admission.failures import FailedLogins
from tallyveil.proxy.admission.login import LoginRequest
from tallyveil.proxy.admission.port_listener import (
    PendingLogins,
    PortListener,
    check_address,
    is_loopback,
)
from tallyveil.proxy.admission.server_limits import ServerLimits
from tallyveil.proxy.admission.tls import Tls
from tallyveil.proxy.client_connection import ClientConnection
from tallyveil.proxy.client_memory import ConnectionMemory, ServerMemory
from tallyveil.proxy.client_socket import IDLE_LOOKS
from tallyveil.proxy.execution.replies import Replies
from tallyveil.proxy.housekeeping import Housekeeping, beside_long
from tallyveil.proxy.interruption import CancelKeys, Interruption, worker_of
from tallyveil.proxy.protocol_errors import AdminShutdown
from tallyveil.proxy.scheduler import Scheduler
from tallyveil.proxy.turns import Turns

if TYPE_CHECKING:
    from tallyveil.proxy.processes import WorkerListener

__all__ = ["Server", "SessionFactory"]

SessionFactory = Callable[[str, str], GateSession]
"""Opens the session of a user on a database; may block, and may raise a TallyveilError."""

GRACE: Final = 2.0
"""Seconds that a closing server waits for its clients."""
JOIN: Final = 0.5
"""Seconds that it then waits for the threads that still run statements."""

STACK: Final = 16 << 20

_SHUTDOWN: Final = AdminShutdown("terminating connection due to administrator command")


class Server:
    """A PostgreSQL server whose sessions ``session_factory`` opens; port 0 takes any free port.

    It opens the port itself unless a ``listener`` gives it its clients.

    ``auth`` and ``tls`` may be replaced while it runs; clients that log in afterwards use the
    replacement.

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
        self.auth: Authentication = auth if auth is not None else Trust()
        self.tls = tls
        self.catalog = catalog
        self.limits = limits if limits is not None else ServerLimits()
        if not allow_insecure:
            check_address(host, self.auth, tls)
        self._insecure: Final = allow_insecure
        self.open_session: Final = session_factory
        self.host = host
        self._listener: Final = listener or PortListener(host, port, self.limits)
        self._keys: Final = CancelKeys(self._listener.worker)
        # Half of the time to log in remains after the longest delay.
        self.failures: Final = FailedLogins(self.limits.startup_timeout / 2)
        self._pending: Final = PendingLogins(self.limits.max_waiting)
        self._connections: set[ClientConnection] = set()
        self._closed: asyncio.Event | None = None
        self._closing = False
        # Python's recursion limit refuses deeply nested statements, if the C stack is large enough.
        # 2 MiB suffice, but some systems give a thread only a quarter of that. This sets the size
        # for all threads of the process.
        threading.stack_size(max(threading.stack_size(), STACK))
        turns = Turns(self.limits.heavy, self._tidy, beside_long)
        self.workers = Scheduler(self.limits.threads, self.limits.analyst_threads, turns)
        self._housekeeping = Housekeeping(lambda: turns.heavy)
        self.replies = Replies()
        self.memory = ServerMemory(self.limits.memory, self._tidy)

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

    def _tidy(self) -> None:
        self._housekeeping.due()

    def _stop_workers(self) -> None:
        self._housekeeping.close()
        # The workers still close the sessions that are queued.
        self.workers.stop()

    # What connections ask, on the event loop

    def opened(self, connection: ClientConnection, address: str) -> bool:
        """Register a socket from ``address``. Returns False if there is no place for it."""
        if self._closing:
            return False
        if not self._pending.add(connection, address):
            return False
        self._connections.add(connection)
        return True

    def entered(self, connection: ClientConnection) -> None:
        """The connection's client has logged in."""
        self._pending.discard(connection)

    def lost(self, connection: ClientConnection, pid: int, user: str) -> None:
        """The connection has ended; ``pid`` is its process id, or 0 if it was never admitted."""
        self._connections.discard(connection)
        self._pending.discard(connection)
        self._listener.left(user if self._keys.take_back(pid) else None)

    # What conversations ask, on worker threads (cancel: on the event loop)

    def holding(self) -> ConnectionMemory:
        """A counter of the memory that the server occupies for one connection."""
        return ConnectionMemory(self.memory, self.limits.connection_memory)

    def needs_tls(self, address: str) -> bool:
        """Whether a client at this address may log in only over TLS."""
        optional = self._insecure and self.tls is None
        # A client without an address is on this machine.
        return bool(address) and not optional and not is_loopback(address)

    def admit(self, interruption: Interruption, request: LoginRequest) -> tuple[int, bytes, str]:
        """Admit a client. Returns its process id and secret for cancel requests, and the name of
        its database in the catalogs.

        Raises TooManyConnections.
        """
        database = self._listener.admit(request.user, request.database)
        return *self._keys.give(interruption, request.key_size), database

    def cancel(self, pid: int, secret: bytes) -> None:
        """Forward a cancel request to its connection, if it has that connection's secret."""
        if worker_of(pid) == self._listener.worker:
            self._cancel_own(pid, secret)
        else:
            self._listener.cancel(pid, secret)

    def _cancel_own(self, pid: int, secret: bytes) -> None:
        interruption = self._keys.find(pid, secret)
        if interruption is not None:
            interruption.cancel()
            self.workers.hurry(interruption)
