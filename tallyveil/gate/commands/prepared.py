"""PREPARE, EXECUTE and DEALLOCATE, in PostgreSQL's grammar."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tallyveil.errors import FeatureNotSupported, UndefinedObject
from tallyveil.gate.commands.nested import nested_statement
from tallyveil.gate.commands.reader import Reader
from tallyveil.gate.interface import Argument, Aside, Statement
from tallyveil.rewriter import Dialect, Piece

__all__ = ["parse_deallocate", "parse_execute", "parse_prepare"]

_QUERY_WORDS: Final = frozenset({"SELECT", "FROM", "VALUES", "TABLE", "WITH"})

# What DuckDB calls types that it knows by other names too.
_NAMES: Final = {
    "INT": "INTEGER", "TEXT": "VARCHAR", "NAME": "VARCHAR", "BPCHAR": "VARCHAR", "REAL": "FLOAT",
}  # fmt: skip


def parse_prepare(piece: Piece, dialect: Dialect, aside: Aside) -> Statement:
    """Raises UndefinedObject for a type that there is not. Where ``aside`` takes the query, types
    stay as they are written."""
    reader = Reader(piece, "PREPARE name [ (type, …) ] AS SELECT …")
    reader.expect("PREPARE")
    if reader.word() == "TRANSACTION":
        raise FeatureNotSupported("two-phase commit is not answered", position=1)
    name = reader.name()
    written = _parts(reader.bracketed()) if reader.word() == "(" else []
    reader.expect("AS")
    inner = nested_statement(piece, reader.rest(), dialect, aside)
    raw = inner.kind == "catalog"
    types = tuple(part.sql if raw else _type(part, dialect) for part in written)
    return Statement(
        piece.sql,
        "prepare",
        "PREPARE",
        target=name,
        offset=piece.offset,
        inner=inner,
        types=types,
    )


def parse_execute(piece: Piece) -> Statement:
    """Arguments stay as they are written: their types are known once the name is looked up.

    Raises FeatureNotSupported for a query among them.
    """
    reader = Reader(piece, "EXECUTE name [ (value, …) ]")
    reader.expect("EXECUTE")
    name = reader.name()
    arguments: tuple[Argument, ...] = ()
    if reader.word() == "(":
        within = reader.bracketed()
        parts = _parts(within)
        for token, word in zip(within.tokens, within.words, strict=True):
            if word in _QUERY_WORDS and token.text.isalpha():
                raise FeatureNotSupported(
                    "cannot use subquery in EXECUTE parameter",
                    position=token.start - piece.offset + 1,
                )
        arguments = tuple(Argument(part.sql, _text(part)) for part in parts)
    reader.end()
    return Statement(
        piece.sql, "execute", "EXECUTE", target=name, offset=piece.offset, arguments=arguments
    )


def _text(piece: Piece) -> str | None:
    reader = Reader(piece, "a value")
    text = reader.string()
    return text if reader.ended() else None


def parse_deallocate(piece: Piece) -> Statement:
    """``target`` is None for ALL."""
    reader = Reader(piece, "DEALLOCATE name or DEALLOCATE ALL")
    reader.expect("DEALLOCATE")
    reader.take("PREPARE")
    name = None if reader.take("ALL") else reader.name()
    reader.end()
    tag = "DEALLOCATE ALL" if name is None else "DEALLOCATE"
    return Statement(piece.sql, "deallocate", tag, target=name, offset=piece.offset)


def _parts(piece: Piece) -> list[Piece]:
    """What stands between the commas that are in no bracket."""
    reader = Reader(piece, "values with commas between")
    parts: list[Piece] = []
    start, depth = 0, 0
    for at, word in enumerate((*piece.words, ",")):
        depth += (word in "([") - (word in ")]") if len(word) == 1 else 0
        if word != "," or depth:
            continue
        tokens = piece.tokens[start:at]
        if not tokens:
            raise reader.error()
        first, last = tokens[0].start - piece.offset, tokens[-1].end - piece.offset
        parts.append(Piece(piece.sql[first : last + 1], tokens, tokens[0].start))
        start = at + 1
    return parts


def _type(piece: Piece, dialect: Dialect) -> str | None:
    """DuckDB's name of a type; None for unknown, which is inferred."""
    if piece.words == ("UNKNOWN",):
        return None
    try:
        kind = exp.DataType.build(piece.sql, dialect=dialect)
    except (SqlglotError, ValueError):
        raise UndefinedObject(f'type "{piece.sql[:63]}" does not exist') from None
    name, bracket, _ = kind.sql("duckdb").partition("[")
    name = name.partition("(")[0]
    return _NAMES.get(name, name) + ("[]" if bracket else "")
