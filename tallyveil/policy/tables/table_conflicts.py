"""What the keys of a protected table cannot be together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import conflict
from tallyveil.policy.growth.growth import growth_conflicts
from tallyveil.policy.mistakes import written

if TYPE_CHECKING:
    from tallyveil.policy.tables.table import Table

__all__ = ["table_conflicts"]


def table_conflicts(table: Table) -> Iterator[InitErrorDetails]:
    """Yield what the keys of one protected table cannot be together."""
    if table.count is not None and table.privacy_unit.column is not None:
        yield conflict(
            'expected either count or privacy_unit = { column = "…", … }; both are given. A row'
            " that stands for several records cannot name the unit of each."
        )
    seen: dict[str, str] = {}
    for name in (*table.attributes, *table.per_unit):
        # Names that differ only in case are equal to DuckDB.
        other = seen.setdefault(name.lower(), name)
        if other != name:
            yield conflict(
                f"expected a name that differs from {other} in more than upper and lower case",
                "attributes" if name in table.attributes else "per_unit",
                name,
            )
    for name, declared in table.attributes.items():
        if table.count is not None and (declared.column or name).lower() == table.count.lower():
            # One more record in a row would move the row's other records to another cell.
            yield conflict(
                f"expected another column than {written(table.count)}, which is the table's"
                " count: one record more in a row would change it for all records of the row",
                "attributes",
                name,
            )
    for name in table.count_range.by if table.count_range is not None else ():
        if name not in table.attributes:
            yield conflict(
                f"expected attributes of the table; {written(name)} is not one",
                "count_range",
                "by",
            )
    yield from growth_conflicts(table)
