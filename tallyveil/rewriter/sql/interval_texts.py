"""The texts of intervals, such as '1 month 2 days': wholly understood, or refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import InvalidDatetimeFormat

__all__ = ["read_intervals"]

# The text of an interval: quantities with units, and a time at the end; or a number, whose unit
# follows as a word. The parser takes the first quantity that it finds and drops what it does not
# understand, as in '1 day ago'.
_UNITS: Final = {
    "microsecond": ("microsecond", "us", "usec"),
    "millisecond": ("millisecond", "ms", "msec"),
    "second": ("second", "sec", "s"),
    "minute": ("minute", "min", "m"),
    "hour": ("hour", "hr", "h"),
    "day": ("day", "d"),
    "week": ("week", "w"),
    "month": ("month", "mon"),
    "year": ("year", "yr", "y"),
    "decade": ("decade", "dec"),
    "century": ("century", "cent", "c"),
    "millennium": ("millennium", "mil"),
}
_UNIT: Final = {
    **{word: unit for unit, words in _UNITS.items() for word in words},
    **{word + "s": unit for unit, words in _UNITS.items() for word in words if len(word) > 2},
    "hrs": "hour",
    "yrs": "year",
    "centuries": "century",
    "millennia": "millennium",
}
_QUANTITY: Final = re.compile(r"([+-]?[0-9]++(?:\.[0-9]++)?)\s*+([a-zA-Z]++)\s*+", re.ASCII)
_CLOCK: Final = re.compile(
    r"([+-]?)([0-9]{1,9}):([0-9]{2})(?::([0-9]{2}(?:\.[0-9]{1,6})?))?", re.ASCII
)
_BARE: Final = re.compile(r"\s*+[+-]?[0-9]++(?:\.[0-9]++)?\s*+", re.ASCII)


def read_intervals(sql: str, tokens: Sequence[Token]) -> list[Token]:
    """The tokens with the units of each interval written out.

    Raises InvalidDatetimeFormat for a text after INTERVAL that is not understood.
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
    """The text of an interval, its units written out."""
    text = token.text.strip()
    if _BARE.fullmatch(text):
        return token
    parts, at = [], 0
    while at < len(text) and (match := _QUANTITY.match(text, at)):
        unit = _UNIT.get(match[2].lower())
        if unit is None:
            break
        parts.append(f"{match[1]} {unit}")
        at = match.end()
    if clock := _CLOCK.fullmatch(text, at):
        sign, *amounts = clock.groups("0")
        # A sign before the clock is that of all its parts.
        sign = sign.strip("0")
        parts += [
            f"{sign}{amount} {unit}"
            for amount, unit in zip(amounts, ("hour", "minute", "second"), strict=True)
        ]
    elif at < len(text) or not parts:
        raise InvalidDatetimeFormat(
            f'invalid input syntax for type interval: "{token.text[:40]}"',
            hint="Write quantities with units, such as '1 month 2 days' or '-3 days 12:30:00'.",
            position=token.start + 1,
        )
    return Token(
        TokenType.STRING,
        " ".join(parts),
        line=token.line,
        col=token.col,
        start=token.start,
        end=token.end,
        comments=token.comments,
    )
