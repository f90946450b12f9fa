"""One block turned around: its record-level part evaluated, its SELECT left over noisy rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from tallyveil.errors import GroupingError
from tallyveil.rewriter.block import NOISY, Block
from tallyveil.rewriter.check import position
from tallyveil.rewriter.database import Cursor
from tallyveil.rewriter.evaluate import Evaluated, evaluate
from tallyveil.rewriter.outputs import Outputs
from tallyveil.rewriter.plan import NoisyTable, Output
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["Collected", "Turned", "turn"]


class Collected:
    """The distinct columns asked of each table, whichever block asks them."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Column]] = {}
        self._numbers: dict[object, int] = {}

    def add(self, table: str, new: Column) -> int:
        key = (table, new.multiplier, new.row_keys)
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
    evaluated = evaluate(
        block.domain,
        block.source,
        block.where,
        block.keys,
        outputs.coefficients,
        block.grouped,
        cursor,
    )
    table = _noisy_table(block, name, evaluated, collected)
    source = exp.to_table(name)
    source.set("alias", exp.TableAlias(this=exp.to_identifier(NOISY, quoted=True)))
    block.select.set("from_", exp.From(this=source))
    block.select.set("joins", None)
    for clause, value in clauses.items():
        block.select.set(clause, value)
    return Turned(table, evaluated.queries)


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


def _noisy_table(block: Block, name: str, evaluated: Evaluated, collected: Collected) -> NoisyTable:
    table = block.domain.table
    outputs = tuple(
        Output(table, collected.add(table, made.column), _value_type(made.type), made.rows)
        for made in evaluated.outputs
    )
    return NoisyTable(name, evaluated.keys, evaluated.height, outputs)


def _value_type(kind: pa.DataType) -> pa.DataType:
    """BIGINT for whole numbers, as PostgreSQL counts; else what the coefficients are."""
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind) and kind.scale > 0:
        return pa.decimal128(38, kind.scale)
    return pa.int64()
