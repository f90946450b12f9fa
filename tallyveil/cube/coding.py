"""From a value that was read to the number of its cell: a DuckDB expression that never fails.

The rule: a NULL goes to the NULL cell, or else to ``other``. A declared value, a number or day
within the range, or a number within a bin goes to its cell. With ``clamp``, a value beyond an end
goes to the cell at that end. Everything else goes to ``other``. Where the cell is not declared, the
code is NULL, and the record is left out of the table.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tallyveil.policy import Attribute

__all__ = ["Coding", "code"]


@dataclass(frozen=True)
class Coding:
    """``expression`` is the cell's number; ``join`` joins the code table it uses, if any.

    The expression reads the value from the record's column ``v{axis}``; ``parameters`` are the
    code table's columns, by name.
    """

    expression: str
    join: str
    parameters: dict[str, Any]


def code(axis: int, attribute: Attribute) -> Coding:
    """The coding of the attribute that is the cube's axis number ``axis``."""
    return _BY_KIND[attribute.kind](axis, attribute)


def _literal(cell: int | None) -> str:
    return "CAST(NULL AS INTEGER)" if cell is None else str(cell)


def _null(attribute: Attribute) -> str:
    cell = attribute.null_cell if attribute.null_cell is not None else attribute.other_cell
    return _literal(cell)


def _declared(attribute: Attribute) -> list[Any]:
    """The declared cells: those before ``other`` and NULL."""
    special = (attribute.null_cell, attribute.other_cell)
    return [cell for i, cell in enumerate(attribute.cells) if i not in special]


def _ends(attribute: Attribute, last: int) -> tuple[str, str]:
    """The codes of values below the first and above the last declared cell."""
    if attribute.clamp:
        return "0", str(last)
    return _literal(attribute.other_cell), _literal(attribute.other_cell)


def _values(axis: int, attribute: Attribute) -> Coding:
    key = f"p{axis}"
    value = f"unnest(${key})"
    value = f"encode({value})" if attribute.sql_type == "VARCHAR" else value
    table = f"(SELECT {value} AS value, generate_subscripts(${key}, 1) - 1 AS code)"
    return Coding(
        f"CASE WHEN v{axis} IS NULL THEN {_null(attribute)} "
        f"ELSE coalesce(t{axis}.code, {_literal(attribute.other_cell)}) END",
        f"LEFT JOIN {table} AS t{axis} ON v{axis} = t{axis}.value",
        {key: _declared(attribute)},
    )


def _bins(axis: int, attribute: Attribute) -> Coding:
    edges = list(attribute.edges or ())
    key, last = f"p{axis}", len(edges) - 2
    table = f"(SELECT unnest(${key}) AS edge, generate_subscripts(${key}, 1) - 1 AS code)"
    below, above = _ends(attribute, last)
    return Coding(
        f"CASE WHEN v{axis} IS NULL THEN {_null(attribute)} "
        f"WHEN t{axis}.code IS NULL THEN {below} "
        f"WHEN t{axis}.code > {last} THEN {above} ELSE t{axis}.code END",
        f"ASOF LEFT JOIN {table} AS t{axis} ON v{axis} >= t{axis}.edge",
        {key: edges},
    )


def _range(axis: int, attribute: Attribute) -> Coding:
    declared = _declared(attribute)
    low, high = (_constant(end) for end in (declared[0], declared[-1]))
    below, above = _ends(attribute, len(declared) - 1)
    # The difference is taken after clamping, so that it cannot overflow even where the optimiser
    # computes it for every record.
    place = f"CAST(least(greatest(v{axis}, {low}), {high}) - {low} AS INTEGER)"
    return Coding(
        f"CASE WHEN v{axis} IS NULL THEN {_null(attribute)} WHEN v{axis} < {low} THEN {below} "
        f"WHEN v{axis} > {high} THEN {above} ELSE {place} END",
        "",
        {},
    )


def _constant(end: Any) -> str:
    return f"DATE '{end.isoformat()}'" if isinstance(end, dt.date) else f"({end})"


_BY_KIND: Final = MappingProxyType({"values": _values, "range": _range, "bins": _bins})
