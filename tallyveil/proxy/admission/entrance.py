"""Where a server's clients come in, how many may, logged in or not yet, and which of their
databases the catalogs have.

A server alone listens itself; one of several processes takes the sockets that another hands it
(`processes`). From beyond the loopback interface only TLS is taken, and nobody listens there
without TLS and users unless told that this is meant. Of the sockets whose clients have not logged
in the slowest is dropped where there are too many.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tallyveil.catalog import Databases
from tallyveil.events import report
from tallyveil.proxy.admission.auth import Authentication, Trust
from tallyveil.proxy.admission.limits import ServerLimits
from tallyveil.proxy.admission.tls import Tls
from tallyveil.proxy.errors import TooManyConnections

if TYPE_CHECKING:
    from tallyveil.proxy.connection import ClientConnection

__all__ = [
    "ConnectionSlots",
    "HalfOpen",
    "InsecureAddress",
    "Listening",
    "check_address",
    "is_loopback",
    "listen",
]

BACKLOG: Final = 256


class InsecureAddress(ValueError):
    """Listening there would let others in, or read what passes."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach ``host``. Names other than localhost are not asked."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, auth: Authentication, tls: Tls | None) -> None:
    """Raises InsecureAddress."""
    missing = ["TLS"] * (tls is None) + ["users"] * isinstance(auth, Trust)
    if missing and not is_loopback(host):
        raise InsecureAddress(
            f"listening on {host!r}, which other machines can reach, needs {' and '.join(missing)}"
        )


def listen(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of ``host``, all on one port; 0 takes any free one.

    Raises OSError if an address cannot be had.
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


class ConnectionSlots:
    """Those of clients that are logged in: counted, in all and by user; threads may share it."""

    def __init__(self, limits: ServerLimits) -> None:
        self._all: Final = limits.max_connections
        self._each: Final = limits.max_user_connections or limits.max_connections
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()
        self._databases = Databases()

    def take(self, user: str, database: str) -> str:
        """The catalogs' database for the one named. Raises TooManyConnections."""
        with self._lock:
            if self._taken.total() >= self._all:
                raise TooManyConnections(
                    "sorry, too many clients already",
                    detail=f"At most {self._all} clients may be connected.",
                )
            if self._taken[user] >= self._each:
                raise TooManyConnections(
                    f'too many connections for user "{user}"',
                    detail=f"At most {self._each} may be open at a time.",
                )
            self._taken[user] += 1
            return self._databases.take(database)

    def give(self, user: str) -> None:
        with self._lock:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]


class Listening:
    """The entrance of a server alone; `processes.Assigned` is that of one of several processes.

    ``worker`` is its number among them.
    """

    worker = 0

    def __init__(self, host: str, port: int, limits: ServerLimits) -> None:
        self._host, self._port = host, port
        self._places: Final = ConnectionSlots(limits)
        self._listeners: list[asyncio.Server] = []

    @property
    def port(self) -> int:
        """Raises RuntimeError before `open`."""
        if not self._listeners or not self._listeners[0].sockets:
            raise RuntimeError("the server is not listening; await start() first")
        number: int = self._listeners[0].sockets[0].getsockname()[1]
        return number

    async def open(
        self, protocol: Callable[[], asyncio.Protocol], cancel: Callable[[int, bytes], None]
    ) -> None:
        """Take sockets from now on; ``cancel`` takes requests that came to another process.

        Raises OSError if the address cannot be had.
        """
        loop = asyncio.get_running_loop()
        for one in listen(self._host, self._port):
            self._listeners.append(await loop.create_server(protocol, sock=one, backlog=BACKLOG))

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()

    def admit(self, user: str, database: str) -> str:
        """A place for a client, and the catalogs' database for the one that they name; may block.
        Raises TooManyConnections."""
        return self._places.take(user, database)

    def left(self, user: str | None) -> None:
        """A socket has ended, and ``user`` had a place. Called on the event loop."""
        if user is not None:
            self._places.give(user)

    def cancel(self, pid: int, secret: bytes) -> None:
        """Pass a cancel request to the process whose it is; there is no other one."""


class HalfOpen:
    """At most ``most`` of them, by their addresses. Lives on the event loop."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._addresses: dict[ClientConnection, str] = {}
        self._dropped, self._reported = 0, -math.inf

    def add(self, connection: ClientConnection, address: str) -> bool:
        """One more, if need be in the place of another. False if there is no place."""
        if len(self._addresses) >= self._most:
            slowest = self._slowest()
            self._report_drop(address if slowest is None else self._addresses[slowest])
            if slowest is None:
                return False
            del self._addresses[slowest]
            slowest.drop()
        self._addresses[connection] = address
        return True

    def discard(self, connection: ClientConnection) -> None:
        """It has logged in, or ended."""
        self._addresses.pop(connection, None)

    def _slowest(self) -> ClientConnection | None:
        """Of the address with most that have not logged in, who has been at it for longest.

        Only who keeps the server waiting, not those that the server keeps waiting.
        """
        slow = {c: address for c, address in self._addresses.items() if not c.working}
        if not slow:
            return None
        most, _ = Counter(slow.values()).most_common(1)[0]
        return next(c for c, address in slow.items() if address == most)

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
