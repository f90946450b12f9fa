"""UNION ALL of records: the branches of both sides, with each column in a type common to all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, StatementError, StatementTooComplex
from tallyveil.rewriter.engine.cursor import Cursor
from tallyveil.rewriter.resolve.branches import RECORD, Branch, Records
from tallyveil.rewriter.sql.nodes import duckdb_sql, position

__all__ = ["unite"]

MAX_BRANCHES: Final = 100


def unite(query: exp.SetOperation, left: Records, right: Records, cursor: Cursor) -> Records:
    """The rows of both.

    Raises FeatureNotSupported for records of two tables, StatementTooComplex beyond MAX_BRANCHES.
    """
    if left.domain.table != right.domain.table:
        raise FeatureNotSupported(
            "a UNION of records of two protected tables is not answered",
            hint="Aggregate each, and unite or add the results.",
            position=position(query),
        )
    if len(left.fields) != len(right.fields):
        raise StatementError("each UNION query must have the same number of columns")
    number = len(left.branches) + len(right.branches)
    if number > MAX_BRANCHES:
        raise StatementTooComplex(
            f"the statement unites {number} queries of records; the limit is {MAX_BRANCHES}",
            hint="Join a public table, or ask in several statements.",
        )
    first, second = _unified(left, cursor), _unified(right, cursor)
    wanted = _types(f"{_query(first)} UNION ALL {_query(second)}", cursor)
    branches = [
        _in_types(branch, side.types or (), wanted)
        for side in (first, second)
        for branch in side.branches
    ]
    return Records(left.domain, left.fields, branches, left.size, wanted)


def _unified(records: Records, cursor: Cursor) -> Records:
    """All its branches in the same types, and these known."""
    if records.types is not None:
        return records
    queries = [_branch_query(records, branch) for branch in records.branches]
    types = [_types(query, cursor) for query in queries]
    wanted = types[0] if len(types) == 1 else _types(" UNION ALL ".join(queries), cursor)
    branches = [
        _in_types(branch, own, wanted) for branch, own in zip(records.branches, types, strict=True)
    ]
    return replace(records, branches=branches, types=wanted)


def _query(records: Records) -> str:
    """A query with the same columns: its only branch, or NULLs of the types of several."""
    if len(records.branches) == 1:
        return _branch_query(records, records.branches[0])
    return "SELECT " + ", ".join(f"CAST(NULL AS {kind})" for kind in records.types or ())


def _types(query: str, cursor: Cursor) -> list[str]:
    return [kind for _, kind in cursor.describe(query)]


def _in_types(branch: Branch, types: Sequence[str], wanted: Sequence[str]) -> Branch:
    values = [
        value
        if kind == want
        else exp.cast(value.copy(), exp.DataType.build(want, dialect="duckdb"))
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
