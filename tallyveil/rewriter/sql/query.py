"""A query with what follows from its text alone, and the shape it shares with queries that differ
only in constants compared with a column.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tallyveil import deadline
from tallyveil.cache import Cache
from tallyveil.rewriter.resolve.record_queries import is_aggregate
from tallyveil.rewriter.sql.nodes import COMPARISONS, all_nodes, function_name, position, unlink
from tallyveil.rewriter.sql.parameters import PARAMETERS, count, parameter_number
from tallyveil.rewriter.sql.statement_text import Dialect, Piece, parse_query, split
from tallyveil.rewriter.sql.timestamps import asks_the_time
from tallyveil.rewriter.sql.vocabulary import SESSION_FUNCTIONS

__all__ = [
    "DAY", "INTEGER", "TEXT", "Query", "Shape", "column_beside", "first_named",
    "is_session_function", "read_query",
]  # fmt: skip

# The marks that stand for constants: an integer, a day, a text. No statement contains a NUL.
INTEGER, DAY, TEXT = "\0i", "\0d", "\0t"
_DIGITS: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DECIMAL: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_LONGEST: Final = 200
_MOST: Final = 100  # constants of one statement

# Constants that are not plain but could mean the same, and parameters without a number.
_OTHERS: Final = frozenset(
    {
        TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEX_STRING, TokenType.HEREDOC_STRING,
        TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING,
        TokenType.PLACEHOLDER, TokenType.QDCOLON,
    }
)  # fmt: skip

_Holes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""The indices of the plain constants that are holes, and the numbers of such parameters."""


@dataclass(frozen=True)
class _Masked:
    """A statement whose plain constants are replaced by marks of their kinds in ``sql``."""

    sql: str
    starts: tuple[int, ...]
    texts: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """A statement apart from its holes, the constants it compares with a column.

    Statements of one ``key`` parse alike and have as many holes of the same kinds; constants that
    are equal in one are equal in all. ``holes`` are the texts of the holes, ``starts`` where they
    begin in the statement, or -n for parameter $n, and ``kinds`` their marks. ``texts`` are all
    plain constants, ``parameters`` the numbers of those that are holes once they are `given`.
    """

    key: Hashable
    holes: tuple[str, ...]
    starts: tuple[int, ...]
    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    parameters: tuple[int, ...]

    def given(self, types: Sequence[str], values: Sequence[Any]) -> Shape | None:
        """The shape with these parameters as constants; None unless all of them are plain."""
        if len(types) != len(values) or len(values) < max(self.parameters, default=0):
            return None
        found: list[tuple[str, str]] = []
        for kind, value in zip(types, values, strict=True):
            plain = _plain(kind, value)
            if plain is None:
                return None
            found.append(plain)
        texts, kinds = tuple(text for text, _ in found), tuple(kind for _, kind in found)
        fixed = tuple(None if n + 1 in self.parameters else text for n, text in enumerate(texts))
        return Shape(
            (self.key, tuple(types), kinds, fixed, _first_equal(self.texts + texts)),
            self.holes + tuple(texts[n - 1] for n in self.parameters),
            self.starts + tuple(-n for n in self.parameters),
            self.kinds + tuple(kinds[n - 1] for n in self.parameters),
            self.texts + texts,
            (),
        )


def _mask(piece: Piece) -> _Masked | None:
    """Mask plain constants. None if there are more than _MOST, or other constants or parameters."""
    masked: list[str] = []
    found: list[tuple[int, str, str]] = []
    end, before = 0, None
    for token in piece.tokens:
        kind, after = token.token_type, before
        before = kind
        if kind in _OTHERS:
            return None
        number = kind is TokenType.NUMBER and after is not TokenType.PARAMETER
        if not number and kind is not TokenType.STRING:
            continue
        start, stop = token.start - piece.offset, token.end - piece.offset + 1
        mark = _mark(piece.sql[start:stop], token.text, not number)
        if mark is None and number and not _DECIMAL.fullmatch(token.text):
            return None
        if mark is not None:
            masked += [piece.sql[end:start], mark]
            found.append((start, token.text, mark))
            end = stop
    if len(found) > _MOST:
        return None
    starts, texts, kinds = zip(*found, strict=True) if found else ((), (), ())
    return _Masked("".join([*masked, piece.sql[end:]]), starts, texts, kinds)


def _mark(written: str, text: str, quoted: bool) -> str | None:
    if not quoted:
        return INTEGER if written == text and _DIGITS.fullmatch(text) else None
    if len(text) > _LONGEST or written != f"'{text}'":
        return None
    return DAY if _DATE.fullmatch(text) and _is_day(text) else TEXT


def _is_day(text: str) -> bool:
    try:
        dt.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _plain(kind: str, value: Any) -> tuple[str, str] | None:
    """The text and the mark of a parameter as a plain constant, or None."""
    match value:
        case bool() | dt.datetime():
            return None
        case int() if kind in ("INTEGER", "BIGINT") and _DIGITS.fullmatch(str(value)):
            return str(value), INTEGER
        case dt.date() if kind == "DATE":
            return value.isoformat(), DAY
        case str() if kind == "VARCHAR" and len(value) <= _LONGEST and "'" not in value:
            return value, TEXT
    return None


_HOLES: Final[Cache[_Holes]] = Cache(4096, 1 << 26, lambda key, _: len(str(key)))


