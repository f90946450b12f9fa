"""An empty PostgreSQL beside the server, which answers questions about PostgreSQL's catalogs.

::

    relay                       the interface for the wire: answers questions about the catalogs
      routing                   which statements are such questions
      link, pool, catalog_messages
                                connections to that PostgreSQL, and messages of its protocol
    supervisor, cluster         start it, restart it, end it, and remove what others left behind
      launch, binaries          its process, and the programs to start
      catalog_schema            its contents: the policy's tables, empty

It is built from the policy alone: names, types, domains, comments. It holds no rows and has no
access to the source, the ledger or the network. Its answers never enter the gate.
"""

from __future__ import annotations

from tallyveil.catalog.link import CatalogError
from tallyveil.catalog.pool import Databases, ServerSettings
from tallyveil.catalog.relay import (
    CatalogAnswer,
    CatalogQuestion,
    CatalogSocket,
    Relay,
    ResultColumn,
)

__all__ = [
    "CatalogAnswer",
    "CatalogError",
    "CatalogQuestion",
    "CatalogSocket",
    "Databases",
    "Relay",
    "ResultColumn",
    "ServerSettings",
]
