"""A query inside of another statement."""

from __future__ import annotations

from itertools import pairwise

from tallyveil.errors import StatementError, UndefinedParameter
from tallyveil.gate.interface import Aside, Statement
from tallyveil.rewriter import Dialect, Piece, Query, read_query

__all__ = [
    "as_statement",
    "nested_query",
    "nested_statement",
    "set_aside",
    "without_parameters",
]


def nested_query(outer: Piece, inner: Piece, dialect: Dialect) -> Query:
    """The query that stands at ``inner`` in the statement ``outer``, from whose start the positions
    of errors count.
    """
    try:
        return read_query(inner, dialect)
    except StatementError as error:
        if error.position is not None:
            error.position += inner.offset - outer.offset
        raise


def as_statement(query: Query) -> Statement:
    return Statement(
        query.sql, "select", "SELECT", query.parameters, query=query, offset=query.offset
    )


def set_aside(piece: Piece) -> Statement:
    """A statement that somebody else answers, who also reads it."""
    words = piece.words
    numbers = (int(n) for sign, n in pairwise(words) if sign == "$" and n.isdecimal())
    return Statement(piece.sql, "catalog", words[0], max(numbers, default=0), offset=piece.offset)


def nested_statement(outer: Piece, inner: Piece, dialect: Dialect, aside: Aside) -> Statement:
    """As `nested_query`, but for a query that ``aside`` takes, which is not looked into."""
    return set_aside(inner) if aside(inner) else as_statement(nested_query(outer, inner, dialect))


def without_parameters(query: Query) -> Query:
    """For statements that take none. Raises UndefinedParameter."""
    if query.parameters:
        raise UndefinedParameter(
            "there is no parameter $1", hint="Write the value into the statement."
        )
    return query
