"""A query as it is known from its text alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlglot import exp

from tallyveil.rewriter.resolve.records import is_aggregate
from tallyveil.rewriter.sql.check import function_name
from tallyveil.rewriter.sql.instants import asks_the_time
from tallyveil.rewriter.sql.parameters import count
from tallyveil.rewriter.sql.statements import Dialect, Piece, parse_query
from tallyveil.rewriter.sql.vocabulary import SESSION_FUNCTIONS

__all__ = ["Query", "is_session_function", "read_query"]

Time: TypeAlias = Literal["day", "instant"]


@dataclass(frozen=True)
class Query:
    """One query that has been parsed, and where its text starts in the text it came from.

    Clients may keep many of them prepared, and a tree takes hundreds of times its text: trees are
    kept by `parse_query`, and what each call asks of them is noted here. ``time`` says whether a
    plan holds for the day or for the instant it is made at, ``of_session`` whether it is the
    session's own.
    """

    sql: str
    dialect: Dialect
    offset: int
    parameters: int
    time: Time | None
    of_session: bool


def read_query(piece: Piece, dialect: Dialect) -> Query:
    """Raises as `parse_query`, and UndefinedParameter for $0 or $name."""
    tree = parse_query(piece.sql, dialect, piece)
    own = any(is_session_function(node) for node in tree.find_all(exp.Func))
    return Query(piece.sql, dialect, piece.offset, count(tree), asks_the_time(tree), own)


def is_session_function(node: exp.Func) -> bool:
    return not is_aggregate(node) and function_name(node) in SESSION_FUNCTIONS
