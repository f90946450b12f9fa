"""Sockets whose clients have not logged in: bounded, and the slowest of the many is dropped."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from tallyveil.events import report

if TYPE_CHECKING:
    from tallyveil.proxy.connection import Connection

__all__ = ["HalfOpen"]


class HalfOpen:
    """At most ``most`` of them, by their addresses. Lives on the event loop."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._addresses: dict[Connection, str] = {}
        self._dropped, self._reported = 0, -math.inf

    def add(self, connection: Connection, address: str) -> bool:
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

    def discard(self, connection: Connection) -> None:
        """It has logged in, or ended."""
        self._addresses.pop(connection, None)

    def _slowest(self) -> Connection | None:
        """Of the address with most that have not logged in, who has been at it for longest.

        Only who keeps the server waiting, not those that the server keeps waiting.
        """
        slow = {c: address for c, address in self._addresses.items() if c.awaited}
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
