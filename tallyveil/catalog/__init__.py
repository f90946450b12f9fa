"""What there is to ask, as PostgreSQL's own catalogs tell it: an empty one beside the server.

::

    relay                       what the wire calls: is it a question about the catalogs, and its
                                answer
      routing                   which statements are such questions
      link, pool, messages      a question put to that PostgreSQL, as messages of the wire
    supervisor, cluster         started, swept, started again, ended
      launch, binaries          the process, and what may be found to start
      schema                    what is in it: the policy's tables, empty

It is made of the policy alone: names, types, domains, comments. It holds no rows and has no way to
the source, the ledger or the network, and its answers never enter the gate.
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
