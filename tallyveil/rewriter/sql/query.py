"""A query as it is known from its text alone, and what it has in common with others that differ in
nothing but constants compared with a column.
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
from tallyveil.rewriter.resolve.records import is_aggregate
from tallyveil.rewriter.sql.instants import asks_the_time
from tallyveil.rewriter.sql.nodes import COMPARISONS, function_name, position
from tallyveil.rewriter.sql.parameters import PARAMETERS, count, parameter_number
from tallyveil.rewriter.sql.statements import Dialect, Piece, parse_query, split
from tallyveil.rewriter.sql.vocabulary import SESSION_FUNCTIONS

__all__ = [
    "DAY", "INTEGER", "TEXT", "Query", "Shape", "column_beside", "first_named",
    "is_session_function", "read_query",
]  # fmt: skip

# A NUL, which no statement holds, begins what stands for a constant: of an integer, a day, a text.
INTEGER, DAY, TEXT = "\0i", "\0d", "\0t"
_DIGITS: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DECIMAL: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_LONGEST: Final = 200
_MOST: Final = 100  # constants of one statement

# Constants that are no plain ones, but could mean the same, and parameters without a number.
_OTHERS: Final = frozenset(
    {
        TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEX_STRING, TokenType.HEREDOC_STRING,
        TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING,
        TokenType.PLACEHOLDER, TokenType.QDCOLON,
    }
)  # fmt: skip

_Holes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Which plain constants are holes, and the numbers of the parameters that are."""


@dataclass(frozen=True)
class Spelled:
    """A statement with its plain constants taken out: their kinds stand in ``masked``."""

    masked: str
    starts: tuple[int, ...]
    texts: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """A statement but for its holes, the constants it compares with a column.

    Statements of one ``key`` parse alike, have as many holes of the same kinds, and the same
    constants are equal. ``holes`` are the constants, ``starts`` says where they begin in the
    statement, or is -n for parameter $n, and ``kinds`` what they are. ``texts`` are all plain
    constants, and ``parameters`` the numbers of those that are holes once they are `given`.
    """

    key: Hashable
    holes: tuple[str, ...]
    starts: tuple[int, ...]
    kinds: tuple[str, ...]
    texts: tuple[str, ...]
    parameters: tuple[int, ...]

    def given(self, types: Sequence[str], values: Sequence[Any]) -> Shape | None:
        """With parameters of these types and values; None if some are no plain constants."""
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
            (self.key, tuple(types), kinds, fixed, _equal(self.texts + texts)),
            self.holes + tuple(texts[n - 1] for n in self.parameters),
            self.starts + tuple(-n for n in self.parameters),
            self.kinds + tuple(kinds[n - 1] for n in self.parameters),
            self.texts + texts,
            (),
        )


def spelled(piece: Piece) -> Spelled | None:
    """None for a statement with constants or parameters of other kinds, or many of them."""
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
    return Spelled("".join([*masked, piece.sql[end:]]), starts, texts, kinds)


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
    """A parameter as the constant it becomes, and what that is."""
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


def _known_shape(one: Spelled, dialect: Dialect) -> Shape | None:
    """The statement's shape, if one like it was read before."""
    holes = _HOLES.find((dialect, one.masked))
    return None if holes is None else _shape(one, dialect, *holes)


def _learnt_shape(one: Spelled, dialect: Dialect, tree: exp.Expr) -> Shape | None:
    """The statement's shape; None where other constants made another tree of one like it."""
    starts = {
        node.meta_get("start") for node in tree.find_all(exp.Literal) if _is_hole(node, dialect)
    }
    parameters = list(tree.find_all(*PARAMETERS))
    fixed = {parameter_number(node) for node in parameters if not _is_hole(node, dialect)}
    holes = (
        tuple(number for number, start in enumerate(one.starts) if start in starts),
        tuple(sorted({parameter_number(node) for node in parameters} - fixed)),
    )
    known = _HOLES.get((dialect, one.masked), lambda: holes)
    return _shape(one, dialect, *holes) if known == holes else None


def _shape(
    one: Spelled, dialect: Dialect, holes: Sequence[int], parameters: tuple[int, ...]
) -> Shape:
    fixed = tuple(None if n in holes else text for n, text in enumerate(one.texts))
    return Shape(
        (one.masked, dialect, fixed, _equal(one.texts)),
        tuple(one.texts[number] for number in holes),
        tuple(one.starts[number] for number in holes),
        tuple(one.kinds[number] for number in holes),
        one.texts,
        parameters,
    )


def _equal(texts: Sequence[str]) -> tuple[int, ...]:
    """Of each text the place of the first that is equal."""
    first: dict[str, int] = {}
    return tuple(first.setdefault(text, number) for number, text in enumerate(texts))


def _is_hole(node: exp.Expr, dialect: Dialect) -> bool:
    """Whether it stands beside a column, and names no column of the result."""
    return column_beside(node) is not None and (dialect != "duckdb" or not _names_a_column(node))


def column_beside(constant: exp.Expr) -> exp.Column | None:
    """The column that a constant is compared with, if that is all there is."""
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
    """Whether it is part of an item that goes by its own text."""
    while node.parent is not None:
        item = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        if item and not isinstance(node, exp.Alias):
            return True
        node = node.parent
    return False


Time: TypeAlias = Literal["day", "instant"]


@dataclass(frozen=True)
class Query:
    """One query that has been parsed, and where its text starts in the text it came from.

    Clients may keep many of them prepared, and a tree takes hundreds of times its text: trees are
    kept by `parse_query`, and what each call asks of them is noted here. ``time`` says whether a
    plan holds for the day or for the instant it is made at, ``of_session`` whether it is the
    session's own. ``shape`` is what it has in common with statements of other constants.
    """

    sql: str
    dialect: Dialect
    offset: int
    parameters: int
    time: Time | None
    of_session: bool
    shape: Shape | None = None


def read_query(piece: Piece, dialect: Dialect) -> Query:
    """A statement that differs in nothing but its holes from one read before is not parsed again.

    Raises as `parse_query`, and UndefinedParameter for $0 or $name.
    """
    written = split(piece.sql, dialect)[0] if piece.numbered else piece
    one = spelled(written)
    shape = None if one is None else _known_shape(one, dialect)
    noted = None if shape is None else _NOTED.find(shape.key)
    if noted is None:
        tree = parse_query(piece.sql, dialect, written)
        own = any(is_session_function(node) for node in tree.find_all(exp.Func))
        deadline.check()
        noted = (count(tree), asks_the_time(tree), own)
        deadline.check()
        shape = None if one is None else _learnt_shape(one, dialect, tree)
        if shape is not None:
            _NOTED.put(shape.key, noted)
    return Query(piece.sql, dialect, piece.offset, *noted, shape)


# By a statement's shape, what else its query says of it.
_NOTED: Final[Cache[tuple[int, Time | None, bool]]] = Cache(
    4096, 1 << 26, lambda key, _: len(str(key))
)


def first_named(name: str, query: Query) -> int | None:
    """Where a column or its table is first called so, counting characters from 1."""
    called = (
        position(column)
        for column in parse_query(query.sql, query.dialect).find_all(exp.Column)
        if name.lower() in (column.name.lower(), column.table.lower())
    )
    return min((place for place in called if place is not None), default=None)


def is_session_function(node: exp.Func) -> bool:
    return not is_aggregate(node) and function_name(node) in SESSION_FUNCTIONS
