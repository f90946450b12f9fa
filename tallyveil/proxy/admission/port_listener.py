"""How clients reach a server, and how many may wait to log in.

Beyond the loopback interface, a server accepts only TLS and does not listen without TLS and users,
unless the custodian allows it. If too many sockets have not logged in yet, the slowest is dropped.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from tallyveil.events import report
from tallyveil.proxy.admission.auth import Authentication, Trust
from tallyveil.proxy.admission.connection_slots import ConnectionSlots
from tallyveil.proxy.admission.server_limits import ServerLimits
from tallyveil.proxy.admission.tls import Tls
from tallyveil.proxy.protocol_errors import ConnectionRefused

__all__ = [
    "InsecureAddress",
    "OpenConnection",
    "PendingLogins",
    "PortListener",
    "check_address",
    "is_loopback",
    "listen",
]

BACKLOG: Final = 256


class InsecureAddress(ValueError):
    """Listening on the address would let other machines in without a login, or in clear text."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. Does not resolve names other than localhost."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, auth: Authentication, tls: Tls | None) -> None:
    """Raise InsecureAddress if other machines can reach ``host`` and TLS or users are missing."""
    missing = ["TLS"] * (tls is None) + ["users"] * isinstance(auth, Trust)
    if missing and not is_loopback(host):
        raise InsecureAddress(
            f"listening on {host!r}, which other machines can reach, needs {' and '.join(missing)}"
        )


def listen(host: str, port: int) -> list[socket.socket]:
    """Open a socket for each address of ``host``, all on one port; port 0 takes any free port.

    Raises OSError if it cannot listen on an address.
    """
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            place = (str(address[0]), port, *address[2:])
            one = socket.create_server(place, family=family, backlog=BACKLOG)
            made.append(one)
            one.setblocking(False)
            port = one.getsockname()[1]
    except OSError:
        for one in made:
            one.close()
        raise
    return made


class PortListener:
    """The listener of a single server process; `processes.WorkerListener` is that of one among
    several. ``worker`` is the number of the process, ``slots`` its view of the places for clients.
    """

    worker = 0

    def __init__(self, host: str, port: int, limits: ServerLimits) -> None:
        self._host, self._port = host, port
        self.slots: Final = ConnectionSlots(limits)
        self._listeners: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        """The port that it listens on. Raises RuntimeError before `open`."""
        if not self._listeners or not self._listeners[0].sockets:
            raise RuntimeError("the server is not listening; await start() first")
        number: int = self._listeners[0].sockets[0].getsockname()[1]
        return number

    async def open(
        self, protocol: Callable[[], asyncio.Protocol], cancel: Callable[[int, bytes], None]
    ) -> None:
        """Accept sockets from now on. Cancel requests that another process received go to
        ``cancel``.

        Raises OSError if it cannot listen on the address.
        """
        loop = asyncio.get_running_loop()
        for one in listen(self._host, self._port):
            self._listeners.append(await loop.create_server(protocol, sock=one, backlog=BACKLOG))

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()

    def left(self) -> None:
        """A socket has ended."""

    def cancel(self, pid: int, secret: bytes) -> None:
        """Forward a cancel request to its process. Does nothing, as there is only this process."""


class OpenConnection(Protocol):
    """What a server does with one of its connections."""

    closed: asyncio.Future[None]
    working: bool
    """Whether the connection waits for the server, rather than the server for its client."""

    def drop(self) -> None: ...
    def look(self) -> None: ...
    def stop(self, final_error: ConnectionRefused) -> None: ...


class PendingLogins:
    """The connections that have not logged in yet, at most ``most``. Runs on the event loop."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._addresses: dict[OpenConnection, str] = {}
        self._dropped, self._reported = 0, -math.inf

    def add(self, connection: OpenConnection, address: str) -> bool:
        """Add a connection, dropping another one if necessary. Returns False if none can be."""
        if len(self._addresses) >= self._most:
            slowest = self._slowest()
            self._report_drop(address if slowest is None else self._addresses[slowest])
            if slowest is None:
                return False
            del self._addresses[slowest]
            slowest.drop()
        self._addresses[connection] = address
        return True

    def discard(self, connection: OpenConnection) -> None:
        """Remove a connection that has logged in or ended."""
        self._addresses.pop(connection, None)

    def _slowest(self) -> OpenConnection | None:
        """The oldest connection of the address that has most of these connections.

        Considers only connections that the server waits for, not those that wait for the server.
        """
        slow = {c: address for c, address in self._addresses.items() if not c.working}
        if not slow:
            return None
        most, _ = Counter(slow.values()).most_common(1)[0]
        return next(c for c, address in slow.items() if address == most)

    def _report_drop(self, address: str) -> None:
        """Report at most once a second: a client that floods the server must not flood its log."""
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
