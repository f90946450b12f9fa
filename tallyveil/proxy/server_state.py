"""What the connections of a server share: who may log in, places, memory, threads, cancel keys."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tallyveil.catalog import CatalogSocket
from tallyveil.gate import GateSession
from tallyveil.proxy.admission.auth import Authentication
from tallyveil.proxy.admission.failures import FailedLogins
from tallyveil.proxy.admission.login_request import LoginRequest
from tallyveil.proxy.admission.port_listener import (
    OpenConnection,
    PendingLogins,
    PortListener,
    is_loopback,
)
from tallyveil.proxy.admission.server_limits import ServerLimits
from tallyveil.proxy.admission.tls import Tls
from tallyveil.proxy.client_memory import ConnectionMemory, ServerMemory
from tallyveil.proxy.execution.replies import Replies
from tallyveil.proxy.housekeeping import Housekeeping, beside_long
from tallyveil.proxy.interruption import CancelKeys, Interruption, worker_of
from tallyveil.proxy.processes.worker_listener import WorkerListener
from tallyveil.proxy.scheduler import Scheduler
from tallyveil.proxy.turns import Turns

__all__ = ["ServerState", "SessionFactory"]

SessionFactory = Callable[[str, str], GateSession]
"""Opens the session of a user on a database; may block, and may raise a TallyveilError."""

STACK: Final = 16 << 20


class ServerState:
    """The state that the connections of one server share.

    ``auth`` and ``tls`` may be replaced while it runs; clients that log in afterwards use the
    replacement.
    """

    def __init__(
        self,
        session_factory: SessionFactory,
        listener: PortListener | WorkerListener,
        *,
        auth: Authentication,
        tls: Tls | None,
        limits: ServerLimits,
        allow_insecure: bool,
        catalog: CatalogSocket | None,
    ) -> None:
        self.auth = auth
        self.tls = tls
        self.catalog = catalog
        self.limits = limits
        self.open_session: Final = session_factory
        # Half of the time to log in remains after the longest delay.
        self.failures: Final = FailedLogins(limits.startup_timeout / 2)
        # Python's recursion limit refuses deeply nested statements, if the C stack is large enough.
        # 2 MiB suffice, but some systems give a thread only a quarter of that. This sets the size
        # for all threads of the process.
        threading.stack_size(max(threading.stack_size(), STACK))
        turns = Turns(limits.heavy, self._tidy, beside_long, self._watch)
        self.workers = Scheduler(limits.threads, limits.analyst_threads, turns)
        self.replies = Replies()
        self.memory = ServerMemory(limits.memory, self._tidy)
        self._housekeeping = Housekeeping(lambda: turns.busy)
        self._insecure: Final = allow_insecure
        self._listener: Final = listener
        self._keys: Final = CancelKeys(listener.worker)
        self._pending: Final = PendingLogins(limits.max_waiting)
        self._connections: set[OpenConnection] = set()
        self._closing = False

    def _tidy(self) -> None:
        self._housekeeping.due()

    def _watch(self) -> None:
        self._housekeeping.watch()

    # What connections ask, on the event loop

    def opened(self, connection: OpenConnection, address: str) -> bool:
        """Register a socket from ``address``. Returns False if there is no place for it."""
        if self._closing:
            return False
        if not self._pending.add(connection, address):
            return False
        self._connections.add(connection)
        return True

    def entered(self, connection: OpenConnection) -> None:
        """The connection's client has logged in."""
        self._pending.discard(connection)

    def lost(self, connection: OpenConnection, pid: int, user: str) -> None:
        """The connection has ended; ``pid`` is its process id, or 0 if it was never admitted."""
        self._connections.discard(connection)
        self._pending.discard(connection)
        self._listener.left()
        if self._keys.take_back(pid):
            self._listener.slots.give(user)

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
        database = self._listener.slots.take(request.user, request.database)
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
