"""Noisy answers as Arrow tables, for the public DuckDB to work on."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tallyveil.errors import NumericValueOutOfRange
from tallyveil.gate.decision import Answered
from tallyveil.gate.known import Known, ends
from tallyveil.rewriter import NoisyTable, Output, Plan, Workload
from tallyveil.rewriter.workload import IntArray

__all__ = ["empty_tables", "noisy_tables"]

_LARGEST_DOUBLE: Final = Fraction(sys.float_info.max)
_EXACT: Final = Context(prec=38)

# Of each output: its value, and the lower and the upper end of its interval.
_KINDS: Final = ("c", "l", "u")

_Values: TypeAlias = list[Fraction | None]


def noisy_tables(plan: Plan, answered: Answered, confidence: Fraction) -> dict[str, pa.Table]:
    """Every noisy table of the plan: keys, values, intervals at the confidence."""
    return {table.name: _table(table, plan.workloads, answered, confidence) for table in plan.noisy}


def _table(
    table: NoisyTable,
    workloads: Mapping[str, Workload],
    answered: Answered,
    confidence: Fraction,
) -> pa.Table:
    arrays = {name: table.keys.column(name) for name in table.keys.column_names}
    for number, output in enumerate(table.outputs):
        multiplier = workloads[output.table].columns[output.column].multiplier
        known = answered.columns[output.table][output.column]
        if output.rows is not None:
            known = tuple(known[row] for row in output.rows.tolist())
        groups = [[k] for k in known] if output.sums is None else _summed(known, output.sums, table)
        for kind, values in zip(_KINDS, _sums(groups, multiplier, confidence), strict=True):
            arrays[f"__{kind}{number}"] = _array(values, output)
    if not arrays:
        return pa.table({"__row": pa.array(range(table.height), pa.int64())})
    return pa.table(arrays)


def _summed(
    known: Sequence[Known | None], places: IntArray, table: NoisyTable
) -> list[list[Known | None]]:
    """The answers of a finer set that make up each group."""
    groups: list[list[Known | None]] = [[] for _ in range(table.height)]
    for one, place in zip(known, places.tolist(), strict=True):
        groups[place].append(one)
    return groups


def _sums(
    groups: Sequence[Sequence[Known | None]],
    multiplier: Fraction,
    confidence: Fraction,
) -> tuple[_Values, _Values, _Values]:
    """Each group's value and the ends of its interval; NULL where history knows only a part."""
    sums: tuple[_Values, _Values, _Values] = ([], [], [])
    for group in groups:
        parts = [row for row in group if row is not None]
        # A group of nothing, as of () where the finer set has no group, is exactly 0.
        whole = ends(parts, confidence) if len(parts) == len(group) else (None, None, None)
        for values, at in zip(sums, whole, strict=True):
            values.append(None if at is None else multiplier * at)
    return sums


def _array(values: list[Fraction | None], output: Output) -> pa.Array:
    return pa.array([None if v is None else _value(v, output.type) for v in values], output.type)


def _value(value: Fraction, kind: pa.DataType) -> Any:
    """Of the Arrow type, cut off after its last decimal.

    Raises NumericValueOutOfRange where it does not fit: noise can exceed any bound, if seldom.
    """
    if pa.types.is_floating(kind):
        if abs(value) > _LARGEST_DOUBLE:
            raise _does_not_fit("double precision")
        return float(value)
    if pa.types.is_decimal(kind):
        units = int(value * 10**kind.scale)
        if abs(units) >= 10**kind.precision:
            raise _does_not_fit(f"numeric({kind.precision}, {kind.scale})")
        return _EXACT.scaleb(Decimal(units), -kind.scale)
    whole = int(value)
    if not -(2**63) <= whole < 2**63:
        raise _does_not_fit("bigint")
    return whole


def _does_not_fit(kind: str) -> NumericValueOutOfRange:
    """About an answer that is bought, noise and all."""
    return NumericValueOutOfRange(
        f"a noisy answer, or an end of its interval, is out of range for type {kind}",
        hint="Divide what is summed up, sum(x / 1000.0), or ask with less noise. What has been "
        "paid for is remembered.",
    )


def empty_tables(plan: Plan) -> dict[str, pa.Table]:
    """The same tables without rows, to learn the types of a statement's result."""
    tables = {}
    for table in plan.noisy:
        schema = [pa.field(n, table.keys.schema.field(n).type) for n in table.keys.column_names]
        for number, output in enumerate(table.outputs):
            schema += [pa.field(f"__{kind}{number}", output.type) for kind in _KINDS]
        tables[table.name] = pa.schema(schema or [pa.field("__row", pa.int64())]).empty_table()
    return tables
