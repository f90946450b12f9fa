"""tallyveil: SQL counts about a confidential table, under differential privacy.

::

    import tallyveil

    with tallyveil.connect("policy.toml") as connection:
        connection.sql("SELECT state, count(*) FROM person GROUP BY state").show()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tallyveil.dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    DatabaseError,
    DataError,
    Date,
    DateFromTicks,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    TallyveilError,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    Warning,
)
from tallyveil.errors import BudgetExceeded, PolicyError, StatementError

if TYPE_CHECKING:
    from tallyveil.policy import Policy, load_policy, parse_policy
    from tallyveil.proxy.inprocess import Connection, Cursor, connect

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "BudgetExceeded",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "Policy",
    "PolicyError",
    "ProgrammingError",
    "StatementError",
    "TallyveilError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
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

# Imported on first use: the shell's --help needs no DuckDB.
_HOMES = {
    "Connection": "tallyveil.proxy.inprocess",
    "Cursor": "tallyveil.proxy.inprocess",
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
