"""One block turned around: its record-level part evaluated, its SELECT left over noisy rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementTooComplex
from tallyveil.rewriter.domain.components import Asked
from tallyveil.rewriter.domain.evaluate import WIDE, Evaluated, EvaluatedOutput, evaluate
from tallyveil.rewriter.domain.parts import ComponentParts
from tallyveil.rewriter.engine.cursor import PublicCursor
from tallyveil.rewriter.plan import Caution, NoisyTable, Output
from tallyveil.rewriter.private.block import NOISY, Block
from tallyveil.rewriter.private.claims import evaluator
from tallyveil.rewriter.private.grouping import Grouping, choose, sums
from tallyveil.rewriter.private.moments import centring
from tallyveil.rewriter.private.outputs import Outputs
from tallyveil.rewriter.private.undeclared import unmet
from tallyveil.workload.workload import Column, IntArray, Summed, Workload

__all__ = ["Collected", "Turned", "release", "turn"]

MAX_ROWS: Final = 300_000


class Collected:
    """The distinct columns asked of each table, whichever block asks them.

    Raises StatementTooComplex where they and what is summed up from them have more than MAX_ROWS
    rows: each costs a draw of noise and a place in the ledger, or a probability to work out.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[str, list[Column]] = {}
        self._numbers: dict[object, int] = {}
        self._summed: dict[str, list[Summed]] = {}

    def count(self, rows: int) -> None:
        deadline.check()
        self._rows += rows
        if self._rows > MAX_ROWS:
            raise StatementTooComplex(
                f"the statement asks for {self._rows} numbers; the limit is {MAX_ROWS}",
                hint="Ask for fewer groups or fewer aggregates, or in several statements.",
            )

    def add(self, table: str, new: Column) -> int:
        key = (table, new.multiplier, new.row_keys)
        columns = self._columns.setdefault(table, [])
        if key not in self._numbers:
            self._numbers[key] = len(columns)
            columns.append(new)
        return self._numbers[key]

    def unit(self, table: str, number: int) -> Fraction:
        """Of a column that was added."""
        return self._columns[table][number].multiplier

    def add_up(self, table: str, new: Summed) -> int:
        """Its number among those of the table."""
        every = self._summed.setdefault(table, [])
        every.append(new)
        return len(every) - 1

    @property
    def summed(self) -> dict[str, tuple[Summed, ...]]:
        return {table: tuple(every) for table, every in self._summed.items()}

    def workloads(self) -> dict[str, Workload]:
        return {table: Workload(table, tuple(c)) for table, c in self._columns.items()}


