"""A type before a text belongs to it more closely than :: after it: DATE '2020-01-01'::timestamp is
a day's midnight. The parser would cast the text first.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["bracket_typed_texts"]

_ZONE: Final = ("TIME", "ZONE")


def bracket_typed_texts(tokens: Sequence[Token], types: Container[TokenType]) -> list[Token]:
    """The tokens with brackets around each type and its text that :: follows."""
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
    """Where the type begins that the tokens end with; None where they end with none."""
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
    """At the place of the token beside it."""
    return Token(
        kind,
        text,
        line=beside.line,
        col=beside.col,
        start=beside.start,
        end=beside.end,
        comments=[],
    )
