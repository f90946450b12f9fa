"""From a statement to a `Plan`: what it asks of each protected table, and what to do with it.

The passes, in order:

1. parse, normalise identifiers, refuse what is not understood (`check`)
2. resolve the relations (`names`), bind the parameters and the session's constants
3. take each private block apart (`block`), name the columns, fix the dialect's division
4. evaluate each block's record-level part on the domain relation and make it a `Column`
   per distinct aggregate (`outputs`, `domain_relation`, `linearise`)
5. leave behind the statement over the noisy rows (`Plan.sql`)

Planning touches public facts only, so it is free and may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from tallyveil.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    StatementTooComplex,
)
from tallyveil.policy.domain import Domain
from tallyveil.rewriter import parameters as parameter
from tallyveil.rewriter.block import NOISY, Block, is_aggregate, take_apart
from tallyveil.rewriter.check import check, function_name, position
from tallyveil.rewriter.database import Cursor
from tallyveil.rewriter.division import mark_integer_division, null_on_zero, raise_on_zero
from tallyveil.rewriter.domain_relation import coefficient_query
from tallyveil.rewriter.linearise import column, groups
from tallyveil.rewriter.names import references
from tallyveil.rewriter.naming import name_columns
from tallyveil.rewriter.outputs import Outputs
from tallyveil.rewriter.statements import Dialect, parse_query
from tallyveil.rewriter.vocabulary import SESSION_FUNCTIONS
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["MAX_GROUPS", "NoisyTable", "Output", "Plan", "Rewriter"]

MAX_GROUPS: Final = 100_000


@dataclass(frozen=True)
class Output:
    """An aggregate of a block: which column of which table's workload, in which Arrow type."""

    table: str
    column: int
    type: pa.DataType


@dataclass(frozen=True)
class NoisyTable:
    """The relation a block reads instead of the protected table.

    Its rows are the public groups: ``keys`` (``__k0 …``), then ``__c0 …`` and ``__h0 …``, the
    noisy value and the half-width of its interval, per output.
    """

    name: str
    keys: pa.Table
    height: int
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Plan:
    """``workloads`` by protected table; ``sql`` is DuckDB's, over ``noisy`` and ``relations``.

    ``domain_queries`` are the SQL that gave the coefficients, for EXPLAIN.
    """

    workloads: Mapping[str, Workload]
    noisy: tuple[NoisyTable, ...]
    sql: str
    relations: frozenset[str]
    domain_queries: tuple[str, ...]

    @property
    def private(self) -> bool:
        return any(workload.columns for workload in self.workloads.values())