@dataclass(frozen=True)
class Turned:
    """A block as it was evaluated, what its noisy tables are called, what was chosen, and what the
    analyst should know.
    """

    block: Block
    name: str
    outputs: Outputs
    evaluated: tuple[Evaluated, ...]
    tables: tuple[NoisyTable, ...]
    remarks: tuple[str, ...]
    cautions: tuple[Caution, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        """The SQL that gave the coefficients."""
        return tuple(query for one in self.evaluated for query in one.queries)


def turn(
    block: Block,
    name: str,
    cursor: PublicCursor,
    collected: Collected,
    parts: ComponentParts,
    share: bool,
) -> Turned:
    """Evaluate the block on the domain and let its SELECT read noisy tables called ``name``….

    ``share`` lets one release serve several grouping sets.
    """
    outputs = Outputs(block, centring(block, cursor), evaluator(cursor))
    clauses = _over_noisy_rows(block.select, outputs)
    coefficients = dict(enumerate(outputs.coefficients))
    evaluated = []
    for numbers in block.groups.sets:
        keys = [block.groups.keys[number] for number in numbers]
        asked = Asked(block.domain, block.source, block.where, keys, coefficients)
        evaluated.append(evaluate(asked, cursor, parts))
        collected.count(evaluated[-1].height * outputs.width)
    tables, remarks = release(block, name, evaluated, collected, outputs, share)
    joined = not block.source.plain
    cautions = block.cautions or unmet(
        block.where, joined, outputs.coefficients, evaluated, outputs.cancelled
    )
    block.select.set("from_", exp.From(this=_source(tables)))
    block.select.set("joins", None)
    for clause, value in clauses.items():
        block.select.set(clause, value)
    return Turned(block, name, outputs, tuple(evaluated), tables, remarks, cautions)


def _source(tables: Sequence[NoisyTable]) -> exp.Expr:
    """The tables of the grouping sets, one below the other."""
    alias = exp.TableAlias(this=exp.to_identifier(NOISY, quoted=True))
    if len(tables) == 1 and not _wide(tables[0]):
        source: exp.Expr = exp.Table(this=exp.to_identifier(tables[0].name))
    else:
        rows: exp.Query = _rows(tables[0])
        for table in tables[1:]:
            rows = exp.union(rows, _rows(table), distinct=False, copy=False)
        source = exp.Subquery(this=rows)
    source.set("alias", alias)
    return source


def _rows(table: NoisyTable) -> exp.Query:
    """All of a table; integers beyond 64 bits, which Arrow has as decimals, as such."""
    integers = [
        exp.alias_(exp.cast(exp.column(name, quoted=True), "hugeint", dialect="duckdb"), name)
        for number in _wide(table)
        for name in (f"__c{number}", f"__l{number}", f"__u{number}")
    ]
    star = exp.Star(replace=integers) if integers else exp.Star()
    return exp.select(star).from_(table.name)


def _wide(table: NoisyTable) -> list[int]:
    """The numbers of the outputs that are integers beyond 64 bits."""
    return [number for number, output in enumerate(table.outputs) if output.type == WIDE]


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
        "order": _order(outputs, order) if order is not None else None,
    }


def _order(outputs: Outputs, order: exp.Order) -> exp.Order:
    """The number of an item stays; an expression is one of noisy rows."""
    parts = []
    for part in order.expressions:
        copy = part.copy()
        number = part.this
        if not isinstance(number, exp.Literal) or number.is_string:
            copy.set("this", outputs.rewrite(part.this))
        parts.append(copy)
    return exp.Order(expressions=parts)


def release(
    block: Block,
    name: str,
    evaluated: Sequence[Evaluated],
    collected: Collected,
    wanted: Outputs,
    share: bool,
) -> tuple[tuple[NoisyTable, ...], tuple[str, ...]]:
    """A noisy table for each grouping set, released or summed up from another, and which it is."""
    groups, about = block.groups, (tuple(wanted.deviations), tuple(wanted.claims))
    if not groups.several:
        outputs = _outputs(block, evaluated[0], collected)
        table = NoisyTable(name, evaluated[0].keys, evaluated[0].height, outputs, *about)
        return (table,), ()
    keys = [_keys(groups, number, evaluated) for number in range(len(evaluated))]
    heights = [one.height for one in evaluated]
    sources = choose(groups.sets, heights) if share else list(map(groups.sets.index, groups.sets))
    tables = []
    for number, own in enumerate(groups.sets):
        source = sources[number]
        names = [f"__k{key}" for key in own]
        places = None if groups.sets[source] == own else sums(keys[source], keys[number], names)
        if places is not None and _adds_twice(evaluated[source], places):
            places = None
        if places is None:
            sources[number] = source = groups.sets.index(own)
        outputs = _outputs(block, evaluated[source], collected)
        if places is not None:
            pairs = zip(outputs, evaluated[number].outputs, strict=True)
            outputs = tuple(_summed(fine, own, places, collected) for fine, own in pairs)
        tables.append(
            NoisyTable(f"{name}_{number}", keys[number], evaluated[number].height, outputs, *about)
        )
    return tuple(tables), _remarks(groups, sources)


