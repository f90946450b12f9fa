"""Two databases that answer a statement on the raw rows: what tallyveil's answer must equal."""

from __future__ import annotations

from typing import Any, Protocol

import duckdb
import psycopg
import pytest

from tallyveil.errors import TallyveilError
from tallyveil.rewriter import Dialect
from tests.rewriter.world import World, normal

__all__ = ["DuckDBOracle", "Oracle", "PostgresOracle", "agree"]

_POSTGRES_TYPES = {
    "VARCHAR": "text", "INTEGER": "integer", "BOOLEAN": "boolean", "DATE": "date",
    "DOUBLE": "double precision", "BIGINT": "bigint",
}  # fmt: skip


class Oracle(Protocol):
    dialect: Dialect
    error: type[Exception]

    def answer(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The columns' names, and the rows."""
        ...

    def is_about_data(self, error: Exception) -> bool:
        """Whether the error is one of a value (division by zero), not of the statement."""
        ...


class DuckDBOracle:
    dialect: Dialect = "duckdb"
    error: type[Exception] = duckdb.Error

    def __init__(self, connection: duckdb.DuckDBPyConnection, world: World) -> None:
        self._connection = connection
        connection.execute("SET TimeZone = 'UTC'")
        world.create(connection)

    def answer(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        found = self._connection.execute(sql)
        return [column[0] for column in found.description], found.fetchall()

    def is_about_data(self, error: Exception) -> bool:
        return isinstance(error, duckdb.OutOfRangeException | duckdb.ConversionException)


class PostgresOracle:
    dialect: Dialect = "postgres"
    error: type[Exception] = psycopg.Error

    def __init__(self, connection: psycopg.Connection, world: World) -> None:
        self._connection = connection
        columns = ", ".join(
            f"{a.name} {_POSTGRES_TYPES[a.sql_type]}" for a in world.domain.attributes
        )
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("DROP TABLE IF EXISTS person")
        connection.execute(f"CREATE TABLE person ({columns})")
        with connection.cursor().copy("COPY person FROM STDIN") as copy:
            for row in world.rows:
                copy.write_row(row)

    def answer(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        found = self._connection.execute(sql)
        return [column.name for column in found.description or ()], found.fetchall()

    def is_about_data(self, error: Exception) -> bool:
        state = error.sqlstate if isinstance(error, psycopg.Error) else None
        return state is not None and state.startswith("22")


def agree(world: World, oracle: Oracle, sql: str, *, ordered: bool, named: bool = False) -> bool:
    """Assert that both answer alike, and with ``named`` call columns alike. False where tallyveil
    refuses, which it may always do."""
    try:
        columns, ours = world.answer(sql, oracle.dialect)
    except TallyveilError:
        return False
    try:
        names, theirs = oracle.answer(sql)
    except oracle.error as error:
        if oracle.is_about_data(error):
            pytest.fail(f"{sql}\nanswered {ours}, but {error}")
        return False
    if ordered:
        assert [*map(_one, ours)] == [*map(_one, theirs)], sql
    else:
        assert normal(ours) == normal(theirs), sql
    if named:
        assert [name for name, _ in columns] == names, sql
    return True


def _one(row: tuple[Any, ...]) -> Any:
    return next(iter(normal([row])))
