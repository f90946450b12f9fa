"""What a connection needs of the server that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tallyveil.proxy.conversation import Host
from tallyveil.proxy.limits import Limits
from tallyveil.proxy.scheduler import Scheduler

if TYPE_CHECKING:
    from tallyveil.proxy.connection import Connection

__all__ = ["Owner"]


class Owner(Host, Protocol):
    """What a connection needs of its server. What it reports is reported on the event loop."""

    limits: Limits
    workers: Scheduler

    def opened(self, connection: Connection, address: str) -> bool:
        """A socket from ``address``. False if there is no place for one more."""
        ...

    def entered(self, connection: Connection) -> None:
        """Its client has logged in."""
        ...

    def lost(self, connection: Connection) -> None: ...
