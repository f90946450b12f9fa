"""Queries in conditions on records whose answers are needed before the statement can be planned:

    SELECT count(*) FROM person WHERE state IN
        (SELECT state FROM person GROUP BY state ORDER BY count(*) DESC LIMIT 5)

The inner query is a statement by itself, and its answer public once it is released. With the answer
as constants in its place, the outer one is a statement like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from tallyveil import deadline
from tallyveil.errors import StatementError
from tallyveil.rewriter.sql.nodes import position
from tallyveil.rewriter.sql.query import Query, read_query
from tallyveil.rewriter.sql.statement_text import QUERY_WORDS, Dialect, parse_query, split

__all__ = ["InnerAnswer", "constant", "inner_answer", "query_of"]

_FROM: Final = (exp.From, exp.Join, exp.CTE, exp.With, exp.SetOperation, exp.Exists, exp.Any)


@dataclass(frozen=True)
class InnerAnswer:
    """A query in brackets, from ``start`` to ``end`` in the statement. ``query`` is it by itself,
    with the common tables before it, at its place. ``listed``: it stands after IN."""

    query: Query
    start: int
    end: int
    listed: bool

    def constants(self, values: Sequence[Any]) -> str:
        """The values as constants in brackets. No value is NULL, or an empty list."""
        if not values and self.listed:
            return "(SELECT NULL WHERE false)"
        written = [constant(value, self.query.dialect) for value in values or [None]]
        return f"({', '.join(dict.fromkeys(written))})"


def query_of(sql: str, dialect: Dialect) -> Query:
    """The query that a text is."""
    return read_query(split(sql, dialect)[0], dialect)


def inner_answer(query: Query, place: int) -> InnerAnswer | None:
    """The query in an expression whose first name or constant is at ``place``, counted from 1; None
    if it is compared otherwise than as one value or a list."""
    tree = parse_query(query.sql, query.dialect).copy()
    tokens = split(query.sql, query.dialect)[0].tokens
    for node in tree.find_all(exp.Subquery):
        around = node.parent
        if around is None or isinstance(around, (*_FROM, exp.Subquery)) or position(node) != place:
            continue
        for start, end in _brackets(tokens, place - 1):
            text = query.sql[start + 1 : end]
            try:
                same = parse_query(text, query.dialect) == node.this
            except StatementError:
                deadline.check()  # one that was stopped is no other query
                continue
            if same:
                before = query.sql[: _before(tokens, start)]
                alone = before + " " * (start + 1 - len(before)) + text
                listed = isinstance(around, exp.In)
                return InnerAnswer(query_of(alone, query.dialect), start, end + 1, listed)
    return None


def _brackets(tokens: Sequence[Token], place: int) -> Iterator[tuple[int, int]]:
    """Where brackets with a query in them open and close around a place."""
    opened: list[int] = []
    queries = {a.start for a, b in pairwise(tokens) if b.text.upper() in QUERY_WORDS}
    for token in tokens:
        if token.text == "(":
            opened.append(token.start)
        elif token.text == ")" and opened:
            start = opened.pop()
            if start in queries and start < place < token.start:
                yield start, token.start


def _before(tokens: Sequence[Token], place: int) -> int:
    """Where the items of WITH end that stand before a place; 0 without any."""
    depth, end = 0, 0
    if tokens[0].text.upper() != "WITH":
        return 0
    for token, after in pairwise(tokens):
        if token.start >= place:
            break
        depth += (token.text == "(") - (token.text == ")")
        if token.text == ")" and not depth and after.text.upper() != "AS":
            end = token.end + 1
            if after.text != ",":
                break
    return end


def constant(value: Any, dialect: Dialect) -> str:
    """A value as SQL."""
    written: str = exp.convert(value).sql(dialect)
    return written
