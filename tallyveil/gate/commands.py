"""Statements that are not queries: SET, SHOW, BEGIN, EXPLAIN … recognised by their first words."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import FeatureNotSupported, InsufficientPrivilege, SQLSyntaxError
from tallyveil.gate.interface import Kind, Statement
from tallyveil.rewriter import Dialect, Piece, parameter_count, parse_query

__all__ = ["SetCommand", "parse_piece", "parse_set", "parse_show"]

_TRANSACTION: Final[MappingProxyType[str, tuple[Kind, str]]] = MappingProxyType(
    {
        "BEGIN": ("begin", "BEGIN"),
        "START": ("begin", "START TRANSACTION"),
        "COMMIT": ("commit", "COMMIT"),
        "END": ("commit", "COMMIT"),
        "ROLLBACK": ("rollback", "ROLLBACK"),
        "ABORT": ("rollback", "ROLLBACK"),
        "SAVEPOINT": ("savepoint", "SAVEPOINT"),
        "RELEASE": ("savepoint", "RELEASE"),
    }
)

_NO_OP: Final = MappingProxyType(
    {"UNLISTEN": "UNLISTEN", "CLOSE": "CLOSE CURSOR ALL", "CHECKPOINT": "CHECKPOINT"}
)

_REFUSED: Final = MappingProxyType(
    {
        **dict.fromkeys(
            ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "UPSERT", "REPLACE"),
            "Analysts can only read.",
        ),
        **dict.fromkeys(
            ("CREATE", "ALTER", "DROP", "COMMENT", "GRANT", "REVOKE", "REINDEX", "VACUUM",
             "ANALYZE", "CLUSTER", "REFRESH", "IMPORT", "SECURITY", "REASSIGN", "LOCK"),
            "The custodian's policy says what there is.",
        ),
        **dict.fromkeys(
            ("ATTACH", "DETACH", "INSTALL", "LOAD", "PRAGMA", "USE", "EXPORT", "CALL", "DO",
             "FORCE", "UNINSTALL"),
            "Nothing but questions about the policy's tables is answered here.",
        ),
        **dict.fromkeys(
            ("COPY", "DECLARE", "FETCH", "MOVE", "PREPARE", "EXECUTE", "LISTEN", "NOTIFY"),
            "Send the SELECT itself; the driver's own prepared statements work.",
        ),
        **dict.fromkeys(
            ("DESCRIBE", "DESC", "SUMMARIZE", "PIVOT", "UNPIVOT"),
            "SELECT * FROM dp.attributes lists the tables and attributes.",
        ),
    }
)  # fmt: skip


def parse_piece(piece: Piece, dialect: Dialect) -> Statement:
    """What kind of statement it is, wholly parsed.

    Raises SQLSyntaxError, FeatureNotSupported; positions count from the piece's start.
    """
    words = piece.words
    first = words[0]
    if first in _TRANSACTION:
        return _transaction(piece)
    if first == "SET":
        parse_set(piece)
        return _statement(piece, "set", "SET")
    if first == "RESET":
        _expect(piece, len(words) >= 2, "RESET name or RESET ALL")
        return _statement(piece, "set", "RESET")
    if first == "SHOW":
        parse_show(piece)
        return _statement(piece, "show", "SHOW")
    if first == "DISCARD":
        _expect(piece, words[1:] in (("ALL",), ("PLANS",), ("TEMP",)), "DISCARD ALL")
        return _statement(piece, "set", f"DISCARD {words[1]}")
    if first == "DEALLOCATE":
        return _deallocate(piece)
    if first == "EXPLAIN":
        return _explain(piece, dialect)
    if first in _NO_OP and (first != "CLOSE" or words[1:] == ("ALL",)):
        return _statement(piece, "no_op", _NO_OP[first])
    if first in _REFUSED:
        raise FeatureNotSupported(f"{first} is not answered", hint=_REFUSED[first], position=1)
    tree = parse_query(piece.sql, dialect)
    return _statement(piece, "select", "SELECT", parameter_count(tree))


def _statement(piece: Piece, kind: Kind, tag: str, parameters: int = 0) -> Statement:
    return Statement(piece.sql, kind, tag, parameters, offset=piece.offset, tree=piece)


def _expect(piece: Piece, condition: bool, usage: str) -> None:
    if not condition:
        raise SQLSyntaxError(
            f'syntax error at or near "{piece.tokens[min(1, len(piece.tokens) - 1)].text}"',
            hint=f"Write {usage}.",
            position=_position(piece, min(1, len(piece.tokens) - 1)),
        )


def _position(piece: Piece, index: int) -> int:
    return piece.tokens[index].start - piece.offset + 1


def _transaction(piece: Piece) -> Statement:
    words = piece.words
    kind, tag = _TRANSACTION[words[0]]
    if words[0] == "START":
        _expect(piece, words[1:2] == ("TRANSACTION",), "START TRANSACTION")
    if "PREPARED" in words:
        raise FeatureNotSupported("two-phase commit is not answered", position=1)
    if kind == "rollback" and "TO" in words:
        return _statement(piece, "rollback_to", "ROLLBACK")
    return _statement(piece, kind, tag)


def _deallocate(piece: Piece) -> Statement:
    rest = piece.tokens[1:]
    if rest and rest[0].text.upper() == "PREPARE":
        rest = rest[1:]
    _expect(piece, len(rest) == 1, "DEALLOCATE name or DEALLOCATE ALL")
    if rest[0].text.upper() == "ALL" and rest[0].token_type is not TokenType.IDENTIFIER:
        return Statement(piece.sql, "deallocate", "DEALLOCATE ALL", offset=piece.offset)
    name = rest[0].text
    name = name if rest[0].token_type is TokenType.IDENTIFIER else name.lower()
    return Statement(piece.sql, "deallocate", "DEALLOCATE", target=name, offset=piece.offset)


def _explain(piece: Piece, dialect: Dialect) -> Statement:
    index = 1
    words = piece.words
    if words[1:2] == ("(",):
        index = words.index(")") + 1 if ")" in words else len(words)
    options = words[1:index]
    if words[index : index + 1] in (("ANALYZE",), ("ANALYSE",)) or "ANALYZE" in options:
        raise FeatureNotSupported(
            "EXPLAIN ANALYZE is not answered: it would run the query",
            hint="EXPLAIN alone shows the cost and the interval to expect, free of charge.",
            position=1,
        )
    if words[index : index + 1] == ("VERBOSE",):
        index += 1
    _expect(piece, index < len(words), "EXPLAIN SELECT …")
    start = piece.tokens[index].start
    query = piece.sql[start - piece.offset :]
    tree = parse_query(query, dialect)
    inner = Piece(query, piece.tokens[index:], start)
    return Statement(
        piece.sql, "explain", "EXPLAIN", parameter_count(tree), offset=piece.offset, tree=inner
    )


@dataclass(frozen=True)
class SetCommand:
    """``value`` is None for DEFAULT; ``name`` is None for a SET without effect here."""

    name: str | None
    value: str | None


def parse_set(piece: Piece) -> SetCommand:
    """SET [SESSION] name { = | TO } value, and the standard's own forms of it."""
    tokens = list(piece.tokens[1:])
    words = [token.text.upper() for token in tokens]
    if words[:1] == ["LOCAL"]:
        raise FeatureNotSupported(
            "SET LOCAL is not answered: settings belong to the session here",
            hint="Use SET, and RESET when done.",
            position=_position(piece, 1),
        )
    if words[:1] in (["TRANSACTION"], ["CONSTRAINTS"]) or words[:2] == [
        "SESSION",
        "CHARACTERISTICS",
    ]:
        return SetCommand(None, None)
    if words[:1] == ["ROLE"] or words[:2] == ["SESSION", "AUTHORIZATION"]:
        raise InsufficientPrivilege(
            "who asks is who connected: it cannot be changed",
            hint="Connect as the user you mean.",
            position=_position(piece, 1),
        )
    if words[:1] == ["SESSION"]:
        tokens, words = tokens[1:], words[1:]
    if words[:2] == ["TIME", "ZONE"]:
        return SetCommand("timezone", _value(tokens[2:]))
    if words[:1] == ["NAMES"]:
        return SetCommand("client_encoding", _value(tokens[1:]))
    name, rest = _name(tokens)
    usage = "SET name = value"
    _expect(piece, bool(name) and len(rest) >= 2 and rest[0].text.upper() in ("=", "TO"), usage)
    return SetCommand(name, _value(rest[1:]))


def parse_show(piece: Piece) -> str:
    """The setting's name, or "all"."""
    words = piece.words[1:]
    if words == ("TRANSACTION", "ISOLATION", "LEVEL"):
        return "transaction_isolation"
    if words == ("TIME", "ZONE"):
        return "timezone"
    name, rest = _name(list(piece.tokens[1:]))
    _expect(piece, bool(name) and not rest, "SHOW name or SHOW ALL")
    return name


def _name(tokens: list[Token]) -> tuple[str, list[Token]]:
    """A dotted name in lower case, and the tokens after it."""
    if not tokens:
        return "", []
    name, index = tokens[0].text.lower(), 1
    while index + 1 < len(tokens) and tokens[index].token_type is TokenType.DOT:
        name += "." + tokens[index + 1].text.lower()
        index += 2
    return name, tokens[index:]


def _value(tokens: list[Token]) -> str | None:
    if len(tokens) == 1 and tokens[0].text.upper() == "DEFAULT":
        return None
    text = ""
    for token in tokens:
        if token.token_type is TokenType.COMMA:
            text += ", "
        else:
            text += token.text
    return text
