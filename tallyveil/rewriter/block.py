"""A private block: one aggregating SELECT over one protected table, taken apart.

What each record contributes (WHERE, group keys, arguments of the aggregates) becomes SQL over the
domain relation; what happens to the groups (HAVING, ORDER BY, LIMIT, expressions of aggregates)
stays behind as SQL over the noisy rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, GroupingError
from tallyveil.policy.domain import Domain
from tallyveil.rewriter import vocabulary as known
from tallyveil.rewriter.bins import check_bins
from tallyveil.rewriter.check import function_name, position
from tallyveil.rewriter.columns import RECORD, own_nodes, raw_rows, resolve_columns

__all__ = ["NOISY", "Block", "is_aggregate", "take_apart"]

NOISY: Final = "__noisy"


@dataclass
class Block:
    """The record-level parts of one SELECT, every column in them resolved to an attribute.

    ``select`` is the node in the statement's tree that will read the noisy rows instead.
    """

    select: exp.Select
    domain: Domain
    where: exp.Expr | None
    keys: list[exp.Expr]
    grouped: bool


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node aggregates records: a window's own function does not."""
    if isinstance(node, exp.Filter):
        return isinstance(node.this, exp.AggFunc) and not isinstance(node.parent, exp.Window)
    if not isinstance(node, exp.AggFunc):
        return False
    outer = node.parent
    if isinstance(outer, exp.Filter) and outer.this is node:
        outer = outer.parent
    return not isinstance(outer, exp.Window)


def take_apart(select: exp.Select, domain: Domain, constant: Callable[[exp.Expr], Any]) -> Block:
    """Check one SELECT that reads a protected table and find its record-level parts.

    Raises:
        FeatureNotSupported: raw rows, joins, subqueries below the aggregation, other aggregates.
        UndefinedColumn, GroupingError, BinCut: as PostgreSQL would name them.
    """
    for join in select.args.get("joins") or ():
        raise FeatureNotSupported(
            "a join with a protected table is not answered",
            hint="Ask about one protected table at a time; join the results of two queries.",
            position=position(join),
        )
    resolve_columns(select, domain)
    keys, grouped = _keys(select)
    if not grouped and not _aggregates(select):
        raise raw_rows(select)
    where = select.args.get("where")
    record_level = [*([where.this] if where else []), *keys]
    for part in record_level:
        _check_record_level(part)
    for node in own_nodes(select):
        if isinstance(node, exp.AggFunc) and is_aggregate(node):
            _check_aggregate(node)
    columns = [n for n in own_nodes(select) if isinstance(n, exp.Column) and n.table == RECORD]
    for column in columns:
        attribute = domain[column.name]
        if attribute.kind == "bins":
            check_bins(column, attribute, constant)
    return Block(
        select,
        domain,
        where.this.copy() if where else None,
        [key.copy() for key in keys],
        grouped,
    )


def _aggregates(select: exp.Select) -> bool:
    return any(is_aggregate(node) for node in own_nodes(select))


def _check_record_level(part: exp.Expr) -> None:
    for node in part.walk():
        if isinstance(node, exp.Query):
            raise FeatureNotSupported(
                "a subquery below the aggregation is not answered",
                hint="Write the condition on the table's own attributes.",
                position=position(node),
            )
        if isinstance(node, exp.Window):
            raise FeatureNotSupported(
                "a window function below the aggregation is not answered",
                hint="Aggregate first; windows over the noisy rows are answered.",
                position=position(node),
            )
        if is_aggregate(node):
            raise GroupingError(
                "aggregate functions are not allowed in WHERE, GROUP BY or in an aggregate",
                position=position(node),
            )


def _check_aggregate(node: exp.AggFunc) -> None:
    name = function_name(node)
    if type(node) not in known.AGGREGATES:
        raise FeatureNotSupported(
            f"{name} over records is not answered",
            hint=known.REFUSED_AGGREGATES.get(
                type(node), "COUNT, SUM and AVG over records are answered."
            ),
            position=position(node),
        )
    argument = node.this
    if isinstance(argument, exp.Distinct):
        raise FeatureNotSupported(
            f"{name}(DISTINCT …) is not answered: one record can change it and a thousand not",
            hint="SELECT DISTINCT attribute lists the declared values, free of charge; "
            "SELECT attribute, count(*) … GROUP BY attribute says how many records hold each.",
            position=position(node),
        )
    if isinstance(argument, exp.Order) or argument is None:
        raise FeatureNotSupported(
            f"{name} takes one argument, without ORDER BY", position=position(node)
        )
    if isinstance(argument, exp.Star) and not isinstance(node, exp.Count):
        raise FeatureNotSupported(f"{name}(*) is not answered", position=position(node))
    if not isinstance(argument, exp.Star):
        _check_record_level(argument)
    outer = node.parent
    if isinstance(outer, exp.Filter) and outer.this is node:
        _check_record_level(outer.expression.this)
    if not isinstance(node, exp.Count):
        for column in argument.find_all(exp.Column):
            if isinstance(column.parent, exp.Sum | exp.Avg) and column.meta.get("binned"):
                raise FeatureNotSupported(
                    f"{name} of the binned attribute {column.name} is not answered: "
                    "its values are known by bins only",
                    hint="Ask the custodian to declare a range, or count per bin: "
                    f"SELECT {column.name}, count(*) … GROUP BY {column.name}.",
                    position=position(node),
                )


def _keys(select: exp.Select) -> tuple[list[exp.Expr], bool]:
    """The group keys, each once, and whether the block is grouped at all."""
    group = select.args.get("group")
    items = [item.unalias() for item in select.expressions]
    if group is None:
        if select.args.get("distinct") and not _aggregates(select):
            return _distinct(items), True
        return [], False
    if group.args.get("all"):
        every = _distinct([i for i in items if not any(map(is_aggregate, i.walk()))])
        return every, bool(every)
    keys: list[exp.Expr] = []
    for part in group.expressions:
        whole = part.unnest()
        for key in whole.expressions if isinstance(whole, exp.Tuple) else [whole]:
            number = isinstance(key, exp.Literal) and not key.is_string and "named" not in key.meta
            keys.append(_ordinal(key, items) if number else key)
    return _distinct(keys), bool(keys)


def _ordinal(key: exp.Literal, items: list[exp.Expr]) -> exp.Expr:
    number = int(key.this) if key.this.isdigit() else 0
    if not 1 <= number <= len(items):
        raise GroupingError(
            f"GROUP BY position {key.this} is not in the select list", position=position(key)
        )
    return items[number - 1]


def _distinct(keys: list[exp.Expr]) -> list[exp.Expr]:
    unique: list[exp.Expr] = []
    for key in keys:
        if key not in unique:
            unique.append(key)
    return unique
