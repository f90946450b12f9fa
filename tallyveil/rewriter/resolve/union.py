"""UNION ALL of records: the branches of both sides, with each column in a type common to all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, StatementError, StatementTooComplex
from tallyveil.rewriter.engine.cursor import Cursor
from tallyveil.rewriter.resolve.branches import RECORD, Branch, Records
from tallyveil.rewriter.sql.nodes import as_type, duckdb_sql, position

__all__ = ["unite"]

MAX_BRANCHES: Final = 100


def unite(query: exp.SetOperation, sides: Sequence[Records], cursor: Cursor) -> Records:
    """The rows of all sides of a UNION ALL.

    Raises FeatureNotSupported for records of two tables, StatementTooComplex beyond MAX_BRANCHES.
    """
    first = sides[0]
    if any(side.domain.table != first.domain.table for side in sides):
        raise FeatureNotSupported(
            "a UNION of records of two protected tables is not answered",
            hint="Aggregate each, and unite or add the results.",
            position=position(query),
        )
    if any(len(side.fields) != len(first.fields) for side in sides):
        raise StatementError("each UNION query must have the same number of columns")
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


def _types(query: str, cursor: Cursor) -> list[str]:
    return [kind for _, kind in cursor.describe(query)]


def _in_types(branch: Branch, types: Sequence[str], wanted: Sequence[str]) -> Branch:
    values = [
        value if kind == want else as_type(value.copy(), want)
        for value, kind, want in zip(branch.values, types, wanted, strict=True)
    ]
    return Branch(branch.joins, branch.where, values)


def _branch_query(records: Records, branch: Branch) -> str:
    """The branch over one empty record."""
    attributes = ", ".join(
        f'CAST(NULL AS {a.sql_type}) AS "{a.name}"' for a in records.domain.attributes
    )
    values = ", ".join(duckdb_sql(value) for value in branch.values)
    joins = " ".join(duckdb_sql(join) for join in branch.joins)
    return f'SELECT {values} FROM (SELECT {attributes}) AS "{RECORD}" {joins}'
