"""A query as it is known from its text alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from tallyveil import deadline
from tallyveil.cache import Cache
from tallyveil.rewriter.resolve.records import is_aggregate
from tallyveil.rewriter.sql.instants import asks_the_time
from tallyveil.rewriter.sql.nodes import function_name, position
from tallyveil.rewriter.sql.parameters import count
from tallyveil.rewriter.sql.shape import Shape, Shapes, spelled
from tallyveil.rewriter.sql.statements import Dialect, Piece, parse_query, split
from tallyveil.rewriter.sql.vocabulary import SESSION_FUNCTIONS

__all__ = ["Query", "is_session_function", "place_of", "read_query"]

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
    shape = None if one is None else _SHAPES.find(one, dialect)
    noted = None if shape is None else _NOTED.find(shape.key)
    if noted is None:
        tree = parse_query(piece.sql, dialect, written)
        own = any(is_session_function(node) for node in tree.find_all(exp.Func))
        deadline.check()
        noted = (count(tree), asks_the_time(tree), own)
        deadline.check()
        shape = None if one is None else _SHAPES.learn(one, dialect, tree)
        if shape is not None:
            _NOTED.put(shape.key, noted)
    return Query(piece.sql, dialect, piece.offset, *noted, shape)


_SHAPES: Final = Shapes()

# By a statement's shape, what else its query says of it.
_NOTED: Final[Cache[tuple[int, Time | None, bool]]] = Cache(
    4096, 1 << 26, lambda key, _: len(str(key))
)


def place_of(name: str, query: Query) -> int | None:
    """Where a column or its table is first called so, counting characters from 1."""
    called = (
        position(column)
        for column in parse_query(query.sql, query.dialect).find_all(exp.Column)
        if name.lower() in (column.name.lower(), column.table.lower())
    )
    return min((place for place in called if place is not None), default=None)


def is_session_function(node: exp.Func) -> bool:
    return not is_aggregate(node) and function_name(node) in SESSION_FUNCTIONS
