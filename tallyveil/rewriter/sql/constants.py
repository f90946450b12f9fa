"""Constants of one token: numbers and strings as PostgreSQL 18 and DuckDB read them.

sqlglot's tokenizer reads ``1_000`` and ``123abc`` as a number and a name, and ``0x10`` as a bit
string. This module reads the statement's characters instead: a number becomes one token in decimal
digits, and anything joined to it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import NumericValueOutOfRange, SQLSyntaxError

__all__ = ["read_constants", "refuse_wide", "replaced"]

_DIGITS: Final = r"[0-9](?:_?[0-9])*+"
_BASED: Final = re.compile(
    r"0[xX](?P<x>(?:_?[0-9a-fA-F])++)|0[oO](?P<o>(?:_?[0-7])++)|0[bB](?P<b>(?:_?[01])++)"
)
_DECIMAL: Final = re.compile(rf"{_DIGITS}(?:\.(?:{_DIGITS})?)?(?:[eE][+-]?{_DIGITS})?")
_FRACTION: Final = re.compile(rf"{_DIGITS}(?:[eE][+-]?{_DIGITS})?")
_WHOLE: Final = re.compile(r"[0-9]++")

# What may not follow a number, or the number of a parameter, without a space.
_JOINED: Final = re.compile(r"(?:[\w$]|[^\x00-\x7f])[\w$]*+|\.")

# The kinds of tokens that the tokenizer makes of a text that begins with a digit.
_NUMBERS: Final = frozenset(
    {TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.IDENTIFIER}
)

# A newline, and optionally -- comments, separate two parts of one string.
_CONTINUED: Final = re.compile(r"(?:[^\S\n]|--[^\n]*+)*+\n(?:\s|--[^\n]*+\n)*+")

# Characters that may need this module. Most statements have none.
_DOUBTFUL: Final = re.compile(
    r"[0-9](?:[^\W\d]|[.$])|\?[0-9]|[^\x00-\x7f]|'\s*+(?:'|--|/\*)|[0-9]{39}"
)


def read_constants(sql: str, tokens: Sequence[Token], *, based: bool) -> list[Token]:
    """Return the tokens with each number as one token, in decimal, and each string as one token.

    ``based`` says whether ``0x1F``, ``0o17`` and ``0b11`` are numbers. DuckDB reads them as 0 and a
    name.

    Raises SQLSyntaxError if something is joined to a number or to that of a parameter, and
    NumericValueOutOfRange if a double rounds a number to 0 or to infinity, or a whole number has
    more than 128 bits.
    """
    if not _DOUBTFUL.search(sql):
        return list(tokens)
    read: list[Token] = []
    end = 0  # where the last number ended: tokens that start before are part of that number
    for token in tokens:
        if token.start < end:
            continue
        if token.token_type in _NUMBERS and sql[token.start].isdigit():
            number = _number(sql, token, read[-1] if read else None, based)
            end = number.end + 1
            read.append(number)
        elif (
            token.token_type is TokenType.STRING
            and read
            and read[-1].token_type is TokenType.STRING
            and _CONTINUED.fullmatch(sql, read[-1].end + 1, token.start)
        ):
            first = read.pop()
            read.append(replaced(first.text + token.text, first, token))
        else:
            read.append(token)
    return read


def _number(sql: str, token: Token, before: Token | None, based: bool) -> Token:
    start, what, first = token.start, "numeric literal", token.start
    beside = before is not None and before.end + 1 == start
    if beside and before is not None and before.text in ("$", "?"):
        match, what, first = _WHOLE.match(sql, start), "parameter", before.start
    elif beside and before is not None and before.text == ".":
        match = _FRACTION.match(sql, start)
    else:
        match = (_BASED.match(sql, start) if based else None) or _DECIMAL.match(sql, start)
    end = match.end() if match is not None else start  # digits outside ASCII
    junk = _JOINED.match(sql, end)
    if match is None or junk is not None:
        shown = sql[first : junk.end() if junk else end + 1][:40]
        raise SQLSyntaxError(
            f'trailing junk after {what} at or near "{shown}"',
            hint="Put a space between a number and what follows it.",
            position=first + 1,
        )
    return Token(
        TokenType.NUMBER,
        _decimal(match, token.start),
        line=token.line,
        col=token.col + match.end() - 1 - token.end,
        start=token.start,
        end=match.end() - 1,
        comments=token.comments,
    )


def _decimal(match: re.Match[str], start: int) -> str:
    """The text of a number in base ten, without underscores."""
    text = match[0].replace("_", "")
    if match.re is _BASED:
        digits = match[match.lastgroup or "x"].replace("_", "")
        # Python refuses to write a number of more than 4,000 digits as text.
        if len(digits) > 1_000:
            raise _too_great(start)
        text = str(int(digits, {"x": 16, "o": 8, "b": 2}[match.lastgroup or "x"]))
    if match.re in (_BASED, _DECIMAL) and text.isdigit():
        refuse_wide(int(text.lstrip("0")[:40] or "0"), start + 1)
    elif "e" in text.lower():
        value = float(text)
        mantissa = re.split("[eE]", text)[0]
        if value == float("inf") or (value == 0 and mantissa.strip("0.")):
            raise _too_great(start)
    return text


def refuse_wide(number: int, position: int | None = None) -> None:
    """Raise NumericValueOutOfRange beyond 128 bits: DuckDB would compare only the last 128, so that
    5 < 2²⁰⁰ is false.
    """
    if not -(2**127) <= number < 2**127:
        raise NumericValueOutOfRange(
            "a whole number needs more than 128 bits",
            hint="Write it with an exponent, such as 1e40: then it has double precision.",
            position=position,
        )


def _too_great(start: int) -> NumericValueOutOfRange:
    return NumericValueOutOfRange(
        "a number is out of range for double precision",
        hint="Write a number between 1e-307 and 1e308.",
        position=start + 1,
    )


def replaced(text: str, first: Token, last: Token) -> Token:
    """A string token in the place of these tokens."""
    return Token(
        TokenType.STRING,
        text,
        line=last.line,
        col=last.col,
        start=first.start,
        end=last.end,
        comments=first.comments,
    )
