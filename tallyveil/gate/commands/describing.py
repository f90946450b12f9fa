"""DuckDB's SHOW TABLES and DESCRIBE, from the policy's declarations."""

from __future__ import annotations

from collections.abc import Sequence

from tallyveil.errors import FeatureNotSupported, UndefinedTable
from tallyveil.gate.commands.reader import TokenReader
from tallyveil.gate.interface import ColumnType, Statement
from tallyveil.gate.relations.shown import Shown

__all__ = ["described_columns", "described_rows", "parse_describe", "parse_show_tables"]


def parse_show_tables(reader: TokenReader) -> Statement | None:
    return reader.statement("describe", "SHOW") if reader.take("TABLES") else None


def parse_describe(reader: TokenReader) -> Statement:
    reader.usage = "DESCRIBE table, or EXPLAIN SELECT …"
    return reader.statement("describe", "SHOW", reader.dotted_name())


def described_columns(statement: Statement) -> tuple[ColumnType, ...]:
    names = ("column_name", "column_type", "null", "key", "default", "extra")
    return tuple(ColumnType(n, "VARCHAR") for n in (names if statement.target else ("name",)))


def described_rows(
    statement: Statement, relations: Sequence[Shown]
) -> list[tuple[str | None, ...]]:
    """The names of tables and views, or the columns of one with their comments as ``extra``.

    Raises UndefinedTable, and FeatureNotSupported for a view whose types are not known.
    """
    if statement.target is None:
        return [(name,) for name in sorted(one.name for one in relations if one.schema == "public")]
    wanted = statement.target.removeprefix("main.").removeprefix("public.")
    columns = {
        one.name if one.schema == "public" else f"{one.schema}.{one.name}": one.columns
        for one in relations
    }
    if wanted not in columns:
        raise UndefinedTable(
            f'relation "{statement.target}" does not exist', hint="SHOW TABLES lists the tables."
        )
    if not columns[wanted]:
        raise FeatureNotSupported(
            "DESCRIBE is not supported for views of protected tables",
            hint="SELECT * FROM dp.public shows how they are defined.",
        )
    return [
        (one.name, one.type, "YES" if one.nullable else "NO", None, None, one.comment)
        for one in columns[wanted]
    ]
