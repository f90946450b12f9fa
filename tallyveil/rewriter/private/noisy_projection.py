"""A statement over noisy rows that only selects columns and averages, orders rows and limits their
number.

Such a statement needs no database. DuckDB runs everything else, and every type whose order or
values might differ between DuckDB and Python.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tallyveil.rewriter.private.block import NOISY
from tallyveil.rewriter.private.outputs import average
from tallyveil.rewriter.query_plan import Item, NoisyTable, OrderedBy, Projection
from tallyveil.rewriter.sql.nodes import whole_number

__all__ = ["projection"]

# For a large result the database adds little work, and enforces limits of its own.
_MOST_VALUES: Final = 50_000
_MOST_BYTES: Final = 1 << 20

_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.date32(): "DATE",
}
_LARGE: Final = 10**18  # smaller numbers fit in 64 bits

_UNORDERED: Final = frozenset({"DOUBLE"})  # a NaN is greater than all numbers
_ADDED: Final = frozenset({"BIGINT", "DOUBLE"})  # types of sums that both make the same doubles

_CLAUSES: Final = frozenset({"expressions", "from_", "order", "limit", "offset"})


def projection(tree: exp.Expr, tables: Sequence[NoisyTable]) -> Projection | None:
    """Return what the statement selects from its only noisy table; None if it does more."""
    if not isinstance(tree, exp.Select) or len(tables) != 1:
        return None
    clause = tree.args.get("from_")
    source = None if clause is None else clause.this
    if not isinstance(source, exp.Table) or source.name != tables[0].name:
        return None
    if any(value for name, value in tree.args.items() if name not in _CLAUSES):
        return None
    types = _types(tables[0])
    found = [_item(item, types) for item in tree.expressions]
    items = [item for item in found if item is not None]
    if len(items) < len(found):
        return None
    if tables[0].height * len(items) > _MOST_VALUES or tables[0].keys.nbytes > _MOST_BYTES:
        return None
    order = tree.args.get("order")
    ordered = [_ordered(part, items) for part in order.expressions] if order is not None else []
    ends = [_number(tree.args.get(name)) for name in ("offset", "limit")]
    if None in ends or any(one is None or types[one.column] in _UNORDERED for one in ordered):
        return None
    offset, limit = (end if end is not None and end >= 0 else None for end in ends)
    by = tuple(one for one in ordered if one is not None)
    return Projection(tuple(items), by, offset or 0, limit)


def _item(node: exp.Expr, types: Mapping[str, str]) -> Item | None:
    """A column or an average; None for anything else."""
    inner = node.unalias()
    if (column := _noisy(inner)) is not None:
        return Item(node.alias, column, types[column]) if column in types else None
    ratio = inner.find(exp.Div) if isinstance(inner, exp.Case) else None
    if ratio is None or not isinstance(ratio.this, exp.Cast):
        return None
    parts = ratio.this.this, ratio.expression
    total, count = map(_noisy, parts)
    if total is None or count is None or inner != average(*(part.copy() for part in parts)):
        return None
    exact = types.get(total) in _ADDED and types.get(count) == "BIGINT"
    return Item(node.alias, total, "DOUBLE", count) if exact else None


def _types(table: NoisyTable) -> dict[str, str]:
    """The DuckDB types of those of the table's columns that need no database."""
    found: dict[str, str] = {}
    for name in table.keys.column_names:
        column = table.keys.column(name)
        kind = _TYPES.get(column.type)
        if kind is not None and (kind != "DATE" or _has_days(column)):
            found[name] = kind
    for number, own in table.types.items():
        kind = _TYPES.get(own)
        if pa.types.is_decimal128(own) and own.scale:
            kind = f"DECIMAL({own.precision},{own.scale})"
        if kind is not None:
            found |= dict.fromkeys((f"__{end}{number}" for end in "clu"), kind)
    found |= dict.fromkeys((f"__s{number}" for number in table.deviations), "DOUBLE")
    return found | dict.fromkeys((f"__p{number}" for number in range(len(table.claims))), "DOUBLE")


def _has_days(column: pa.ChunkedArray) -> bool:
    """Whether Python can represent all these days."""
    ends = pc.min_max(pc.cast(column, pa.int32()))
    low, high = ends["min"].as_py(), ends["max"].as_py()
    first = dt.date(1970, 1, 1).toordinal()
    return low is None or (low + first >= 1 and high + first <= dt.date.max.toordinal())


def _noisy(node: exp.Expr) -> str | None:
    inner = node.unnest()
    own = isinstance(inner, exp.Column) and inner.table == NOISY
    return inner.name if own else None


def _ordered(part: exp.Expr, items: Sequence[Item]) -> OrderedBy | None:
    """Order by a column, the number of an item or its name; None for anything else."""
    key = part.this
    column = _noisy(key)
    if isinstance(key, exp.Literal) and not key.is_string:
        column = _column(items[int(key.this) - 1])
    elif isinstance(key, exp.Column) and not key.table:
        found = {_column(item) for item in items if item.name == key.name}
        column = found.pop() if len(found) == 1 else None
    descending, first = (bool(part.args.get(name)) for name in ("desc", "nulls_first"))
    return None if column is None else OrderedBy(column, descending, first)


def _column(item: Item) -> str | None:
    """The noisy table's column that an item is; None for an average."""
    return item.column if item.counts is None else None


def _number(clause: exp.Expr | None) -> int | None:
    """The number of LIMIT or OFFSET, -1 without the clause; None if it is not a small number."""
    if clause is None:
        return -1
    number = whole_number(clause.args.get("expression"))
    return number if number is not None and number < _LARGE else None
