"""Tables of the same people: the keys by which they share a privacy unit and a budget.

A table with ``keys = { pid = "person.pid" }`` is *keyed*, and ``person`` is its *head*. Both have
the rows of the same units, and the budget is the head's. A row of the keyed table has at most one
row of the head, so the head counts one row of each unit, and its attributes are further axes of the
keyed table's cells. What is not proved for such tables is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import conflict, mistaken
from tallyveil.policy.domain import Attribute, Key
from tallyveil.policy.mistakes import nearest, written

if TYPE_CHECKING:
    from tallyveil.policy.table_keys import PerUnit
    from tallyveil.policy.tables import Table

__all__ = ["joined_axes", "key_conflicts", "per_unit_axes", "per_unit_conflicts"]


def joined_axes(key: Key, head: Table) -> tuple[Attribute, ...]:
    """The axes that a keyed table has besides its own: whether the head has a counted row of the
    unit, and that row's attributes."""
    found = Attribute(key.found, "values", "BOOLEAN", (True, False), joined=True)
    own = (replace(a, name=key.axis(a.name), joined=True) for a in head.domain.attributes)
    return (found, *own)


def per_unit_axes(declared: Mapping[str, PerUnit], counted: Mapping[str, Table]) -> list[Attribute]:
    """The axes of counts of a unit's rows in tables, from 0 to all that are kept there."""
    found = []
    for name, one in declared.items():
        most = counted[one.count].privacy_unit.max_rows
        cells = tuple(range(min(most, most if one.at_most is None else one.at_most) + 1))
        found.append(Attribute(name, "range", "INTEGER", cells, clamp=True))
    return found


def per_unit_conflicts(
    name: str, table: Table, tables: Mapping[str, Table]
) -> Iterator[InitErrorDetails]:
    """Yield the contradictions between a table's counts per unit and the tables they count."""
    keyed = [other for other, one in tables.items() if one.key is not None and one.key.head == name]
    for attribute, one in table.per_unit.items():
        if one.count not in keyed:
            text = f'expected a table with keys = {{ … = "{name}.…" }}'
            yield mistaken(one.count, text, "tables", name, "per_unit", attribute, "count")


def key_conflicts(
    name: str, table: Table, tables: Mapping[str, Table]
) -> Iterator[InitErrorDetails]:
    """Yield the contradictions between a keyed table and its head."""
    where = ("tables", name, "keys")
    if len(table.keys) != 1:
        yield conflict('expected one key such as pid = "person.pid"', *where)
        return
    ((column, (head_name, head_column)),) = table.keys.items()
    key = f"{head_name}.{head_column}"
    if head_name not in tables or head_name == name:
        others = [other for other in tables if other != name]
        text = (
            f"there is no other such table; {nearest(head_name, others)}"
            if others
            else ("there is no other table")
        )
        yield mistaken(key, text, *where, column)
        return
    head = tables[head_name]
    if head.keys:
        yield mistaken(key, f"expected a table without keys; {head_name} has keys", *where, column)
        return
    if table.privacy_unit.column != column:
        yield conflict(
            f"expected the column of tables.{name}.privacy_unit: the key must name the same unit",
            *where,
            column,
        )
    if head.privacy_unit.column != head_column or head.privacy_unit.max_rows != 1:
        yield mistaken(
            key,
            f"expected tables.{head_name}.privacy_unit = {{ column = {written(head_column)},"
            " max_rows = 1 }: each row has at most one row there",
            *where,
            column,
        )
    if table.neighbours != head.neighbours:
        text = f"expected {written(head.neighbours)}, as tables.{head_name} has: they share a unit"
        yield mistaken(table.neighbours, text, "tables", name, "neighbours")
    if "budget" in table.model_fields_set:
        text = f"expected none: the table shares the budget of tables.{head_name}, by its key"
        yield conflict(text, "tables", name, "budget")
    for other, own in ((name, table), (head_name, head)):
        yield from _unproved(other, own)
        for attribute in (*own.attributes, *own.per_unit):
            if attribute.lower() in (column.lower(), head_column.lower()):
                text = "expected another name: a key of the table has it, which no answer may show"
                place = "attributes" if attribute in own.attributes else "per_unit"
                yield conflict(text, "tables", other, place, attribute)


def _unproved(name: str, table: Table) -> Iterator[InitErrorDetails]:
    """Yield the declarations whose guarantees do not cover tables that share a unit."""
    for field in ("invariants", "inference_control", "count_range"):
        if getattr(table, field):
            text = "not supported for tables that share a unit (see keys)"
            yield conflict(text, "tables", name, field)
