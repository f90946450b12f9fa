"""Statements that stop half-way, which the parser takes for whole ones.

It forgets a comma that nothing follows, takes a word that begins a clause for a name, and asks
the whole of what was to be a part: `SELECT count(*) FROM person GROUP` is one who is still typing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import SQLSyntaxError

__all__ = ["refuse_unfinished"]

_CLOSE: Final = frozenset({")", "]"})
_CLAUSES: Final = frozenset({"FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION"})
_LEADING: Final = frozenset({
    "AS", "DISTINCT", "FETCH", "GROUP BY", "IN", "IS", "LIMIT", "OFFSET", "ON", "PARTITION BY",
    "USING",
})  # fmt: skip
_LISTS: Final = frozenset({"IN", "ROLLUP", "CUBE"})
_HALVES: Final = frozenset({"GROUP", "ORDER"})  # with BY they are one token
_NO_WORDS: Final = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING})


def refuse_unfinished(tokens: Sequence[Token], sql: str, whole_lists: bool) -> None:
    """Raise SQLSyntaxError where PostgreSQL does: at what follows what is not finished.

    ``whole_lists``: whether no list may be empty or end in a comma, as DuckDB lets it.
    """
    words = ["" if t.token_type in _NO_WORDS else t.text.upper() for t in tokens]
    closed = [word in _CLOSE for word in words] + [True]
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        following = words[number + 1] if number + 1 < len(words) else ""
        if before in ("AS", "."):  # whatever it is, it is a name
            continue
        if word == ",":
            wrong = whole_lists and (closed[number + 1] or following in _CLAUSES)
        elif word in _HALVES or (word == "FILTER" and before == ")"):
            wrong = following != "("
        elif word == "OVER" and before == ")":
            wrong = closed[number + 1] or following in _CLAUSES
        elif word == "(" and before in _LISTS:
            wrong = following == ")" and (whole_lists or before != "IN")
        elif before == "FETCH":
            wrong = closed[number + 1]
        else:
            wrong = word in _LEADING and closed[number + 1]
        if wrong:
            raise _unexpected(tokens[number + 1 :], sql)


def _unexpected(rest: Sequence[Token], sql: str) -> SQLSyntaxError:
    if not rest:
        return SQLSyntaxError("syntax error at end of input", position=len(sql) + 1)
    first = rest[0]
    text = sql[first.start : first.end + 1]
    if first.token_type in (TokenType.GROUP_BY, TokenType.ORDER_BY):  # two words are one token
        text = text.split()[0]
    return SQLSyntaxError(f'syntax error at or near "{text[:40]}"', position=first.start + 1)
