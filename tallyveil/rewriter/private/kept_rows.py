"""Joins that keep public rows without a record: region LEFT JOIN person.

Whether a row is without a record depends on all records, so such rows may only make up groups, and
contribute nothing to an aggregate. The groups are those of the public rows alone: of the answer on
a table without records. The aggregates are sums over the rows that have a record, as in an inner
join.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.domain.domain_relation import guarded, without_records
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.private.block import Block
from tallyveil.rewriter.resolve.branches import DomainSource, names_of
from tallyveil.rewriter.sql.nodes import conjuncts, duckdb_sql, function_name, position

__all__ = ["checked_source"]


def checked_source(
    block: Block, coefficients: Sequence[exp.Expr], cursor: PublicCursor
) -> DomainSource:
    """The block's source; an inner join if WHERE is never true of a row without a record.

    Raises FeatureNotSupported if such a row would contribute to an aggregate, or if groups, or
    conditions that hold for such a row, are not of the public side.
    """
    source, where = block.source, block.where
    if not source.kept:
        return source
    rows = without_records(block.domain, source, where)
    tables = [f'"{join.this.alias}".*' for join in source.branches[0].joins]
    values = [f"{duckdb_sql(guarded(one))} AS __c{n}" for n, one in enumerate(coefficients)]
    found = [f"coalesce(bool_or(__c{n} <> 0), false) AS c{n}" for n in range(len(coefficients))]
    # Equal rows contribute the same, so that they do not cancel out.
    each = f"SELECT {', '.join([*tables, *values])} FROM {rows} GROUP BY ALL"
    answer = cursor.arrow(f"SELECT {', '.join(['count(*) AS n', *found])} FROM ({each})")
    (row,) = answer.to_pylist()
    if not row["n"]:
        return source.inner
    for number, coefficient in enumerate(coefficients):
        if row[f"c{number}"]:
            raise _included(coefficient)
    for part in conjuncts(where) if where is not None else ():
        if not names_of(part) <= source.kept:
            raise FeatureNotSupported(
                "WHERE also holds for public rows that no record matches, so that the groups would "
                "depend on the records",
                hint="Put conditions on records into ON, or use JOIN.",
                position=position(part),
            )
    for key in block.groups.keys:
        if not names_of(key) <= source.kept:
            raise FeatureNotSupported(
                "where all rows of a public table are kept, groups are values of its columns only",
                hint="Name the column of the public table, or use JOIN.",
                position=position(key),
            )
    return source


def _included(coefficient: exp.Expr) -> FeatureNotSupported:
    aggregate = coefficient.find(exp.AggFunc) or coefficient
    star = isinstance(aggregate.this, exp.Star)
    return FeatureNotSupported(
        f"{'count(*)' if star else function_name(aggregate)} would include the public rows that no "
        "record matches",
        hint="Count a column of the protected table, which is NULL in such a row: count(key). Or "
        "use JOIN.",
        position=position(aggregate),
    )
