"""The asyncio server: what its connections share, cancel requests, and stopping in order.

Where its clients come in is for its entrance to say.
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
from tallyveil.proxy.admission.entrance import HalfOpen, Listening, check_address, is_loopback
from tallyveil.proxy.admission.limits import ServerLimits
from tallyveil.proxy.admission.login import LoginRequest
from tallyveil.proxy.admission.tls import Tls
from tallyveil.proxy.connection import ClientConnection
from tallyveil.proxy.errors import AdminShutdown
from tallyveil.proxy.execution.replies import Replies
from tallyveil.proxy.housekeeping import Housekeeping, beside_heavy
from tallyveil.proxy.interruption import CancelKeys, Interruption, worker_of
from tallyveil.proxy.line import IDLE_LOOKS
from tallyveil.proxy.memory import ConnectionMemory, ServerMemory
from tallyveil.proxy.scheduler import Scheduler
from tallyveil.proxy.turns import Turns

if TYPE_CHECKING:
    from tallyveil.proxy.processes import Assigned

__all__ = ["Server", "SessionFactory"]

SessionFactory = Callable[[str, str], GateSession]
"""From user and database to their session; may block, and may refuse with a TallyveilError."""

GRACE: Final = 2.0
"""Seconds a server that is closed waits for its clients."""
JOIN: Final = 0.5
"""And then for the threads of what runs for them."""

STACK: Final = 16 << 20

_SHUTDOWN: Final = AdminShutdown("terminating connection due to administrator command")


class Server:
    """A PostgreSQL server in front of ``session_factory``; port 0 takes any free one.

    It listens itself unless its clients come in by another ``entrance``.

    ``auth`` and ``tls`` may be exchanged while it runs, and hold for who logs in from then on.

    ``catalog`` answers questions about the catalogs; without it the gate refuses them.

    Raises InsecureAddress for an address reachable from elsewhere without TLS and users, unless
    ``allow_insecure`` says that the network is closed.
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
        entrance: Listening | Assigned | None = None,
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
        self._entrance: Final = entrance or Listening(host, port, self.limits)
        self._keys: Final = CancelKeys(self._entrance.worker)
        self._half_open: Final = HalfOpen(self.limits.max_waiting)
        self._connections: set[ClientConnection] = set()
        self._closed: asyncio.Event | None = None
        self._closing = False
        # Nested statements are refused by the depth of Python's stack, if that of C is deep enough:
        # 2 MiB do, of which some systems give a thread a quarter. It is set for the process.
        threading.stack_size(max(threading.stack_size(), STACK))
        turns = Turns(self.limits.heavy, self._tidy, beside_heavy)
        self.workers = Scheduler(self.limits.threads, self.limits.analyst_threads, turns)
        self._housekeeping = Housekeeping(lambda: turns.heavy)
        self.replies = Replies()
        self.memory = ServerMemory(self.limits.memory, self._tidy)

    # Starting and stopping

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        await self._entrance.open(lambda: ClientConnection(self, loop), self._cancel_own)
        self._closed = asyncio.Event()
        self._housekeeping.start()
        self._look_for_idle(loop)
        report("listening", host=self.host, port=self.port, tls=self.tls is not None)

    @property
    def port(self) -> int:
        """The port listened on. Raises RuntimeError before `start`."""
        return self._entrance.port

    async def serve_forever(self) -> None:
        """Return when `close` has been called and everything has come to its end."""
        if self._closed is None:
            await self.start()
        if self._closed is not None:
            await self._closed.wait()

    async def close(self) -> None:
        """Stop listening, cancel what runs, tell every client (57P01), and wait for them, `GRACE`
        seconds at most."""
        if self._closed is None:
            self._stop_workers()
            return
        self._closing = True
        report("closing", connections=len(self._connections))
        self._entrance.close()
        ending = [connection.closed for connection in self._connections]
        for connection in tuple(self._connections):
            connection.stop(_SHUTDOWN)
        if ending:
            # Twice: once to let the client read its farewell, once for its session to close.
            await asyncio.wait(ending, timeout=min(2 * self.limits.close_timeout, GRACE))
        self._stop_workers()
        # A session says that it has ended a moment before its thread has.
        await asyncio.to_thread(self.workers.join, JOIN)
        report("closed")
        self._closed.set()

    def _look_for_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Now and again, so that a statement needs no timer of its own."""
        timeout = self.limits.idle_timeout
        if timeout is None or self._closing:
            return
        for connection in tuple(self._connections):
            connection.look()
        loop.call_later(timeout / IDLE_LOOKS, self._look_for_idle, loop)

    @property
    def busy(self) -> bool:
        """Whether statements run on."""
        return self.workers.busy

    def _tidy(self) -> None:
        self._housekeeping.due()

    def _stop_workers(self) -> None:
        self._housekeeping.close()
        # What is left to do is closing sessions; let it happen.
        self.workers.stop()

    # What connections ask, on the event loop

    def opened(self, connection: ClientConnection, address: str) -> bool:
        """A socket from ``address``. False if there is no place for one more."""
        if self._closing:
            return False
        if not self._half_open.add(connection, address):
            return False
        self._connections.add(connection)
        return True

    def entered(self, connection: ClientConnection) -> None:
        """Its client has logged in."""
        self._half_open.discard(connection)

    def lost(self, connection: ClientConnection, pid: int, user: str) -> None:
        """It has ended; ``pid`` is the process id that it was let in with, 0 before that."""
        self._connections.discard(connection)
        self._half_open.discard(connection)
        self._entrance.left(user if self._keys.take_back(pid) else None)

    # What conversations ask, on worker threads (cancel: on the event loop)

    def holding(self) -> ConnectionMemory:
        """A count of what the server keeps for one connection."""
        return ConnectionMemory(self.memory, self.limits.connection_memory)

    def needs_tls(self, address: str) -> bool:
        """Whether a client at this address may log in over TLS alone."""
        optional = self._insecure and self.tls is None
        # Without an address it is a socket of this machine.
        return bool(address) and not optional and not is_loopback(address)

    def admit(self, interruption: Interruption, request: LoginRequest) -> tuple[int, bytes, str]:
        """A place: the process id and secret to cancel by, and the catalogs' database.

        Raises TooManyConnections.
        """
        database = self._entrance.admit(request.user, request.database)
        return *self._keys.give(interruption, request.key_size), database

    def cancel(self, pid: int, secret: bytes) -> None:
        """Pass a cancel request on, if it names a connection and knows its secret."""
        if worker_of(pid) == self._entrance.worker:
            self._cancel_own(pid, secret)
        else:
            self._entrance.cancel(pid, secret)

    def _cancel_own(self, pid: int, secret: bytes) -> None:
        interruption = self._keys.find(pid, secret)
        if interruption is not None:
            interruption.cancel()
            self.workers.hurry(interruption)
