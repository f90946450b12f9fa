"""Statements that are not queries: SET, SHOW, BEGIN, EXPLAIN … recognised by their first words.

Each is read to its end: anything left over is a syntax error, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tallyveil.errors import FeatureNotSupported, InsufficientPrivilege, SQLSyntaxError
from tallyveil.gate.commands.assignments import (
    apply,
    parse_discard,
    parse_reset,
    parse_set,
    parse_show,
    shown_columns,
    shown_rows,
)
from tallyveil.gate.commands.copying import parse_copy
from tallyveil.gate.commands.cursors import parse_close, parse_declare, parse_fetch
from tallyveil.gate.commands.describing import (
    described_columns,
    described_rows,
    parse_describe,
    parse_show_tables,
)
from tallyveil.gate.commands.explain import parse_explain
from tallyveil.gate.commands.prepared import parse_deallocate, parse_execute, parse_prepare
from tallyveil.gate.commands.reader import TokenReader, as_statement, set_aside
from tallyveil.gate.commands.transactions import TRANSACTION_WORDS, parse_transaction
from tallyveil.gate.interface import Aside, Statement, nothing_aside
from tallyveil.rewriter import QUERY_WORDS, Dialect, Piece, read_query

__all__ = [
    "apply",
    "described_columns",
    "described_rows",
    "parse_piece",
    "shown_columns",
    "shown_rows",
]

_REFUSED: Final = MappingProxyType(
    {
        **dict.fromkeys(
            ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "UPSERT", "REPLACE"),
            "Analysts can only read.",
        ),
        **dict.fromkeys(
            ("CREATE", "REFRESH"),
            "Send its SELECT by itself; the custodian's policy declares tables and views.",
        ),
        "ALTER": "The custodian's policy declares tables; `tallyveil user` changes passwords.",
        **dict.fromkeys(
            ("DROP", "COMMENT", "GRANT", "REVOKE", "REINDEX", "VACUUM",
             "ANALYZE", "CLUSTER", "IMPORT", "SECURITY", "REASSIGN", "LOCK"),
            "The custodian's policy declares tables, views and analysts.",
        ),
        **dict.fromkeys(
            ("ATTACH", "DETACH", "INSTALL", "LOAD", "PRAGMA", "USE", "EXPORT", "CALL", "DO",
             "FORCE", "UNINSTALL"),
            "Only queries about the policy's tables are answered.",
        ),
        **dict.fromkeys(
            ("LISTEN", "NOTIFY"),
            "There are no notification channels.",
        ),
        **dict.fromkeys(
            ("DESCRIBE", "DESC", "SUMMARIZE", "UNPIVOT"),
            "SELECT * FROM dp.attributes lists the tables and attributes.",
        ),
    }
)  # fmt: skip


def parse_piece(piece: Piece, dialect: Dialect, aside: Aside = nothing_aside) -> Statement:
    """Parse a statement, unless ``aside`` takes it.

    Raises SQLSyntaxError or FeatureNotSupported; positions count from the piece's start.
    """
    if aside(piece):
        return set_aside(piece)
    first = piece.words[0]
    commands = _DUCKDBS if dialect == "duckdb" else _COMMANDS
    if first in commands:
        reader = TokenReader(piece, dialect, aside)
        reader.expect(first)
        return commands[first](reader)
    if first in _REFUSED:
        raise FeatureNotSupported(f"{first} is not answered", hint=_REFUSED[first], position=1)
    if first not in QUERY_WORDS:
        raise SQLSyntaxError(
            f'syntax error at or near "{piece.tokens[0].text[:40]}"',
            hint="Ask a SELECT with COUNT, SUM or AVG over a protected table.",
            position=1,
        )
    return as_statement(read_query(piece, dialect))


def _unlisten(reader: TokenReader) -> Statement:
    reader.usage = "UNLISTEN *"
    if not reader.take("*"):
        reader.name()
    return reader.statement("no_op", "UNLISTEN")


def _checkpoint(reader: TokenReader) -> Statement:
    raise InsufficientPrivilege("permission denied to execute CHECKPOINT command", position=1)


_COMMANDS: Final[Mapping[str, Callable[[TokenReader], Statement]]] = MappingProxyType(
    {
        **dict.fromkeys(TRANSACTION_WORDS, parse_transaction),
        "SET": parse_set,
        "RESET": parse_reset,
        "SHOW": parse_show,
        "DISCARD": parse_discard,
        "DECLARE": parse_declare,
        "FETCH": parse_fetch,
        "MOVE": parse_fetch,
        "CLOSE": parse_close,
        "PREPARE": parse_prepare,
        "EXECUTE": parse_execute,
        "DEALLOCATE": parse_deallocate,
        "EXPLAIN": parse_explain,
        "COPY": parse_copy,
        "UNLISTEN": _unlisten,
        "CHECKPOINT": _checkpoint,
    }
)
_DUCKDBS: Final = MappingProxyType(
    {
        **_COMMANDS,
        "SHOW": lambda reader: parse_show_tables(reader) or parse_show(reader),
        "DESCRIBE": parse_describe,
        "DESC": parse_describe,
    }
)
