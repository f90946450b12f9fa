"""tallyveil: SQL counts about a confidential table, under differential privacy.

::

    import tallyveil

    with tallyveil.connect("policy.toml") as connection:
        connection.sql("SELECT state, count(*) FROM person GROUP BY state").show()
"""

from tallyveil.errors import BudgetExceeded, PolicyError, StatementError, TallyveilError
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
