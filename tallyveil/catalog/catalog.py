"""What the wire knows of the catalog: which statements are its own, and who answers them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from tallyveil.catalog.pool import Pool
from tallyveil.catalog.relay import Relay
from tallyveil.catalog.routing import Routing

__all__ = ["Catalog"]


class Catalog:
    """``address`` gives the path of the socket to ask at, and raises CatalogError if there is
    none; ``names`` are those of the policy's tables and views.
    """

    def __init__(self, address: Callable[[], str], names: Collection[str]) -> None:
        routing = Routing(names)
        self.takes: Final = routing.takes
        self._pool: Final = Pool(address)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._pool.clear()

    def relay(self, user: str, database: str) -> Relay:
        """For one session of that user, in the database of that name; see `Databases`."""
        return Relay(self._pool, user, database)
