"""tallyveil: SQL counts about a confidential table, under differential privacy.

::

    import tallyveil

    with tallyveil.connect("policy.toml") as connection:
        connection.sql("SELECT state, count(*) FROM person GROUP BY state").show()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tallyveil.errors import BudgetExceeded, PolicyError, StatementError, TallyveilError

if TYPE_CHECKING:
    from tallyveil.policy import Policy, load_policy, parse_policy
    from tallyveil.proxy.inprocess import Connection, Cursor, InterfaceError, connect

__all__ = [
    "BudgetExceeded",
    "Connection",
    "Cursor",
    "DatabaseError",
    "Error",
    "InterfaceError",
    "Policy",
    "PolicyError",
    "StatementError",
    "TallyveilError",
    "__version__",
    "apilevel",
    "connect",
    "load_policy",
    "paramstyle",
    "parse_policy",
    "threadsafety",
]

__version__ = "0.1.0"

# DB-API 2.0
apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"
Error = TallyveilError
DatabaseError = TallyveilError

# Imported on first use: the shell's --help needs no DuckDB.
_HOMES = {
    "Connection": "tallyveil.proxy.inprocess",
    "Cursor": "tallyveil.proxy.inprocess",
    "InterfaceError": "tallyveil.proxy.inprocess",
    "Policy": "tallyveil.policy",
    "connect": "tallyveil.proxy.inprocess",
    "load_policy": "tallyveil.policy",
    "parse_policy": "tallyveil.policy",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
