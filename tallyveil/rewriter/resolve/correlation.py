"""Queries nested in an expression that mention columns of the query around them.

``EXISTS (SELECT 1 FROM region r WHERE r.state = person.state)`` asks the public table about each
record. Columns that no FROM inside has are looked up in the records' and marked, so that they are
resolved with the rest of the expression; evaluated on the domain, the nested query then means what
it means on the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tallyveil.errors import AmbiguousColumn, FeatureNotSupported
from tallyveil.rewriter.resolve.branches import Records, is_resolved, public_queries
from tallyveil.rewriter.resolve.lookup import Columns
from tallyveil.rewriter.resolve.names import Catalog
from tallyveil.rewriter.resolve.records import OUTER, reads_records, sources
from tallyveil.rewriter.sql.nodes import function_name, position

__all__ = ["mark_outer_columns"]


def mark_outer_columns(part: exp.Expr, records: Records, catalog: Catalog) -> list[exp.Column]:
    """Mark, in the queries nested in ``part``, the columns of the records.

    Returns those that neither the query itself nor the records have.

    Raises FeatureNotSupported, AmbiguousColumn where PostgreSQL and DuckDB might not agree whose a
    column is.
    """
    unknown = []
    for query in public_queries(part):
        found = []
        for column in _Search(records, catalog).free(query, ()):
            if _has(records, column):
                column.meta[OUTER] = True
                found.append(column)
            elif not is_resolved(column):
                unknown.append(column)
        _refuse_aggregates_of_the_record(query, found)
        if found and not isinstance(query.parent, exp.Exists):
            _refuse_limits(query)
    return unknown


@dataclass(frozen=True)
class _From:
    """The names a SELECT's FROM brings in."""

    select: exp.Select
    columns: Columns

    def has(self, column: exp.Column) -> bool:
        """Names that differ in case only are one: DuckDB would take the inner one."""
        tables = sources(self.select)
        if column.table:
            return any(table.alias_or_name.lower() == column.table.lower() for table in tables)
        names = (name for table in tables for name in self.columns.names(table))
        return any(name.lower() == column.name.lower() for name in names)

    @property
    def known(self) -> bool:
        return all(map(self.columns.are_known, sources(self.select)))

    def names_item(self, column: exp.Column) -> bool:
        """Whether an item that is something else is called by the column's name."""
        return any(
            item.alias_or_name.lower() == column.name.lower()
            for item in self.select.expressions
            if not (isinstance(item.unalias(), exp.Column) and item.unalias().name == column.name)
        )


class _Search:
    def __init__(self, records: Records, catalog: Catalog) -> None:
        self._records = records
        self._columns = Columns(catalog)

    def free(self, node: exp.Expr, around: Sequence[_From]) -> Iterator[exp.Column]:
        """The columns below ``node`` that no FROM inside or ``around`` it has."""
        if isinstance(node, exp.Column):
            if not isinstance(node.this, exp.Star) and not self._is_inner(node, around):
                yield node
            return
        if not isinstance(node, exp.Select):
            for child in node.iter_expressions():
                yield from self.free(child, around)
            return
        if reads_records(node):
            return  # a block of its own
        inside = [_From(node, self._columns), *around]
        items = {id(source) for source in sources(node)}
        for child in node.iter_expressions():
            if isinstance(child, exp.From | exp.Join):
                for part in child.iter_expressions():
                    yield from self.free(part, around if id(part) in items else inside)
            else:
                yield from self.free(child, inside)

    def _is_inner(self, column: exp.Column, around: Sequence[_From]) -> bool:
        for level in around:
            if level.has(column):
                return True
            if column.table:
                continue
            ours = self._records.knows(column.name)
            if level.names_item(column):
                if not ours:
                    return True
                raise AmbiguousColumn(
                    f'column reference "{column.name}" is ambiguous',
                    hint="Write it with the name of its table.",
                    position=position(column),
                )
            if not level.known:
                if not ours:
                    return True
                raise FeatureNotSupported(
                    f'whether the subquery has a column "{column.name}" is not clear here',
                    hint="Write it with the name of its table.",
                    position=position(column),
                )
        return False


def _has(records: Records, column: exp.Column) -> bool:
    if column.table:
        return any(field.table == column.table for field in records.fields)
    return records.knows(column.name)


def _refuse_aggregates_of_the_record(query: exp.Expr, outer: Sequence[exp.Column]) -> None:
    """In SQL such an aggregate belongs to the query around, and would combine records."""
    marked = {id(column) for column in outer}
    for node in query.find_all(exp.AggFunc) if outer else ():
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        columns = list(whole.find_all(exp.Column))
        if columns and all(id(column) in marked for column in columns):
            raise FeatureNotSupported(
                f"{function_name(node)} of the record's own attributes, inside a subquery, is "
                "not answered",
                hint="Aggregate columns of the public table there.",
                position=position(node),
            )


def _refuse_limits(query: exp.Expr) -> None:
    """Which of several rows comes first may differ each time."""
    for node in query.find_all(exp.Limit, exp.Fetch, exp.Offset):
        raise FeatureNotSupported(
            "LIMIT in a subquery about the record is not answered",
            hint="Take the min or max of what it finds, or ask whether it EXISTS.",
            position=position(node) or position(query),
        )
