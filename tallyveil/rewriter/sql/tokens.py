"""Refuse the tokens that sqlglot would read too slowly, and bracket those it would misread."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import FeatureNotSupported, StatementTooComplex

__all__ = ["bracket_typed_texts", "refuse_misread", "refuse_retries"]

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})

MAX_WORK: Final = 80_000  # four steps for each token of the longest statement


def refuse_misread(tokens: Sequence[Token]) -> None:
    """Refuse the operator @, which sqlglot reads as the sign of a parameter."""
    for token in tokens:
        if token.token_type is TokenType.PARAMETER and token.text == "@":
            raise FeatureNotSupported(
                "the operator @ is not answered", hint="Write abs(…).", position=token.start + 1
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
        if kind in _OPENING:
            doubtful = before is not None and (
                before.token_type in types or before.text.upper() == "IF"
            )
            twice.append(kind is TokenType.L_BRACKET or doubtful)
            depth += twice[-1]
        elif kind in _CLOSING and twice:
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
