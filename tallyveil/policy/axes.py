"""From an attribute's declaration to its axis of the cube."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from tallyveil.policy.declaration import AttributeDeclaration
from tallyveil.policy.domain import Attribute, Value

__all__ = ["KINDS", "attribute"]

KINDS = ("values", "range", "bins")

_LABEL = "other"
_INT32 = 2**31


def attribute(name: str, declared: AttributeDeclaration) -> Attribute:
    """The axis: the declared cells in their order, then ``other``, then NULL.

    Text has a label for ``other``. A number, a date or a boolean has no value to spare, so there
    ``other`` reads as NULL and is one cell with it. A NULL goes to ``other`` where there is no
    cell for it.
    """
    kind, cells, edges = _declared(declared)
    sql_type = _sql_type(edges if edges is not None else cells)
    other_cell = null_cell = None
    if declared.other is not False and sql_type == "VARCHAR":
        other_cell = len(cells)
        cells = (*cells, _LABEL if declared.other is True else declared.other)
    if declared.nullable or (declared.other is not False and sql_type != "VARCHAR"):
        null_cell = len(cells)
        other_cell = null_cell if other_cell is None and declared.other is not False else other_cell
        cells = (*cells, None)
    return Attribute(
        name=name,
        kind=kind,
        sql_type=sql_type,
        cells=cells,
        edges=edges,
        null_cell=null_cell,
        other_cell=other_cell,
        clamp=declared.clamp,
    )


def _declared(
    declared: AttributeDeclaration,
) -> tuple[str, tuple[Value, ...], tuple[int | float, ...] | None]:
    """Kind, cells and edges before ``other`` and NULL."""
    if declared.values is not None:
        return "values", declared.values, None
    if declared.bins is not None:
        return "bins", declared.bins[:-1], declared.bins
    low, high = declared.range
    if isinstance(low, dt.date):
        first, last = low.toordinal(), high.toordinal()
        return "range", tuple(dt.date.fromordinal(d) for d in range(first, last + 1)), None
    return "range", tuple(range(low, high + 1)), None


def _sql_type(cells: Sequence[Value]) -> str:
    """DuckDB's type of the declared cells, which are all of one Python type."""
    match cells[0]:
        case bool():
            return "BOOLEAN"
        case str():
            return "VARCHAR"
        case dt.date():
            return "DATE"
        case float():
            return "DOUBLE"
    small = all(isinstance(c, int) and -_INT32 <= c < _INT32 for c in cells)
    return "INTEGER" if small else "BIGINT"
