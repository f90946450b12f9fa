"""Constants of one token: numbers and strings as PostgreSQL 18 and DuckDB read them, and the texts
of intervals.

sqlglot's tokenizer takes ``1_000`` and ``123abc`` for a number and a name, and ``0x10`` for a
string of bits. Here the characters of the statement decide: a number is one token with its
decimal digits, and what is joined to it is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import InvalidDatetimeFormat, NumericValueOutOfRange, SQLSyntaxError

__all__ = ["read_constants", "read_intervals", "refuse_wide"]


_DIGITS: Final = r"[0-9](?:_?[0-9])*+"
_BASED: Final = re.compile(
    r"0[xX](?P<x>(?:_?[0-9a-fA-F])++)|0[oO](?P<o>(?:_?[0-7])++)|0[bB](?P<b>(?:_?[01])++)"
)
_DECIMAL: Final = re.compile(rf"{_DIGITS}(?:\.(?:{_DIGITS})?)?(?:[eE][+-]?{_DIGITS})?")
_FRACTION: Final = re.compile(rf"{_DIGITS}(?:[eE][+-]?{_DIGITS})?")
_WHOLE: Final = re.compile(r"[0-9]++")

# What may not follow a number or the number of a parameter without a space.
_JOINED: Final = re.compile(r"[\w.$]", re.ASCII)
_WORD: Final = re.compile(r"[\w$]*+")

# In these kinds of tokens the tokenizer puts what begins with a digit.
_NUMBERS: Final = frozenset(
    {TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.IDENTIFIER}
)

# Between two parts of one string stand a line's end and, at most, comments to the end of a line.
_CONTINUED: Final = re.compile(r"(?:[^\S\n]|--[^\n]*+)*+\n(?:\s|--[^\n]*+\n)*+")

# What any of this can be about. Most statements hold nothing of the kind.
_DOUBTFUL: Final = re.compile(
    r"[0-9](?:[^\W\d]|[.$])|\?[0-9]|[^\x00-\x7f]|'\s*+(?:'|--|/\*)|[0-9]{39}"
)


def read_constants(sql: str, tokens: Sequence[Token], *, based: bool) -> list[Token]:
    """The tokens with each number in one, in decimal, and each string in one.

    ``based`` says whether ``0x1F``, ``0o17`` and ``0b11`` are numbers. DuckDB reads them as 0 with
    a name.

    Raises SQLSyntaxError for a number that something is joined to, and for two strings side by
    side; NumericValueOutOfRange for a number that a double rounds to 0 or to infinity, and for a
    whole one of more than 128 bits.
    """
    if not _DOUBTFUL.search(sql):
        return list(tokens)
    read: list[Token] = []
    end = 0  # where the last number ended: what the tokenizer saw before that is part of it
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
        ):
            read.append(_continued(sql, read.pop(), token))
        else:
            read.append(token)
    return read


def _number(sql: str, token: Token, before: Token | None, based: bool) -> Token:
    start, what = token.start, "numeric literal"
    beside = before is not None and before.end + 1 == start
    if beside and before is not None and before.text in ("$", "?"):
        match, what = _WHOLE.match(sql, start), "parameter"
        start = before.start
    elif beside and before is not None and before.text == ".":
        match = _FRACTION.match(sql, start)
    else:
        match = (_BASED.match(sql, start) if based else None) or _DECIMAL.match(sql, start)
    if match is None:  # digits that are none of ASCII's
        raise _junk(sql, start, start, what)
    if _JOINED.match(sql, match.end()) or (sql[match.end() : match.end() + 1] or " ") > "\x7f":
        raise _junk(sql, start, match.end(), what)
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
    """The digits of a number in base ten, as they are where it was written so."""
    text = match[0].replace("_", "")
    if match.re is _BASED:
        digits = match[match.lastgroup or "x"].replace("_", "")
        # Beyond 4,000 digits Python refuses to write a number down.
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
    """Raise NumericValueOutOfRange beyond 128 bits: DuckDB would compare by the last 128 of them,
    so that 5 < 2²⁰⁰ is false.
    """
    if not -(2**127) <= number < 2**127:
        raise NumericValueOutOfRange(
            "a whole number is beyond what 128 bits hold",
            hint="Write it with an exponent, such as 1e40: then it has double precision.",
            position=position,
        )


def _too_great(start: int) -> NumericValueOutOfRange:
    return NumericValueOutOfRange(
        "a number is beyond what double precision holds",
        hint="Numbers between 1e-307 and 1e308 are understood.",
        position=start + 1,
    )


def _junk(sql: str, start: int, end: int, what: str) -> SQLSyntaxError:
    """In PostgreSQL's words: the number with the first of what is joined to it."""
    word = _WORD.match(sql, end)
    stop = word.end() if word is not None and word.end() > end else end + 1
    return SQLSyntaxError(
        f'trailing junk after {what} at or near "{sql[start:stop][:40]}"',
        hint="Put a space between a number and what follows it.",
        position=start + 1,
    )


def _continued(sql: str, first: Token, second: Token) -> Token:
    if not _CONTINUED.fullmatch(sql, first.end + 1, second.start):
        shown = sql[second.start : second.end + 1][:40]
        raise SQLSyntaxError(
            f'syntax error at or near "{shown}"',
            hint="Strings that follow each other are one string only with a line's end between.",
            position=second.start + 1,
        )
    return _string(first.text + second.text, first, second)


def _string(text: str, first: Token, last: Token) -> Token:
    """In place of these."""
    return Token(
        TokenType.STRING,
        text,
        line=last.line,
        col=last.col,
        start=first.start,
        end=last.end,
        comments=first.comments,
    )


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
# The parser looks at each digit once for every other one.
_BARE: Final = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{1,40})?", re.ASCII)


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
    text = token.text.strip()
    if _BARE.fullmatch(text):
        return _string(text, token, token)
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
    return _string(" ".join(parts), token, token)
