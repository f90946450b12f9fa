"""Statements that are not queries: SET, SHOW, BEGIN, EXPLAIN … recognised by their first words.

Each is read to its end: what is left over is a syntax error, never dropped.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tallyveil.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    SQLSyntaxError,
)
from tallyveil.gate.commands.assignments import (
    apply,
    parse_discard,
    parse_reset,
    parse_set,
    parse_show,
)
from tallyveil.gate.commands.copying import parse_copy
from tallyveil.gate.commands.cursors import parse_close, parse_declare, parse_fetch
from tallyveil.gate.commands.explain import parse_explain
from tallyveil.gate.commands.nested import as_statement, set_aside
from tallyveil.gate.commands.prepared import parse_deallocate, parse_execute, parse_prepare
from tallyveil.gate.commands.reader import Reader
from tallyveil.gate.commands.transactions import TRANSACTION_WORDS, parse_transaction
from tallyveil.gate.interface import Aside, Change, Kind, Statement, nothing_aside
from tallyveil.rewriter import QUERY_WORDS, Dialect, Piece, read_query

__all__ = ["apply", "parse_piece"]

_REFUSED: Final = MappingProxyType(
    {
        **dict.fromkeys(
            ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "UPSERT", "REPLACE"),
            "Analysts can only read.",
        ),
        **dict.fromkeys(
            ("CREATE", "REFRESH"),
            "Ask its SELECT by itself; the custodian's policy says what there is.",
        ),
        "ALTER": "The custodian's policy says what there is; `tallyveil user` changes passwords.",
        **dict.fromkeys(
            ("DROP", "COMMENT", "GRANT", "REVOKE", "REINDEX", "VACUUM",
             "ANALYZE", "CLUSTER", "IMPORT", "SECURITY", "REASSIGN", "LOCK"),
            "The custodian's policy says what there is.",
        ),
        **dict.fromkeys(
            ("ATTACH", "DETACH", "INSTALL", "LOAD", "PRAGMA", "USE", "EXPORT", "CALL", "DO",
             "FORCE", "UNINSTALL"),
            "Nothing but questions about the policy's tables is answered here.",
        ),
        **dict.fromkeys(
            ("LISTEN", "NOTIFY"),
            "There are no channels here.",
        ),
        **dict.fromkeys(
            ("DESCRIBE", "DESC", "SUMMARIZE", "PIVOT", "UNPIVOT"),
            "SELECT * FROM dp.attributes lists the tables and attributes.",
        ),
    }
)  # fmt: skip


def parse_piece(piece: Piece, dialect: Dialect, aside: Aside = nothing_aside) -> Statement:
    """What kind of statement it is, wholly parsed, but for what ``aside`` takes.

    Raises SQLSyntaxError, FeatureNotSupported; positions count from the piece's start.
    """
    if aside(piece):
        return set_aside(piece)
    first = piece.words[0]
    if first in TRANSACTION_WORDS:
        return parse_transaction(piece)
    if first in _OF_WHAT_IS_KEPT:
        return _OF_WHAT_IS_KEPT[first](piece)
    if first in _OWN:
        return _own(first, piece)
    if first in _NAMED:
        return _NAMED[first](piece, dialect, aside)
    if first in _ABOUT_QUERIES:
        return _ABOUT_QUERIES[first](piece, dialect)
    if first in _REFUSED:
        raise FeatureNotSupported(f"{first} is not answered", hint=_REFUSED[first], position=1)
    if first not in QUERY_WORDS:
        raise SQLSyntaxError(
            f'syntax error at or near "{piece.tokens[0].text[:40]}"',
            hint="Ask a SELECT with COUNT, SUM or AVG over a protected table.",
            position=1,
        )
    return as_statement(read_query(piece, dialect))


_NAMED: Final = {"DECLARE": parse_declare, "PREPARE": parse_prepare}
_ABOUT_QUERIES: Final = {"EXPLAIN": parse_explain, "COPY": parse_copy}

_OF_WHAT_IS_KEPT: Final = {
    "FETCH": parse_fetch,
    "MOVE": parse_fetch,
    "CLOSE": parse_close,
    "EXECUTE": parse_execute,
    "DEALLOCATE": parse_deallocate,
}

_OWN: Final = frozenset({"SET", "RESET", "SHOW", "DISCARD", "UNLISTEN", "CHECKPOINT"})


def _own(first: str, piece: Piece) -> Statement:
    """A statement about the session."""
    match first:
        case "SET":
            return _statement(piece, "set", "SET", parse_set(piece))
        case "RESET":
            return _statement(piece, "set", "RESET", parse_reset(piece))
        case "SHOW":
            name = parse_show(piece)
            return Statement(piece.sql, "show", "SHOW", target=name, offset=piece.offset)
        case "DISCARD":
            return _statement(piece, "set", *parse_discard(piece))
        case "UNLISTEN":
            return _unlisten(piece)
    raise InsufficientPrivilege("permission denied to execute CHECKPOINT command", position=1)


def _statement(piece: Piece, kind: Kind, tag: str, change: Change | None = None) -> Statement:
    return Statement(piece.sql, kind, tag, change=change, offset=piece.offset)


def _unlisten(piece: Piece) -> Statement:
    reader = Reader(piece, "UNLISTEN *")
    reader.expect("UNLISTEN")
    if not reader.take("*"):
        reader.name()
    reader.end()
    return _statement(piece, "no_op", "UNLISTEN")
