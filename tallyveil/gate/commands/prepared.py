"""PREPARE, EXECUTE and DEALLOCATE, in PostgreSQL's grammar."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tallyveil.errors import FeatureNotSupported, UndefinedObject
from tallyveil.gate.commands.reader import TokenReader
from tallyveil.gate.interface import Argument, Statement
from tallyveil.rewriter import QUERY_WORDS, Dialect, Piece, duckdb_name

__all__ = ["parse_deallocate", "parse_execute", "parse_prepare"]


def parse_prepare(reader: TokenReader) -> Statement:
    """Raises UndefinedObject for an unknown type. The types of a query that is set aside stay as
    they are written."""
    reader.usage = "PREPARE name [ (type, …) ] AS SELECT …"
    if reader.word() == "TRANSACTION":
        raise FeatureNotSupported("two-phase commit is not answered", position=1)
    name = reader.name()
    written = [one.piece for one in _values(reader)]
    reader.expect("AS")
    inner = reader.inner()
    raw = inner.kind == "catalog"
    types = tuple(part.sql if raw else _type(part, reader.dialect) for part in written)
    return replace(reader.statement("prepare", "PREPARE", name), inner=inner, types=types)


def parse_execute(reader: TokenReader) -> Statement:
    """Arguments stay as they are written: their types are known only once the name is looked up.

    Raises FeatureNotSupported for a subquery among them.
    """
    reader.usage = "EXECUTE name [ (value, …) ]"
    name = reader.name()
    values = _values(reader)
    for token in (token for value in values for token in value.piece.tokens):
        if token.text.upper() in QUERY_WORDS and token.text.isalpha():
            raise FeatureNotSupported(
                "cannot use subquery in EXECUTE parameter",
                position=token.start - reader.piece.offset + 1,
            )
    arguments = tuple(Argument(value.piece.sql, _text(value)) for value in values)
    return replace(reader.statement("execute", "EXECUTE", name), arguments=arguments)


def parse_deallocate(reader: TokenReader) -> Statement:
    """``target`` is None for ALL."""
    reader.usage = "DEALLOCATE name or DEALLOCATE ALL"
    reader.take("PREPARE")
    name = None if reader.take("ALL") else reader.name()
    tag = "DEALLOCATE ALL" if name is None else "DEALLOCATE"
    return reader.statement("deallocate", tag, name)


def _values(reader: TokenReader) -> list[TokenReader]:
    """Readers of the values in the bracket, if one comes next."""
    return reader.parts() if reader.word() == "(" else []


def _text(value: TokenReader) -> str | None:
    text = value.string()
    return text if value.ended() else None


def _type(piece: Piece, dialect: Dialect) -> str | None:
    """DuckDB's name of a type; None for "unknown", which is inferred."""
    if piece.words == ("UNKNOWN",):
        return None
    try:
        kind = exp.DataType.build(piece.sql, dialect=dialect)
    except (SqlglotError, ValueError):
        raise UndefinedObject(f'type "{piece.sql[:63]}" does not exist') from None
    return duckdb_name(kind)
