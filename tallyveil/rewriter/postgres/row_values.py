"""Rows in parentheses, column by column: (a, b) IN ((1, 2), …) is (a = 1 AND b = 2) OR ….

PostgreSQL compares them so, and with a NULL inside the result follows from that of the parts.
DuckDB compares rows as wholes.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

__all__ = ["spell_out_rows"]


def spell_out_rows(tree: exp.Expr) -> None:
    """Replace, in place, =, <> and IN of a row of columns. What else is done with rows stays."""
    for node in list(tree.find_all(exp.EQ, exp.NEQ, exp.In)):
        columns = _parts(node.this)
        found = node.expressions if isinstance(node, exp.In) else [node.expression]
        rows = [_parts(row) for row in found]
        alike = all(len(row) == len(columns) for row in rows)
        if rows and columns and alike and all(isinstance(c, exp.Column) for c in columns):
            same: exp.Expr = _joined(exp.Or, [_equal(columns, row) for row in rows])
            node.replace(exp.Not(this=same) if isinstance(node, exp.NEQ) else same)


def _parts(row: exp.Expr) -> Sequence[exp.Expr]:
    inner = row.unnest()
    return inner.expressions if isinstance(inner, exp.Tuple) else ()


def _equal(columns: Sequence[exp.Expr], row: Sequence[exp.Expr]) -> exp.Expr:
    pairs = zip(columns, row, strict=True)
    return _joined(exp.And, [exp.EQ(this=column.copy(), expression=own) for column, own in pairs])


def _joined(kind: type[exp.Connector], parts: Sequence[exp.Expr]) -> exp.Expr:
    whole, *others = parts
    for other in others:
        whole = kind(this=whole, expression=other)
    return exp.Paren(this=whole)