def _known_shape(masked: _Masked, dialect: Dialect) -> Shape | None:
    """The statement's shape, if one with the same marks was read before."""
    holes = _HOLES.find((dialect, masked.sql))
    return None if holes is None else _shape(masked, dialect, *holes)


def _new_shape(masked: _Masked, dialect: Dialect, tree: exp.Expr) -> Shape | None:
    """The statement's shape, or None if a statement with the same marks has other holes."""
    linked = tree.copy()
    starts = {
        node.meta_get("start") for node in linked.find_all(exp.Literal) if _is_hole(node, dialect)
    }
    parameters = all_nodes(linked, *PARAMETERS)
    fixed = {parameter_number(node) for node in parameters if not _is_hole(node, dialect)}
    unlink([linked])
    holes = (
        tuple(number for number, start in enumerate(masked.starts) if start in starts),
        tuple(sorted({parameter_number(node) for node in parameters} - fixed)),
    )
    known = _HOLES.get((dialect, masked.sql), lambda: holes)
    return _shape(masked, dialect, *holes) if known == holes else None


def _shape(
    masked: _Masked, dialect: Dialect, holes: Sequence[int], parameters: tuple[int, ...]
) -> Shape:
    fixed = tuple(None if n in holes else text for n, text in enumerate(masked.texts))
    return Shape(
        (masked.sql, dialect, fixed, _first_equal(masked.texts)),
        tuple(masked.texts[number] for number in holes),
        tuple(masked.starts[number] for number in holes),
        tuple(masked.kinds[number] for number in holes),
        masked.texts,
        parameters,
    )


def _first_equal(texts: Sequence[str]) -> tuple[int, ...]:
    """For each text, the index of the first one that is equal."""
    first: dict[str, int] = {}
    return tuple(first.setdefault(text, number) for number, text in enumerate(texts))


def _is_hole(node: exp.Expr, dialect: Dialect) -> bool:
    """Whether it is compared with a column, and no result column is named after it."""
    return column_beside(node) is not None and (dialect != "duckdb" or not _names_a_column(node))


def column_beside(constant: exp.Expr) -> exp.Column | None:
    """The column that a constant is compared with, if it is alone on its side."""
    child = constant
    while isinstance(child.parent, exp.Paren | exp.Neg | exp.Cast) and child.arg_key == "this":
        child = child.parent
    other = None
    match child.parent:
        case exp.Between() | exp.In() as parent if child.arg_key != "this":
            other = parent.this
        case exp.Binary() as parent if type(parent) in COMPARISONS:
            other = parent.expression if child.arg_key == "this" else parent.this
    column = None if other is None else other.unnest()
    return column if isinstance(column, exp.Column) else None


def _names_a_column(node: exp.Expr) -> bool:
    """Whether it is part of an item that is named after its own text."""
    while node.parent is not None:
        item = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        if item and not isinstance(node, exp.Alias):
            return True
        node = node.parent
    return False


Time: TypeAlias = Literal["day", "instant"]


@dataclass(frozen=True)
class Query:
    """One parsed query; ``offset`` is where its text starts in the text it came from.

    It holds no tree, since clients may keep many queries prepared and a tree takes hundreds of
    times its text; `parse_query` caches trees. ``time`` says whether a plan is valid for the day or
    the instant it is made at, ``of_session`` whether for its session only, ``assigns`` whether it
    changes the session's settings by set_config. Queries that differ only in their holes share the
    key of ``shape``.
    """

    sql: str
    dialect: Dialect
    offset: int
    parameters: int
    time: Time | None
    of_session: bool
    assigns: bool = False
    shape: Shape | None = None


def read_query(piece: Piece, dialect: Dialect) -> Query:
    """Return the query. One that differs only in its holes from an earlier one is not parsed again.

    Raises as `parse_query`, and UndefinedParameter for $0 or $name.
    """
    written = split(piece.sql, dialect)[0] if piece.numbered else piece
    masked = _mask(written)
    shape = None if masked is None else _known_shape(masked, dialect)
    facts = None if shape is None else _FACTS.find(shape.key)
    if facts is None:
        tree = parse_query(piece.sql, dialect, written)
        own = {function_name(n) for n in tree.find_all(exp.Func) if is_session_function(n)}
        deadline.check()
        facts = (count(tree), asks_the_time(tree), bool(own), "set_config" in own)
        deadline.check()
        shape = None if masked is None else _new_shape(masked, dialect, tree)
        if shape is not None:
            _FACTS.put(shape.key, facts)
    return Query(piece.sql, dialect, piece.offset, *facts, shape)


# A query's ``parameters``, ``time``, ``of_session`` and ``assigns``, by the key of its shape.
_FACTS: Final[Cache[tuple[int, Time | None, bool, bool]]] = Cache(
    4096, 1 << 26, lambda key, _: len(str(key))
)


def first_named(name: str, query: Query) -> int | None:
    """The first position of a column of this name or table, counting characters from 1."""
    places = (
        position(column)
        for column in parse_query(query.sql, query.dialect).find_all(exp.Column)
        if name.lower() in (column.name.lower(), column.table.lower())
    )
    return min((place for place in places if place is not None), default=None)


def is_session_function(node: exp.Func) -> bool:
    return not is_aggregate(node) and function_name(node) in SESSION_FUNCTIONS