def _outputs(block: Block, evaluated: Evaluated, collected: Collected) -> tuple[Output, ...]:
    table = block.domain.table
    outputs = []
    for one in evaluated.outputs:
        column, rows = _distinct(one)
        outputs.append(Output(table, collected.add(table, column), one.type, rows))
    return tuple(outputs)


def _summed(
    fine: Output, coarse: EvaluatedOutput, places: IntArray, collected: Collected
) -> Output:
    """An output of a set whose groups are the sums of those groups of a finer one's that have their
    ``places``; of groups that are one row, the first is."""
    column, rows = _distinct(coarse)
    parts = np.arange(len(places)) if fine.rows is None else fine.rows
    if rows is not None:
        first = np.unique(rows, return_index=True)[1]
        kept = first[rows[places]] == places
        parts, places = parts[kept], rows[places[kept]]
    unit = collected.unit(fine.table, fine.column)
    own = Summed(column.in_units(unit), fine.column, parts, places)
    return Output(fine.table, collected.add_up(fine.table, own), fine.type, rows, summed=True)


def _distinct(output: EvaluatedOutput) -> tuple[Column, IntArray | None]:
    """The column with equal rows once, so that they are paid for once, and each group's row.

    Public rows that match the same records make equal rows of the groups they stand for.
    """
    keys = output.column.row_keys
    first: dict[bytes, int] = {}
    number = [first.setdefault(key, len(first)) for key in deadline.stoppable(keys)]
    if len(first) == output.column.height:
        return output.column, output.rows
    rows = np.array(number, dtype=np.int64)
    kept = np.unique(rows, return_index=True)[1]
    deadline.check()
    return output.column.take(kept), rows if output.rows is None else rows[output.rows]


def _adds_twice(evaluated: Evaluated, places: IntArray) -> bool:
    """Whether a sum over these groups would hold one answer, with its noise, more than once.

    The interval around a sum takes the noise of its parts to be independent.
    """
    for output in evaluated.outputs:
        keys = output.column.row_keys
        rows = range(len(places)) if output.rows is None else output.rows.tolist()
        parts = {(place, keys[row]) for place, row in zip(places.tolist(), rows, strict=True)}
        if len(parts) < len(places):
            return True
    return False


def _keys(groups: Grouping, number: int, evaluated: Sequence[Evaluated]) -> pa.Table:
    """All keys, NULL where the set is without one, and ``__g…``, 1 there and 0 elsewhere."""
    own, height = groups.sets[number], evaluated[number].height
    columns: dict[str, pa.Array] = {}
    for key in range(len(groups.keys)):
        holder = next(n for n, keys in enumerate(groups.sets) if key in keys)
        place = groups.sets[holder].index(key)
        if key in own:
            columns[f"__k{key}"] = evaluated[number].keys.column(f"__k{own.index(key)}")
        else:
            kind = evaluated[holder].keys.column(f"__k{place}").type
            columns[f"__k{key}"] = pa.nulls(height, kind)
    for key in range(len(groups.keys)):
        columns[f"__g{key}"] = pa.array([int(key not in own)] * height, pa.int64())
    return pa.table(columns)


def _remarks(groups: Grouping, sources: Sequence[int]) -> tuple[str, ...]:
    names = [_spoken(key) for key in groups.keys]
    shown = ["(" + ", ".join(names[key] for key in keys) + ")" for keys in groups.sets]
    remarks = []
    for number, source in enumerate(sources):
        if groups.sets[number] == groups.sets[source]:
            remarks.append(f"Grouping set {shown[number]}: released")
        else:
            remarks.append(f"Grouping set {shown[number]}: summed up from {shown[source]}")
    return tuple(remarks)


def _spoken(key: exp.Expr) -> str:
    """A key without the names of our own tables."""
    holder = exp.Paren(this=key.copy())
    for column in holder.find_all(exp.Column):
        column.set("table", None)
        column.this.set("quoted", False)
    return str(holder.this.sql("postgres"))
