"""A private block: one SELECT that aggregates records of a protected table.

What each record contributes (WHERE, group keys, arguments of the aggregates) becomes SQL over the
domain relation. What happens to the groups (HAVING, ORDER BY, LIMIT, expressions of aggregates)
remains SQL over the noisy rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import FeatureNotSupported
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.domain.cell_checks import check_cells
from tallyveil.rewriter.private.grouping import Grouping, grouping
from tallyveil.rewriter.private.undeclared import MAX_CAUTIONS, cautions
from tallyveil.rewriter.query_plan import Caution
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.branches import RECORD, UNION, DomainSource, Records, own_columns
from tallyveil.rewriter.resolve.columns import resolve_columns, unaggregated
from tallyveil.rewriter.resolve.from_clause import FromClause
from tallyveil.rewriter.resolve.record_queries import is_aggregate, own_nodes
from tallyveil.rewriter.sql import vocabulary as known
from tallyveil.rewriter.sql.nodes import conjunction, filtered, function_name, visit

__all__ = ["NOISY", "Block", "read_block"]

NOISY: Final = "__noisy"


@dataclass
class Block:
    """The record-level parts of one SELECT, with every column resolved to an attribute.

    ``select`` is the node in the statement's tree that will read the noisy rows instead.
    ``cautions`` warn of constants that match no declared value. ``last`` is the last day that is
    over, of a table that grows. ``extremes``: whether MIN and MAX of several values are answered,
    as quantiles.
    """

    select: exp.Select
    domain: Domain
    source: DomainSource
    where: exp.Expr | None
    groups: Grouping
    cautions: tuple[Caution, ...] = ()
    last: dt.date | None = None
    extremes: bool = False


def read_block(
    select: exp.Select,
    from_clause: FromClause,
    constant: Callable[[exp.Expr], Any],
    bound: Bound,
) -> Block:
    """Check one SELECT that reads records and return its record-level parts.

    ``constant`` evaluates a constant expression; ``bound`` has those in VALUES.

    Raises:
        FeatureNotSupported: for raw rows, rows of no record or of several, other aggregates.
        UndefinedColumn, GroupingError, BinCut: as PostgreSQL would name them.
    """
    records = from_clause.read(select)
    from_clause.mark(select, records)
    resolve_columns(select, records, bound)
    groups, nodes = grouping(select), own_nodes(select)
    aggregates = [n for n in nodes if isinstance(n, exp.AggFunc) and is_aggregate(n)]
    if not select.args.get("group") and not groups.keys and not aggregates:
        raise unaggregated(select)
    where = select.args.get("where")
    for part in [*([where.this] if where else []), *groups.keys]:
        from_clause.check(part, records)
    visit(aggregates, lambda node: _check_aggregate(node, from_clause, records))
    own = [node for node in nodes if isinstance(node, exp.Column)]
    used = {int(column.name[1:]) for column in own if column.table == UNION}
    source = DomainSource(records.branches, sorted(used))
    constants, zone = _constants(records, bound), from_clause.time_zone
    found: list[Caution] = []
    for column, attribute in _attribute_columns(own, records, source):
        deadline.check()
        if column.meta.get("over"):
            continue
        check_cells(column, attribute, constant, zone)
        if len(found) < MAX_CAUTIONS:
            found += cautions(column, attribute, records.domain.table, zone, constants)
    deadline.check()
    conditions = [where.this] if where else []
    if len(records.branches) == 1:
        conditions = [*records.branches[0].where, *conditions]
    return Block(
        select,
        records.domain,
        source,
        conjunction([c.copy() for c in conditions]) if conditions else None,
        groups,
        tuple(dict.fromkeys(found)),
        from_clause.last_day(records.domain.table),
    )


def _constants(records: Records, bound: Bound) -> Callable[[exp.Expr], Sequence[exp.Expr]]:
    joined = {join.this.alias: join.this for b in records.branches for join in b.joins}

    def constants(node: exp.Expr) -> Sequence[exp.Expr]:
        """The constants that an expression stands for, such as a joined column of VALUES."""
        inner = node.unnest()
        if isinstance(inner, exp.Column) and inner.table in joined:
            return bound.in_source(joined[inner.table], inner.name).constants
        return bound.of(node).constants

    return constants


def _attribute_columns(
    own: Sequence[exp.Column], records: Records, source: DomainSource
) -> Iterator[tuple[exp.Column, Attribute]]:
    """Yield each column, of ``own`` or of branches, that is an attribute, with the attribute."""
    domain = records.domain
    parts = [join.args["on"] for b in records.branches for join in b.joins if join.args.get("on")]
    parts += [condition for branch in records.branches for condition in branch.where]
    parts += [branch.values[number] for branch in records.branches for number in source.used]
    below = [exp.Alias(this=part.copy()) for part in parts]
    columns = [column for part in below for column in own_columns(part)]
    for column in [*columns, *own]:
        if column.table == RECORD:
            yield column, domain[column.name]
        elif column.table == UNION:
            number = int(column.name[1:])
            for value in (branch.values[number].unnest() for branch in records.branches):
                if isinstance(value, exp.Column) and value.table == RECORD:
                    yield column, domain[value.name]


def _check_aggregate(node: exp.AggFunc, from_clause: FromClause, records: Records) -> None:
    name = function_name(node)
    if isinstance(node, exp.Grouping):
        return
    if type(node) not in known.AGGREGATES:
        raise FeatureNotSupported(
            f"{name} over records is not answered",
            hint=known.REFUSED_AGGREGATES.get(type(node), known.ANSWERED),
        )
    argument = node.this
    distinct = isinstance(argument, exp.Distinct)
    if distinct and not isinstance(node, exp.Count):
        raise FeatureNotSupported(
            f"{name}(DISTINCT …) is not answered: it is not a sum over records",
            hint="count(DISTINCT attribute) is answered, and SELECT DISTINCT attribute lists the "
            "declared values, free of charge.",
        )
    if isinstance(argument, exp.Order) or argument is None:
        raise FeatureNotSupported(
            f"{name} takes one argument, without ORDER BY",
            hint="count(*) counts the records." if isinstance(node, exp.Count) else None,
        )
    if not isinstance(argument, exp.Star):
        for value in node.iter_expressions():
            from_clause.check(value, records)
    whole = filtered(node)
    if whole is not node:
        from_clause.check(whole.expression.this, records)
    if distinct or not isinstance(node, exp.Count):
        for column in node.find_all(exp.Column):
            alone = type(column.parent) in (*known.AGGREGATES, exp.Distinct, exp.Tuple)
            if alone and column.meta_get("coarse"):
                raise FeatureNotSupported(
                    f"{name} of the binned attribute {column.name} is not answered: "
                    "only the bins of its values are known",
                    hint="Ask the custodian to declare a range, or count per bin: "
                    f"SELECT {column.name}, count(*) … GROUP BY {column.name}.",
                )
