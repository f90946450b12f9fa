"""Items of FROM below an aggregation: public tables beside records, and UNION ALL of records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    AnswerNeeded,
    FeatureNotSupported,
    SQLSyntaxError,
    StatementTooComplex,
    UndefinedColumn,
)
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.resolve.branches import RECORD, Branch, Field, Records
from tallyveil.rewriter.resolve.catalog_names import Catalog
from tallyveil.rewriter.resolve.record_queries import KIND, holds_noise
from tallyveil.rewriter.sql.nodes import as_type, duckdb_sql, position

__all__ = ["PublicItems", "refuse_protected", "unite"]


class PublicItems:
    """The public items of one FROM, each with an internal alias."""

    def __init__(self, catalog: Catalog, cursor: PublicCursor) -> None:
        self._catalog = catalog
        self._cursor = cursor
        self._numbers = count()

    def read(self, source: exp.Expr) -> tuple[exp.Expr, list[Field]]:
        """Return the item with its alias, and its columns by their names in the statement."""
        copy = source.copy()
        columns = list(copy.args["alias"].columns) if copy.args.get("alias") is not None else []
        name = exp.to_identifier(f"__joined_{next(self._numbers)}", quoted=True)
        copy.set("alias", exp.TableAlias(this=name, columns=columns))
        if isinstance(source, exp.Table) and source.meta_get(KIND) == "public" and not columns:
            names = list(self._catalog.public[source.name.removeprefix("__public_")])
        else:
            names = self._described(copy, source)
        return copy, [Field(source.alias_or_name, name) for name in names]

    def _described(self, query: exp.Expr, written: exp.Expr) -> list[str]:
        """The names of a public query's columns.

        Raises FeatureNotSupported if it reads anything but public tables, such as the record.
        """
        refuse_protected(query, written)
        try:
            sql = duckdb_sql(query)
            # A table, VALUES, or a subquery with an alias stands in FROM.
            item = isinstance(query, exp.Table | exp.Values) or query.alias
            described = self._cursor.describe(f"SELECT * FROM {sql}" if item else sql)
        except UndefinedColumn as error:
            raise FeatureNotSupported(
                "a subquery in FROM below the aggregation sees only its own tables",
                detail=error.message,
                hint="Join the public table, and compare with the record in ON.",
                position=position(written),
            ) from None
        return [name for name, _ in described]


def refuse_protected(query: exp.Expr, written: exp.Expr) -> None:
    """Raise FeatureNotSupported for a query that reads anything but public tables."""
    kinds = {table.meta_get(KIND) for table in query.find_all(exp.Table)}
    if "dp" in kinds and not kinds & {"protected", "common"}:
        raise FeatureNotSupported(
            "the relations of schema dp are not answered below an aggregation",
            hint="Aggregate first, and join the relation to the result: "
            "SELECT … FROM (SELECT count(*) AS n FROM …) AS t, dp.budget",
            position=position(written),
        )
    if holds_noise(query) or "protected" in kinds:
        kind = AnswerNeeded if holds_noise(query) else FeatureNotSupported
        raise kind(
            "a subquery over protected tables is not answered below an aggregation",
            hint="Put the condition on the record's own attributes, or on public tables.",
            position=position(written),
        )


MAX_BRANCHES: Final = 100


def unite(query: exp.SetOperation, sides: Sequence[Records], cursor: PublicCursor) -> Records:
    """Return the rows of all sides of a UNION ALL.

    Raises FeatureNotSupported for records of two tables, SQLSyntaxError for different numbers of
    columns, and StatementTooComplex beyond MAX_BRANCHES.
    """
    first = sides[0]
    if any(side.domain.table != first.domain.table for side in sides):
        raise FeatureNotSupported(
            "a UNION of records of two protected tables is not answered",
            hint="Aggregate each, and unite or add the results.",
            position=position(query),
        )
    if any(len(side.fields) != len(first.fields) for side in sides):
        raise SQLSyntaxError(
            "each UNION query must have the same number of columns", position=position(query)
        )
    branches = [branch for side in sides for branch in side.branches]
    if len(branches) > MAX_BRANCHES:
        raise StatementTooComplex(
            f"the statement unites {len(branches)} queries of records; the limit is {MAX_BRANCHES}",
            hint="Join a public table, or ask in several statements.",
        )
    queries = [_branch_query(first, branch) for branch in branches]
    wanted = _types(" UNION ALL ".join(queries), cursor)
    united = [
        _in_types(branch, _types(query, cursor), wanted)
        for branch, query in zip(branches, queries, strict=True)
    ]
    return Records(first.domain, first.fields, united, first.size)


def _types(query: str, cursor: PublicCursor) -> list[str]:
    return [kind for _, kind in cursor.describe(query)]


def _in_types(branch: Branch, types: Sequence[str], wanted: Sequence[str]) -> Branch:
    values = [
        value if kind == want else as_type(value.copy(), want)
        for value, kind, want in zip(branch.values, types, wanted, strict=True)
    ]
    return Branch(branch.joins, branch.where, values)


def _branch_query(records: Records, branch: Branch) -> str:
    """SQL of the branch over one record whose attributes are NULL."""
    attributes = ", ".join(
        f'CAST(NULL AS {a.sql_type}) AS "{a.name}"' for a in records.domain.attributes
    )
    values = ", ".join(duckdb_sql(value) for value in branch.values)
    joins = " ".join(duckdb_sql(join) for join in branch.joins)
    return f'SELECT {values} FROM (SELECT {attributes}) AS "{RECORD}" {joins}'
