"""Refuse or bracket the tokens that the parser would misread.

The parser accepts unfinished statements: it ignores a comma that nothing follows, and reads a word
that begins a clause as a name. `SELECT count(*) FROM person GROUP`, from an analyst who is still
typing, would be answered as a whole. The parser accepts MySQL's LIMIT, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import (
    FeatureNotSupported,
    SQLSyntaxError,
    StatementTooComplex,
    UndefinedFunction,
)

__all__ = [
    "CLOSING", "OPENING", "bracket_typed_texts", "refuse_misread", "refuse_operators",
    "refuse_retries", "refuse_unfinished",
]  # fmt: skip

OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})

MAX_WORK: Final = 80_000  # four steps for each token of the longest statement

_OPEN: Final = frozenset({"(", "["})
_CLOSE: Final = frozenset({")", "]"})
_CLAUSES: Final = frozenset({"FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION"})
# Words that something must follow.
_LEADING: Final = frozenset({
    "AS", "DISTINCT", "FETCH", "GROUP BY", "IN", "IS", "LIMIT", "OFFSET", "ON", "PARTITION BY",
    "USING",
})  # fmt: skip
_LISTS: Final = frozenset({"IN", "ROLLUP", "CUBE"})
_HALVES: Final = frozenset({"GROUP", "ORDER"})  # with BY they are one token
_TWO_WORDS: Final = frozenset({TokenType.GROUP_BY, TokenType.ORDER_BY})
_NOT_WORDS: Final = frozenset({TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING})


def refuse_unfinished(tokens: Sequence[Token], sql: str, whole_lists: bool) -> None:
    """Raise SQLSyntaxError where PostgreSQL does: at the token after an unfinished part.

    ``whole_lists`` refuses lists that are empty or end in a comma, which DuckDB accepts.
    """
    words = ["" if t.token_type in _NOT_WORDS else t.text.upper() for t in tokens]
    closed = [word in _CLOSE for word in words] + [True]
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        following = words[number + 1] if number + 1 < len(words) else ""
        if before in ("AS", "."):  # any word is a name here
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
        if word == "LIMIT" and _has_comma(words[number + 1 :]):
            raise SQLSyntaxError(
                "LIMIT #,# syntax is not supported",
                hint="Use separate LIMIT and OFFSET clauses.",
                position=tokens[number].start + 1,
            )


def _has_comma(rest: Sequence[str]) -> bool:
    """Whether a comma follows before the surrounding bracket closes."""
    depth = 0
    for word in rest:
        depth += (word in _OPEN) - (word in _CLOSE)
        if depth < 0 or (not depth and word == ","):
            return not depth
    return False


def _unexpected(rest: Sequence[Token], sql: str) -> SQLSyntaxError:
    if not rest:
        return SQLSyntaxError("syntax error at end of input", position=len(sql) + 1)
    first = rest[0]
    text = sql[first.start : first.end + 1]
    if first.token_type in _TWO_WORDS:  # two words are one token
        text = text.split()[0]
    return SQLSyntaxError(f'syntax error at or near "{text[:40]}"', position=first.start + 1)


# Operators of DuckDB that PostgreSQL lacks, with PostgreSQL's own.
_DUCKDB_OPERATORS: Final = {"==": "=", "!": "NOT"}
_OPERATORS: Final = frozenset({TokenType.EQ, TokenType.NOT})


def refuse_misread(tokens: Sequence[Token]) -> None:
    """Refuse empty names, and the operator @, which the parser reads as the sign of a parameter."""
    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and not token.text:
            raise SQLSyntaxError(
                'zero-length delimited identifier at or near """"',
                hint="Give it a name of one character or more.",
                position=token.start + 1,
            )
        if token.token_type is TokenType.PARAMETER and token.text == "@":
            raise FeatureNotSupported(
                "the operator @ is not answered", hint="Write abs(…).", position=token.start + 1
            )


def refuse_operators(tokens: Sequence[Token]) -> None:
    for token, following in itertools.zip_longest(tokens, tokens[1:]):
        negated = following is not None and following.text.startswith("~")
        operator = token.token_type in _OPERATORS and not negated
        if operator and token.text in _DUCKDB_OPERATORS:
            raise UndefinedFunction(
                f"operator does not exist: {token.text}",
                hint=f"Write {_DUCKDB_OPERATORS[token.text]}.",
                position=token.start + 1,
            )


def refuse_retries(tokens: Sequence[Token], types: Container[TokenType]) -> None:
    """Bound the work of the parser, which reads the contents of some brackets twice.

    After a word that can be a type, or IF, it reads the bracket as the type's, and starts again if
    that fails; so it does at every [. In d such brackets a token is read 2^d times.
    """
    work, depth, before = 0, 0, None
    twice: list[bool] = []
    for token in tokens:
        kind = token.token_type
        if kind in OPENING:
            doubtful = before is not None and (
                before.token_type in types or before.text.upper() == "IF"
            )
            twice.append(kind is TokenType.L_BRACKET or doubtful)
            depth += twice[-1]
        elif kind in CLOSING and twice:
            depth -= twice.pop()
        work += 2**depth
        if work > MAX_WORK:
            raise StatementTooComplex(
                "the statement is nested too deeply inside arrays or functions that are named like "
                "types",
                position=token.start + 1,
            )
        before = token


_ZONE: Final = ("TIME", "ZONE")


def bracket_typed_texts(tokens: Sequence[Token], types: Container[TokenType]) -> list[Token]:
    """Return the tokens with brackets around each type and its text that are followed by ::.

    A type before a text binds more tightly than :: after it: DATE '2020-01-01'::timestamp is a
    day's midnight. The parser would cast the text first.
    """
    read: list[Token] = []
    for number, token in enumerate(tokens):
        following = tokens[number + 1].token_type if number + 1 < len(tokens) else None
        typed = token.token_type is TokenType.STRING and following is TokenType.DCOLON
        first = _type(read, types) if typed else None
        read.append(token)
        if first is not None:
            read.insert(first, _bracket(TokenType.L_PAREN, "(", read[first]))
            read.append(_bracket(TokenType.R_PAREN, ")", token))
    return read


def _type(tokens: Sequence[Token], types: Container[TokenType]) -> int | None:
    """The index of the type at the end of the tokens; None if they end with none."""
    at = len(tokens) - 1
    if tuple(token.text.upper() for token in tokens[at - 1 : at + 1]) == _ZONE:
        at -= 3  # WITH TIME ZONE, WITHOUT TIME ZONE
    if at >= 0 and tokens[at].token_type is TokenType.R_PAREN:
        while at >= 0 and tokens[at].token_type is not TokenType.L_PAREN:
            at -= 1
        at -= 1
    kind = tokens[at].token_type if at >= 0 else None
    return at if kind in types and kind is not TokenType.INTERVAL else None


def _bracket(kind: TokenType, text: str, beside: Token) -> Token:
    """A bracket, at the position of the token beside it."""
    return Token(
        kind,
        text,
        line=beside.line,
        col=beside.col,
        start=beside.start,
        end=beside.end,
        comments=[],
    )
