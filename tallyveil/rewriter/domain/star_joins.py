"""Joins with public tables as parts of a block that may be evaluated apart.

A star schema joins a table of records with several public tables, each by attributes of its own. A
condition in the ON of an inner join that does not mention the joined table is one of WHERE, since
the joins that follow keep the record's side. In ON it would only tie attributes together.
"""

from __future__ import annotations

from sqlglot import exp

from tallyveil.rewriter.resolve.branches import DomainSource, names_of
from tallyveil.rewriter.sql.nodes import conjunction, conjuncts

__all__ = ["joined_parts"]


def joined_parts(source: DomainSource) -> tuple[list[exp.Join], list[exp.Expr]]:
    """The joins of the source's only branch, and the conditions of ON that belong to WHERE.

    Of a join that keeps public rows, only rows with a record are those of a cell: an inner join.
    """
    joins: list[exp.Join] = []
    moved: list[exp.Expr] = []
    for join in source.branches[0].joins:
        condition = join.args.get("on")
        if join.side == "LEFT" or condition is None:
            joins.append(join)
            continue
        own: list[exp.Expr] = []
        for part in conjuncts(condition):
            (own if join.this.alias in names_of(part) else moved).append(part)
        inner = exp.Join(this=join.this.copy(), kind=None if own else "CROSS")
        if own:
            inner.set("on", conjunction([part.copy() for part in own]))
        joins.append(inner)
    return joins, moved
