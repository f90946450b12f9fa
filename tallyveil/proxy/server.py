"""The asyncio server: listens, counts, passes cancel requests on, and stops in order.

From beyond the loopback interface it takes TLS alone, and it refuses to listen there without TLS
and users unless told that this is meant.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import math
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tallyveil.events import report
from tallyveil.gate.interface import Session
from tallyveil.proxy.auth import Authentication, Trust
from tallyveil.proxy.connection import Connection
from tallyveil.proxy.errors import TooManyConnections
from tallyveil.proxy.housekeeping import Housekeeping
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.limits import Limits
from tallyveil.proxy.line import IDLE_LOOKS
from tallyveil.proxy.memory import Holding, Memory
from tallyveil.proxy.replies import Replies
from tallyveil.proxy.scheduler import Scheduler
from tallyveil.proxy.tls import Tls
from tallyveil.proxy.turns import Turns

__all__ = ["InsecureAddress", "Server", "SessionFactory"]

SessionFactory = Callable[[str, str], Session]
"""From user and database to their session; may block, and may refuse with a TallyveilError."""

GRACE: Final = 2.0
"""Seconds a server that is closed waits for its clients."""
JOIN: Final = 0.5
"""And then for the threads of what runs for them."""

STACK: Final = 16 << 20

_log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. Names other than localhost are not asked."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class InsecureAddress(ValueError):
    """Listening there would let others in, or read what passes."""


def _check_host(host: str, auth: Authentication, tls: Tls | None) -> None:
    missing = ["TLS"] * (tls is None) + ["users"] * isinstance(auth, Trust)
    if missing and not is_loopback(host):
        raise InsecureAddress(
            f"listening on {host!r}, which other machines can reach, needs {' and '.join(missing)}"
        )


class Server:
    """A PostgreSQL server in front of ``session_factory``; port 0 takes any free one.

    ``auth`` and ``tls`` may be exchanged while it runs, and hold for who logs in from then on.

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
        limits: Limits | None = None,
        allow_insecure: bool = False,
    ) -> None:
        self.auth: Authentication = auth if auth is not None else Trust()
        self.tls = tls
        self.limits = limits if limits is not None else Limits()
        if not allow_insecure:
            _check_host(host, self.auth, tls)
        self._insecure: Final = allow_insecure
        self.open_session: Final = session_factory
        self.host = host
        self._requested_port = port
        self._lock = threading.Lock()
        self._keys: dict[int, tuple[bytes, Interruption]] = {}
        self._users: Counter[str] = Counter()
        self._connections: set[Connection] = set()
        self._entering: dict[Connection, str] = {}
        self._dropped, self._reported = 0, -math.inf
        self._listener: asyncio.Server | None = None
        self._closed: asyncio.Event | None = None
        self._closing = False
        # Nested statements are refused by the depth of Python's stack, if that of C is deep enough:
        # 2 MiB do, of which some systems give a thread a quarter. It is set for the process.
        threading.stack_size(max(threading.stack_size(), STACK))
        turns = Turns(self.limits.heavy, self._tidy)
        self.workers = Scheduler(self.limits.workers, self.limits.analyst_workers, turns)
        self._housekeeping = Housekeeping(lambda: turns.heavy)
        self.replies = Replies()
        self.memory = Memory(self.limits.memory, self._tidy)
        # A thread of its own, so that a cancel gets through when every worker is busy.
        self._canceller = ThreadPoolExecutor(1, "tallyveil-cancel")

    # Starting and stopping

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._closed = asyncio.Event()
        self._listener = await loop.create_server(
            lambda: Connection(self, loop), self.host, self._requested_port, backlog=256
        )
        self._housekeeping.start()
        self._look_for_idle(loop)
        report("listening", host=self.host, port=self.port, tls=self.tls is not None)

    @property
    def port(self) -> int:
        """The port listened on. Raises RuntimeError before `start`."""
        if self._listener is None or not self._listener.sockets:
            raise RuntimeError("the server is not listening; await start() first")
        number: int = self._listener.sockets[0].getsockname()[1]
        return number

    async def serve_forever(self) -> None:
        """Return when `close` has been called and everything has come to its end."""
        if self._closed is None:
            await self.start()
        if self._closed is not None:
            await self._closed.wait()

    async def close(self) -> None:
        """Stop listening, cancel what runs, tell every client (57P01), and wait for them, `GRACE`
        seconds at most."""
        if self._listener is None or self._closed is None:
            self._stop_workers()
            return
        self._closing = True
        report("closing", connections=len(self._connections))
        self._listener.close()
        ending = [connection.closed for connection in self._connections]
        for connection in tuple(self._connections):
            connection.shut_down()
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
        self._canceller.shutdown(wait=False, cancel_futures=True)
        # What is left to do is closing sessions; let it happen.
        self.workers.stop()

    # What connections ask, on the event loop

    def opened(self, connection: Connection, address: str) -> bool:
        if self._closing:
            return False
        if len(self._entering) >= self.limits.max_waiting:
            slowest = self._slowest()
            self._report_drop(address if slowest is None else self._entering[slowest])
            if slowest is None:
                return False
            del self._entering[slowest]
            slowest.drop()
        self._connections.add(connection)
        self._entering[connection] = address
        return True

    def _report_drop(self, address: str) -> None:
        """Once a second at most: whoever floods the server does not flood its log."""
        self._dropped += 1
        if time.monotonic() - self._reported < 1.0:
            return
        report(
            "connections dropped",
            level=logging.WARNING,
            count=self._dropped,
            address=address,
            reason="too many sockets that have not logged in",
        )
        self._dropped, self._reported = 0, time.monotonic()

    def _slowest(self) -> Connection | None:
        """Of the address with most that have not logged in, who has been at it for longest.

        Only who keeps the server waiting, not those that the server keeps waiting.
        """
        slow = {c: address for c, address in self._entering.items() if c.awaited}
        if not slow:
            return None
        most, _ = Counter(slow.values()).most_common(1)[0]
        return next(c for c, address in slow.items() if address == most)

    def entered(self, connection: Connection) -> None:
        self._entering.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._entering.pop(connection, None)
        pid, user = connection.place
        with self._lock:
            if self._keys.pop(pid, None) is not None:
                self._users[user] -= 1
                if not self._users[user]:
                    del self._users[user]

    # What conversations ask, on worker threads (cancel: on the event loop)

    def holding(self) -> Holding:
        return Holding(self.memory, self.limits.connection_memory)

    def needs_tls(self, address: str) -> bool:
        optional = self._insecure and self.tls is None
        # Without an address it is a socket of this machine.
        return bool(address) and not optional and not is_loopback(address)

    def admit(self, interruption: Interruption, user: str) -> tuple[int, bytes]:
        limits = self.limits
        with self._lock:
            if len(self._keys) >= limits.max_connections:
                raise TooManyConnections(
                    "sorry, too many clients already",
                    detail=f"At most {limits.max_connections} clients may be connected.",
                )
            if self._users[user] >= (limits.max_user_connections or limits.max_connections):
                raise TooManyConnections(
                    f'too many connections for user "{user}"',
                    detail=f"At most {limits.max_user_connections} may be open at a time.",
                )
            self._users[user] += 1
            pid = 0
            while pid == 0 or pid in self._keys:
                pid = secrets.randbits(31)
            secret = secrets.token_bytes(4)
            self._keys[pid] = (secret, interruption)
        return pid, secret

    def cancel(self, pid: int, secret: bytes) -> None:
        with self._lock:
            known = self._keys.get(pid)
        expected, interruption = known or (secrets.token_bytes(4), None)
        if hmac.compare_digest(expected, secret) and interruption is not None:
            self._canceller.submit(self._cancel, interruption)

    def _cancel(self, interruption: Interruption) -> None:
        interruption.cancel()
        self.workers.hurry(interruption)
