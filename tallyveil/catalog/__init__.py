"""What there is to ask, as PostgreSQL's own catalogs tell it: an empty one beside the server.

::

    catalog                     what the wire calls: is it a question about the catalogs, and its
                                answer
      routing                   which statements are such questions
      relay, link, pool         a question put to that PostgreSQL, as messages of the wire
    supervisor, cluster         started, swept, started again, ended
      launch, binaries          the process, and what may be found to start
      schema                    what is in it: the policy's tables, empty

It is made of the policy alone: names, types, domains, comments. It holds no rows and has no way to
the source, the ledger or the network, and its answers never enter the gate.
"""

from __future__ import annotations

from tallyveil.catalog.catalog import Catalog
from tallyveil.catalog.link import CatalogError
from tallyveil.catalog.pool import Databases, Settings
from tallyveil.catalog.relay import Column, Question, Relay

__all__ = ["Catalog", "CatalogError", "Column", "Databases", "Question", "Relay", "Settings"]