class Rewriter:
    """Plans statements against the domains of the protected tables.

    ``relations`` are the names of the public relations in schema dp.
    """

    def __init__(self, domains: Mapping[str, Domain], relations: frozenset[str]) -> None:
        self._domains = dict(domains)
        self._relations = relations

    def parameter_types(
        self, sql: str, dialect: Dialect, declared: Sequence[str | None] = ()
    ) -> tuple[str, ...]:
        """The types of $1, $2, …: declared, or inferred from where they stand."""
        tree = self._checked(sql, dialect)
        return parameter.infer(tree, self._columns(tree), declared)

    def uses_session(self, sql: str, dialect: Dialect) -> bool:
        """Whether the statement asks about the session, so that its plan is the session's own."""
        return any(_is_session_function(n) for n in parse_query(sql, dialect).find_all(exp.Func))

    def plan(
        self,
        sql: str,
        dialect: Dialect,
        cursor: Cursor,
        *,
        types: Sequence[str] = (),
        values: Sequence[Any] = (),
        session: Callable[[str, list[str]], Any] = lambda name, arguments: None,
    ) -> Plan:
        """Plan one query.

        ``session`` gives the value of a session function (version, current_user, …).

        Raises a StatementError, whose position counts from the start of ``sql``.
        """
        try:
            tree = self._checked(sql, dialect)
            parameter.bind(tree, types, values)
            _replace_session_functions(tree, session)
            return self._split(tree, dialect, cursor)
        except RecursionError as error:
            raise StatementTooComplex("the statement is nested too deeply") from error

    def _checked(self, sql: str, dialect: Dialect) -> exp.Expr:
        try:
            tree = normalize_identifiers(parse_query(sql, dialect).copy(), dialect=dialect)
            check(tree)
        except RecursionError as error:
            raise StatementTooComplex("the statement is nested too deeply") from error
        return tree

    def _columns(self, tree: exp.Expr) -> dict[str, str]:
        """The types of the attributes a statement could mean, where their names are enough."""
        types: dict[str, str] = {}
        for table in tree.find_all(exp.Table):
            if table.name in self._domains and isinstance(table.this, exp.Identifier):
                for attribute in self._domains[table.name].attributes:
                    types[attribute.name] = attribute.sql_type
        return types

    def _split(self, tree: exp.Expr, dialect: Dialect, cursor: Cursor) -> Plan:
        blocks: list[Block] = []
        used: set[str] = set()
        resolved = list(references(tree, self._domains, self._relations))
        name_columns(tree, dialect)
        for reference in resolved:
            if reference.kind == "dp":
                used.add(reference.name)
                _read_instead(reference.node, f"__dp_{reference.name}", reference.name)
            elif reference.kind == "protected":
                select = reference.node.find_ancestor(exp.Select)
                if select is not None and not any(b.select is select for b in blocks):
                    domain = self._domains[reference.name]
                    blocks.append(take_apart(select, domain, _constants(cursor)))
        if dialect == "postgres":
            mark_integer_division(tree, self._columns(tree))
            for block in blocks:
                _mark(block, self._columns(tree))
        parts = [_BlockPlan(block, number, dialect, cursor) for number, block in enumerate(blocks)]
        collected = _Collected()
        noisy = tuple(part.noisy_table(collected) for part in parts)
        for part in parts:
            part.read_noisy_rows()
        _refuse_stray_intervals(tree)
        outer = null_on_zero(tree) if dialect == "postgres" else tree
        return Plan(
            {t: Workload(t, tuple(columns)) for t, columns in collected.columns.items()},
            noisy,
            outer.sql("duckdb", identify=True),
            frozenset(used),
            tuple(part.query for part in parts),
        )


