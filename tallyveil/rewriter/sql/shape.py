"""What statements have in common that differ in nothing but constants compared with a column."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tallyveil.cache import Cache
from tallyveil.rewriter.sql.statements import Dialect, Piece

__all__ = ["DAY", "INTEGER", "TEXT", "Shape", "Shapes", "Spelled", "spelled"]

# A NUL, which no statement holds, begins what stands for a constant: of an integer, a day, a text.
INTEGER, DAY, TEXT = "\0i", "\0d", "\0t"
_DIGITS: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DECIMAL: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_LONGEST: Final = 200

# Constants and parameters that are no plain ones: a plain one could mean the same.
_OTHERS: Final = frozenset(
    {
        TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.HEX_STRING, TokenType.HEREDOC_STRING,
        TokenType.NATIONAL_STRING, TokenType.RAW_STRING, TokenType.UNICODE_STRING,
        TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.QDCOLON,
    }
)  # fmt: skip

_COMPARED: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


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
    statement, and ``kinds`` what they are.
    """

    key: Hashable
    holes: tuple[str, ...]
    starts: tuple[int, ...]
    kinds: tuple[str, ...]


def spelled(piece: Piece) -> Spelled | None:
    """None for a statement with constants or parameters of other kinds."""
    masked: list[str] = []
    found: list[tuple[int, str, str]] = []
    end = 0
    for token in piece.tokens:
        kind = token.token_type
        if kind in _OTHERS:
            return None
        if kind is not TokenType.NUMBER and kind is not TokenType.STRING:
            continue
        start, stop = token.start - piece.offset, token.end - piece.offset + 1
        mark = _mark(piece.sql[start:stop], token.text, kind is TokenType.STRING)
        if mark is None and kind is TokenType.NUMBER and not _DECIMAL.fullmatch(token.text):
            return None
        if mark is not None:
            masked += [piece.sql[end:start], mark]
            found.append((start, token.text, mark))
            end = stop
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


class Shapes:
    """Which constants of a spelled statement are holes. Threads may share it."""

    def __init__(self) -> None:
        self._holes: Cache[tuple[int, ...]] = Cache(4096, 1 << 26, lambda key, _: len(str(key)))

    def find(self, one: Spelled, dialect: Dialect) -> Shape | None:
        """The statement's shape, if a statement like it was learnt."""
        holes = self._holes.find((dialect, one.masked))
        return None if holes is None else _shape(one, dialect, holes)

    def learn(self, one: Spelled, dialect: Dialect, tree: exp.Expr) -> Shape | None:
        """The statement's shape; None where other constants made another tree of such a one."""
        found = frozenset(_holes(tree, dialect))
        holes = tuple(number for number, start in enumerate(one.starts) if start in found)
        if self._holes.get((dialect, one.masked), lambda: holes) != holes:
            return None
        return _shape(one, dialect, holes)


def _shape(one: Spelled, dialect: Dialect, holes: Sequence[int]) -> Shape:
    fixed: list[str | None] = list(one.texts)
    for number in holes:
        fixed[number] = None
    first: dict[str, int] = {}
    equal = tuple(first.setdefault(text, number) for number, text in enumerate(one.texts))
    return Shape(
        (one.masked, dialect, tuple(fixed), equal),
        tuple(one.texts[number] for number in holes),
        tuple(one.starts[number] for number in holes),
        tuple(one.kinds[number] for number in holes),
    )


def _holes(tree: exp.Expr, dialect: Dialect) -> Iterator[int]:
    """Where constants begin that stand beside a column, and name no column of the result."""
    for literal in tree.find_all(exp.Literal):
        child: exp.Expr = literal
        while isinstance(child.parent, exp.Paren | exp.Neg | exp.Cast) and child.arg_key == "this":
            child = child.parent
        if "start" not in literal.meta or not _beside_a_column(child):
            continue
        if dialect != "duckdb" or not _names_a_column(child):
            yield literal.meta["start"]


def _beside_a_column(child: exp.Expr) -> bool:
    match child.parent:
        case exp.Between() | exp.In() as parent:
            other = parent.this if child.arg_key != "this" else None
        case exp.Binary() as parent if isinstance(parent, _COMPARED):
            other = parent.expression if child.arg_key == "this" else parent.this
        case _:
            return False
    return other is not None and isinstance(other.unnest(), exp.Column)


def _names_a_column(node: exp.Expr) -> bool:
    """Whether it is part of an item that goes by its own text."""
    while node.parent is not None:
        item = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        if item and not isinstance(node, exp.Alias):
            return True
        node = node.parent
    return False
