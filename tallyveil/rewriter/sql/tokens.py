"""Refuse the tokens that sqlglot would read too slowly, and write out the units of intervals."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import InvalidDatetimeFormat, StatementTooComplex
from tallyveil.interval import quantities_of

__all__ = ["read_intervals", "refuse_retries"]

_OPENING: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})

MAX_WORK: Final = 80_000  # four steps for each token of the longest statement


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


# The text of an interval may be a number, whose unit follows as a word. Its digits are bounded,
# since the parser's time is quadratic in their number.
_BARE: Final = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?", re.ASCII)


def read_intervals(sql: str, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with the units of each interval written out. The parser reads the first
    quantity and drops what it does not understand, as in '1 day ago'.

    Raises InvalidDatetimeFormat if the text after INTERVAL is not an interval.
    """
    read = list(tokens)
    if "interval" not in sql.lower():
        return read
    for number in range(1, len(read)):
        after_word = read[number - 1].token_type is TokenType.INTERVAL
        if after_word and read[number].token_type is TokenType.STRING:
            read[number] = _quantities(read[number])
    return read


def _quantities(token: Token) -> Token:
    text = token.text.strip()
    if not _BARE.fullmatch(text):
        try:
            parts = quantities_of(text)
        except ValueError:
            raise InvalidDatetimeFormat(
                f'invalid input syntax for type interval: "{token.text[:40]}"',
                hint="Write quantities with units, such as '1 month 2 days' or '-3 days 12:30:00'.",
                position=token.start + 1,
            ) from None
        text = " ".join(f"{amount.removeprefix('+')} {unit}" for amount, unit in parts)
    return Token(
        TokenType.STRING,
        text,
        line=token.line,
        col=token.col,
        start=token.start,
        end=token.end,
        comments=token.comments,
    )
