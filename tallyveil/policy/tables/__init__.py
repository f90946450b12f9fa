"""The tables of a policy, protected and public."""

from tallyveil.policy.tables.public_table import PublicTable
from tallyveil.policy.tables.table import Table, related

__all__ = ["PublicTable", "Table", "related"]
