"""From a value that was read to the number of its cell: a DuckDB expression that never fails.

The rule: a NULL goes to the NULL cell, or else to ``other``. A declared value, a number or day
within the range, or a number within a bin goes to its cell. With ``clamp``, a value beyond an end
goes to the cell at that end. Everything else goes to ``other``. Where the cell is not declared, the
code is NULL, and the record is left out of the table.

Every record is coded, and the codes are as narrow as the number of cells allows: to group these
takes less time than to group what was read, and memory for the cells in use alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from tallyveil.cube.steps import step_number
from tallyveil.policy import Attribute
from tallyveil.quoting import literal

__all__ = ["Coding", "clamped", "code"]


# Of text values and edges that a statement names, as it takes time to parse them.
_NAMED: Final = 10_000


@dataclass(frozen=True)
class Coding:
    """``expression`` is the cell's number; ``join`` joins the code table it uses, if any.

    The expression reads the value from the record's column ``v{axis}``; ``parameters`` are the
    code table's columns, by name.
    """

    expression: str
    join: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


def code(axis: int, attribute: Attribute) -> Coding:
    """The coding of the attribute that is the cube's axis number ``axis``."""
    found = _BY_KIND[attribute.kind](axis, attribute)
    return replace(found, expression=f"CAST({found.expression} AS {_width(attribute)})")


def _width(attribute: Attribute) -> str:
    widths = {"UTINYINT": 2**8, "USMALLINT": 2**16}
    return next((width for width, size in widths.items() if attribute.size <= size), "UINTEGER")


def _literal(cell: int | None) -> str:
    return "NULL" if cell is None else str(cell)


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
    declared, value = _declared(attribute), f"v{axis}"
    text = attribute.sql_type == "VARCHAR"
    if text and len(declared) <= _NAMED and not any("\0" in each for each in declared):
        # A type of DuckDB's looks up texts, byte by byte, faster than a join does.
        found = f"enum_code(TRY_CAST({value} AS ENUM ({', '.join(map(literal, declared))})))"
        return Coding(_or_special(value, found, attribute))
    key = f"p{axis}"
    unnested, joined = f"unnest(${key})", value
    if text:
        unnested, joined = f"encode({unnested})", f"encode({value})"
    table = f"(SELECT {unnested} AS value, generate_subscripts(${key}, 1) - 1 AS code)"
    join = f"LEFT JOIN {table} AS t{axis} ON {joined} = t{axis}.value"
    return Coding(_or_special(value, f"t{axis}.code", attribute), join, {key: declared})


def _or_special(value: str, found: str, attribute: Attribute) -> str:
    """The code that was found, or that of NULL or of other values.

    Where these have none, nothing is added: DuckDB looks a text up once for all rows that have it,
    unless it stands in a CASE."""
    null, other = _null(attribute), _literal(attribute.other_cell)
    if other != "NULL":
        found = f"coalesce({found}, {other})"
    return found if null == other else f"CASE WHEN {value} IS NULL THEN {null} ELSE {found} END"


def _bins(axis: int, attribute: Attribute) -> Coding:
    edges, value = list(attribute.edges or ()), f"v{axis}"
    below, above = _ends(attribute, len(edges) - 2)
    codes = [below, *map(str, range(len(edges) - 1)), above]
    if len(edges) <= _NAMED:
        # Of the edges' own type: bins that are represented have the type of what represents them.
        kind = "DOUBLE" if any(isinstance(edge, float) for edge in edges) else "BIGINT"
        exact = f"CAST('{{}}' AS {kind})".format
        found = _between([exact(edge) for edge in edges], codes, value)
        return Coding(f"CASE WHEN {value} IS NULL THEN {_null(attribute)} ELSE {found} END")
    key, last = f"p{axis}", len(edges) - 2
    table = f"(SELECT unnest(${key}) AS edge, generate_subscripts(${key}, 1) - 1 AS code)"
    return Coding(
        f"CASE WHEN {value} IS NULL THEN {_null(attribute)} "
        f"WHEN t{axis}.code IS NULL THEN {below} "
        f"WHEN t{axis}.code > {last} THEN {above} ELSE t{axis}.code END",
        f"ASOF LEFT JOIN {table} AS t{axis} ON {value} >= t{axis}.edge",
        {key: edges},
    )


def _between(edges: Sequence[str], codes: Sequence[str], value: str) -> str:
    """The code by halving: ``codes[i]`` where the value is at least i of the edges."""
    if not edges:
        return codes[0]
    half = len(edges) // 2
    below = _between(edges[:half], codes[: half + 1], value)
    above = _between(edges[half + 1 :], codes[half + 1 :], value)
    return f"CASE WHEN {value} < {edges[half]} THEN {below} ELSE {above} END"


def _range(axis: int, attribute: Attribute) -> Coding:
    last = attribute.size - 1 - len({attribute.null_cell, attribute.other_cell} - {None})
    if attribute.step is not None:
        return _steps(axis, attribute, last)
    value, (low, high) = f"v{axis}", map(_constant, attribute.ends or ())
    below, above = _ends(attribute, last)
    # TRY, since the optimiser may compute it for every record, and then it may overflow.
    place = f"TRY(CAST({value} - {low} AS {_width(attribute)}))"
    special = [
        f"WHEN {value} IS NULL THEN {_null(attribute)}",
        f"WHEN {value} < {low} THEN {below}",
    ]
    if _null(attribute) == below == above:
        special.clear()
    within = f"WHEN {value} BETWEEN {low} AND {high} THEN {place}"
    return Coding(f"CASE {' '.join([within, *special])} ELSE {above} END")


def _steps(axis: int, attribute: Attribute, last: int) -> Coding:
    number = _number(axis, attribute)
    if attribute.clamp:
        place = f"least(greatest({number}, 1), {last + 1}) - 1"
        return Coding(f"CASE WHEN v{axis} IS NULL THEN {_null(attribute)} ELSE {place} END")
    return Coding(
        f"CASE WHEN {number} BETWEEN 1 AND {last + 1} THEN {number} - 1 "
        f"WHEN v{axis} IS NULL THEN {_null(attribute)} "
        f"ELSE {_literal(attribute.other_cell)} END"
    )


def _number(axis: int, attribute: Attribute) -> str:
    """The number of the step, counted from 1, so that below the first one it is less than 1."""
    distance, step = step_number(attribute, f"v{axis}")
    return f"(({distance} + {step}) // {step})"


def clamped(axis: int, attribute: Attribute) -> str:
    """Whether the value ``v{axis}`` lies beyond an end, and is moved to it."""
    if not attribute.clamp or attribute.ends is None:
        return "false"
    if attribute.step is not None:
        return f"{_number(axis, attribute)} NOT BETWEEN 1 AND {len(_declared(attribute))}"
    low, high = map(_constant, attribute.ends)
    return f"v{axis} < {low} OR v{axis} {'>=' if attribute.binned else '>'} {high}"


def _constant(end: Any) -> str:
    """An end of a range or bin in SQL."""
    return f"DATE '{end.isoformat()}'" if isinstance(end, dt.date) else f"({end})"


_BY_KIND: Final = MappingProxyType({"values": _values, "range": _range, "bins": _bins})
