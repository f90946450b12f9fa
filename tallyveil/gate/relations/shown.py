"""The relations that can be queried, as catalogs show them: names, types, comments.

They depend only on the policy and on the types of public tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from tallyveil.gate.interface import ColumnType
from tallyveil.gate.shared import Shared
from tallyveil.policy import Attribute, Table
from tallyveil.policy.domain import shown

__all__ = ["Shown", "ShownColumn", "domain_of", "outside_of", "relations_shown"]

Described: TypeAlias = Callable[[str], Sequence[ColumnType]]
"""Returns the columns of a query; none if it is refused."""

_MOST: Final = 20
"""Values of a domain that a comment lists."""

_TYPES: Final = {
    "string": "VARCHAR",
    "bool": "BOOLEAN",
    "int64": "BIGINT",
    "double": "DOUBLE",
    "date32[day]": "DATE",
    "timestamp[us]": "TIMESTAMP",
}


@dataclass(frozen=True)
class ShownColumn:
    """``type`` is DuckDB's name of the type."""

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None


@dataclass(frozen=True)
class Shown:
    """``definition`` is that of a view, in PostgreSQL's SQL."""

    schema: str
    name: str
    columns: tuple[ShownColumn, ...]
    comment: str | None = None
    definition: str | None = None


def relations_shown(
    gate: Shared, own: Mapping[str, pa.Schema], described: Described
) -> tuple[Shown, ...]:
    """All relations, in an order that depends on the policy alone. ``own`` are those of schema
    dp."""
    tables = [_protected(table) for table in gate.policy.tables.values()]
    public = [
        Shown("public", name, _typed(gate.database.columns(name)), "public: answers are exact")
        for name in gate.policy.public
    ]
    views = [
        Shown("public", name, _columns(described(f'SELECT * FROM "{name}"')), "view", definition)
        for name, definition in gate.policy.view_sql.items()
    ]
    listed = (_own(name, schema) for name, schema in sorted(own.items()))
    return (*tables, *public, *views, *listed)


def _own(name: str, fields: pa.Schema) -> Shown:
    schema, name = name.split(".")
    return Shown(schema, name, _typed({field.name: _TYPES[str(field.type)] for field in fields}))


def _protected(table: Table) -> Shown:
    columns = tuple(map(_attribute, table.domain.attributes))
    comment = "protected: counts and sums are answered"
    if table.capped is not None:
        comment += f"; {table.capped}"
    return Shown("public", table.name, columns, comment)


def _attribute(attribute: Attribute) -> ShownColumn:
    kind = "bins " if attribute.binned else ""
    outside = outside_of(attribute)
    if attribute.other_cell is not None:
        value = attribute.cells[attribute.other_cell]
        outside = f"as {'NULL' if value is None else value}"
    comment = f"{kind}{domain_of(attribute, _MOST)}; others {outside}"
    return ShownColumn(attribute.name, attribute.sql_type, attribute.null_cell is not None, comment)


def _columns(columns: Sequence[ColumnType]) -> tuple[ShownColumn, ...]:
    return _typed({column.name: column.type for column in columns})


def _typed(columns: Mapping[str, str]) -> tuple[ShownColumn, ...]:
    return tuple(ShownColumn(name, kind) for name, kind in columns.items())


def domain_of(attribute: Attribute, most: int | None = None) -> str:
    """The values it may hold; of a list, the first ``most``."""
    if attribute.edges is not None:
        numbers = _listed(attribute.cells[: len(attribute.edges) - 1], most)
        by = f" represented by {numbers}" if attribute.represented else ""
        return "[" + _listed(attribute.edges, most) + ")" + by
    by_day = ", timestamps by the day" if attribute.coarse else ""
    if attribute.stepped and attribute.ends is not None:
        steps = f" in steps of {attribute.step_text}" if attribute.step is not None else by_day
        return "{} to {}".format(*map(shown, attribute.ends)) + steps
    values = [v for v in attribute.cells if v is not None]
    first = f", by the first {attribute.prefix} characters" if attribute.prefix is not None else ""
    return _listed(values, most) + by_day + first


def _listed(values: Sequence[object], most: int | None) -> str:
    if most is None or len(values) <= most:
        return ", ".join(map(str, values))
    return ", ".join(map(str, values[:most])) + f", … ({len(values)} values)"


def outside_of(attribute: Attribute) -> str:
    """What happens to a record whose value is not declared."""
    if attribute.clamp:
        return "clamped"
    return "left out" if attribute.other_cell is None else "other"