class _Collected:
    """The distinct columns asked of each table, whichever block asks them."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Column]] = {}
        self._numbers: dict[object, int] = {}

    def add(self, table: str, new: Column) -> int:
        key = (table, new.axes, new.multiplier, new.row_keys)
        columns = self.columns.setdefault(table, [])
        if key not in self._numbers:
            self._numbers[key] = len(columns)
            columns.append(new)
        return self._numbers[key]


class _BlockPlan:
    """One block on its way: outputs found, coefficients evaluated, SELECT turned around."""

    def __init__(self, block: Block, number: int, dialect: Dialect, cursor: Cursor) -> None:
        self._block = block
        self._name = f"__noisy_{number}"
        outputs = Outputs(block)
        select = block.select
        self._items = [
            exp.alias_(outputs.rewrite(item.this), item.args["alias"].copy())
            for item in select.expressions
        ]
        having, order = select.args.get("having"), select.args.get("order")
        self._having = outputs.rewrite(having.this) if having is not None else None
        self._order = (
            [_rewritten_order(outputs, part) for part in order.expressions] if order else None
        )
        guard = raise_on_zero if dialect == "postgres" else _as_it_is
        self.query = coefficient_query(
            block.domain,
            block.mentioned,
            guard(block.where) if block.where is not None else None,
            [guard(key) for key in block.keys],
            [guard(c) for c in outputs.coefficients],
        )
        self._result = cursor.arrow(self.query)

    def noisy_table(self, collected: _Collected) -> NoisyTable:
        result, block = self._result, self._block
        names = result.column_names
        key_names = [name for name in names if name.startswith("__k")]
        cells = result.column("__cell").to_numpy().astype(np.int64)
        if block.grouped:
            rows, first = groups([result.column(name) for name in key_names], cells)
            height = len(first)
            keys = result.select(key_names).take(pa.array(first))
        else:
            rows, height, keys = np.zeros(len(cells), dtype=np.int64), 1, pa.table({})
        if height > MAX_GROUPS:
            raise InvalidParameterValue(
                f"the statement has {height} groups; the limit is {MAX_GROUPS}",
                hint="Group by fewer attributes or by coarser expressions.",
            )
        outputs = []
        for name in names[len(key_names) + 1 :]:
            values = result.column(name)
            new = column(block.domain, block.mentioned, height, rows, cells, values)
            number = collected.add(block.domain.table, new)
            outputs.append(Output(block.domain.table, number, _value_type(values.type)))
        return NoisyTable(self._name, keys, height, tuple(outputs))

    def read_noisy_rows(self) -> None:
        select = self._block.select
        table = exp.to_table(self._name)
        table.set("alias", exp.TableAlias(this=exp.to_identifier(NOISY, quoted=True)))
        select.set("expressions", self._items)
        select.set("from_", exp.From(this=table))
        select.set("where", exp.Where(this=self._having) if self._having is not None else None)
        select.set("group", None)
        select.set("having", None)
        if self._order is not None:
            select.set("order", exp.Order(expressions=self._order))


def _as_it_is(node: exp.Expr) -> exp.Expr:
    return node


def _rewritten_order(outputs: Outputs, part: exp.Expr) -> exp.Expr:
    copy = part.copy()
    copy.set("this", outputs.rewrite(part.this))
    return copy


def _refuse_stray_intervals(tree: exp.Expr) -> None:
    for node in tree.find_all(exp.Anonymous):
        if function_name(node).startswith("dp_"):
            raise FeatureNotSupported(
                f"{function_name(node)} belongs into the SELECT that aggregates",
                hint=f"SELECT count(*) AS n, {function_name(node)}(n) FROM …",
                position=position(node),
            )


def _mark(block: Block, columns: Mapping[str, str]) -> None:
    """The same division in the copies a block keeps as in the tree."""
    holder = exp.Tuple(expressions=[*block.keys, *([block.where] if block.where else [])])
    mark_integer_division(holder, columns)
    parts = list(holder.expressions)
    block.keys = parts[: len(block.keys)]
    block.where = parts[len(block.keys)] if block.where else None


def _value_type(kind: pa.DataType) -> pa.DataType:
    """BIGINT for whole numbers, as PostgreSQL counts; else what the coefficients are."""
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind) and kind.scale > 0:
        return pa.decimal128(38, kind.scale)
    return pa.int64()


def _read_instead(table: exp.Table, name: str, alias: str) -> None:
    kept = table.alias or alias
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", None)
    table.set("alias", exp.TableAlias(this=exp.to_identifier(kept, quoted=True)))


def _constants(cursor: Cursor) -> Callable[[exp.Expr], Any]:
    def constant(node: exp.Expr) -> Any:
        """The value of a constant expression; plain numbers without asking DuckDB."""
        inner = node.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return float(inner.this) if not inner.this.isdigit() else int(inner.this)
        _, rows = cursor.rows(f"SELECT {node.sql('duckdb', identify=True)}")
        return rows[0][0]

    return constant


def _is_session_function(node: exp.Func) -> bool:
    return not is_aggregate(node) and function_name(node) in SESSION_FUNCTIONS


def _replace_session_functions(tree: exp.Expr, session: Callable[[str, list[str]], Any]) -> None:
    for node in list(tree.find_all(exp.Func)):
        if not _is_session_function(node):
            continue
        name = function_name(node)
        arguments = [argument.name for argument in node.iter_expressions()]
        value = exp.convert(session(name, arguments))
        target = node.parent if isinstance(node.parent, exp.Dot) else node
        item = target.parent
        if isinstance(item, exp.Select):
            value = exp.alias_(value, name, quoted=True)
        target.replace(value)
