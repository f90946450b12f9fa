"""One block turned around: its record-level part evaluated, its SELECT left over noisy rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, GroupingError, InvalidParameterValue
from tallyveil.rewriter.block import NOISY, Block
from tallyveil.rewriter.check import position
from tallyveil.rewriter.columns import RECORD
from tallyveil.rewriter.database import Cursor
from tallyveil.rewriter.domain_relation import coefficient_query
from tallyveil.rewriter.linearise import column, groups
from tallyveil.rewriter.outputs import Outputs
from tallyveil.rewriter.plan import NoisyTable, Output
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["MAX_GROUPS", "Collected", "Turned", "turn"]

IntArray: TypeAlias = npt.NDArray[np.int64]

MAX_GROUPS: Final = 100_000
_FEW_CELLS: Final = 5_000


class Collected:
    """The distinct columns asked of each table, whichever block asks them."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Column]] = {}
        self._numbers: dict[object, int] = {}

    def add(self, table: str, new: Column) -> int:
        key = (table, new.axes, new.multiplier, new.row_keys)
        columns = self._columns.setdefault(table, [])
        if key not in self._numbers:
            self._numbers[key] = len(columns)
            columns.append(new)
        return self._numbers[key]

    def workloads(self) -> dict[str, Workload]:
        return {table: Workload(table, tuple(c)) for table, c in self._columns.items()}


@dataclass(frozen=True)
class Turned:
    """A block's noisy table, and the SQL that gave its coefficients."""

    table: NoisyTable
    queries: tuple[str, ...]


def turn(block: Block, name: str, cursor: Cursor, collected: Collected) -> Turned:
    """Evaluate the block on the domain and let its SELECT read the noisy table ``name``."""
    outputs = Outputs(block)
    clauses = _over_noisy_rows(block.select, outputs)
    table, queries = _evaluate(block, name, outputs.coefficients, cursor, collected)
    source = exp.to_table(name)
    source.set("alias", exp.TableAlias(this=exp.to_identifier(NOISY, quoted=True)))
    block.select.set("from_", exp.From(this=source))
    for clause, value in clauses.items():
        block.select.set(clause, value)
    return Turned(table, queries)


def _over_noisy_rows(
    select: exp.Select, outputs: Outputs
) -> dict[str, list[exp.Expr] | exp.Expr | None]:
    """The SELECT's clauses over the noisy rows: groups are rows now, so HAVING becomes WHERE."""
    having, order = select.args.get("having"), select.args.get("order")
    return {
        "expressions": [
            exp.Alias(this=outputs.rewrite(item.this), alias=item.args["alias"].copy())
            for item in select.expressions
        ],
        "where": exp.Where(this=outputs.rewrite(having.this)) if having is not None else None,
        "group": None,
        "having": None,
        "order": _order(outputs, order, len(select.expressions)) if order is not None else None,
    }


def _order(outputs: Outputs, order: exp.Order, items: int) -> exp.Order:
    """The number of an item stays; an expression is one of noisy rows."""
    parts = []
    for part in order.expressions:
        copy = part.copy()
        number = part.this
        if not isinstance(number, exp.Literal) or number.is_string:
            copy.set("this", outputs.rewrite(part.this))
        elif not number.this.isdigit() or not 1 <= int(number.this) <= items:
            raise GroupingError(
                f"ORDER BY position {number.this} is not in the select list",
                position=position(number),
            )
        parts.append(copy)
    return exp.Order(expressions=parts)


def _evaluate(
    block: Block,
    name: str,
    coefficients: Sequence[exp.Expr],
    cursor: Cursor,
    collected: Collected,
) -> tuple[NoisyTable, tuple[str, ...]]:
    """The coefficients of every output, each over no more axes than it needs.

    The groups are the same in every part, and so is their order: an axis that decides about no
    group meets each of them with each of its cells.
    """
    keys, height = pa.table({}), 1
    outputs: dict[int, Output] = {}
    queries = []
    for axes, numbers in _parts(block, coefficients):
        wanted = [coefficients[number] for number in numbers]
        query = coefficient_query(block.domain, axes, block.where, block.keys, wanted)
        queries.append(query)
        result = cursor.arrow(query)
        cells = result.column("__cell").to_numpy().astype(np.int64)
        rows = np.zeros(len(cells), dtype=np.int64)
        if block.grouped:
            keys, rows = _groups(result, len(block.keys), cells)
            height = len(keys)
        for place, number in enumerate(numbers):
            values = result.column(f"__c{place}")
            new = column(block.domain, axes, height, rows, cells, values)
            table = block.domain.table
            outputs[number] = Output(table, collected.add(table, new), _value_type(values.type))
    in_order = tuple(outputs[number] for number in range(len(coefficients)))
    return NoisyTable(name, keys, height, in_order), tuple(queries)


def _parts(
    block: Block, coefficients: Sequence[exp.Expr]
) -> list[tuple[frozenset[str], list[int]]]:
    """The outputs in parts, with the attributes each part mentions.

    One query answers all while the cells are few; else outputs of the same attributes go together.
    """
    where = [block.where] if block.where is not None else []
    always = _attributes([*block.keys, *where])
    of_each = [always | _attributes([coefficient]) for coefficient in coefficients]
    together = always.union(*of_each)
    cells = math.prod(axis.size for axis in block.domain.project(together))
    if cells <= _FEW_CELLS or not coefficients:
        return [(together, list(range(len(coefficients))))]
    parts: dict[frozenset[str], list[int]] = {}
    for number, axes in enumerate(of_each):
        parts.setdefault(axes, []).append(number)
    return list(parts.items())


def _attributes(nodes: Sequence[exp.Expr]) -> frozenset[str]:
    columns = (column for node in nodes for column in node.find_all(exp.Column))
    return frozenset(column.name for column in columns if column.table == RECORD)


def _groups(result: pa.Table, count: int, cells: IntArray) -> tuple[pa.Table, IntArray]:
    """(the keys of each group, the group of each row), groups in the order of the domain."""
    names = [f"__k{number}" for number in range(count)]
    _refuse_composite(result.select(names))
    rows, first = groups([result.column(name) for name in names], cells)
    if len(first) > MAX_GROUPS:
        raise InvalidParameterValue(
            f"the statement has {len(first)} groups; the limit is {MAX_GROUPS}",
            hint="Group by fewer attributes or by coarser expressions.",
        )
    return result.select(names).take(pa.array(first)), rows


def _refuse_composite(keys: pa.Table) -> None:
    for kind in keys.schema.types:
        if pa.types.is_nested(kind) or pa.types.is_interval(kind) or pa.types.is_duration(kind):
            raise FeatureNotSupported(
                "groups are formed by numbers, texts, booleans and dates only",
                hint="GROUP BY the parts one by one.",
            )


def _value_type(kind: pa.DataType) -> pa.DataType:
    """BIGINT for whole numbers, as PostgreSQL counts; else what the coefficients are."""
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind) and kind.scale > 0:
        return pa.decimal128(38, kind.scale)
    return pa.int64()
