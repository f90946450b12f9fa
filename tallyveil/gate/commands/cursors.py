"""DECLARE, FETCH, MOVE and CLOSE, in PostgreSQL's grammar."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tallyveil.errors import InvalidCursorDefinition, SQLSyntaxError
from tallyveil.gate.commands.reader import TokenReader
from tallyveil.gate.interface import CursorOptions, Move, Statement

__all__ = ["parse_close", "parse_declare", "parse_fetch"]

_MOST: Final = 2**31 - 1

# The directions that no count follows.
_PLACES: Final = {
    "NEXT": Move("forward", 1),
    "PRIOR": Move("backward", 1),
    "FIRST": Move("absolute", 1),
    "LAST": Move("absolute", -1),
    "ALL": Move("forward", None),
}


def parse_declare(reader: TokenReader) -> Statement:
    """Raises InvalidCursorDefinition for options that exclude each other."""
    reader.usage = "DECLARE name [ NO ] SCROLL CURSOR [ WITH HOLD ] FOR SELECT …"
    name = reader.name()
    options: set[str] = set()
    while not reader.take("CURSOR"):
        if reader.take("NO", "SCROLL"):
            options.add("NO SCROLL")
        else:
            options.add(reader.one_of("SCROLL", "BINARY", "ASENSITIVE", "INSENSITIVE"))
    for one, other in (("SCROLL", "NO SCROLL"), ("INSENSITIVE", "ASENSITIVE")):
        if {one, other} <= options:
            raise InvalidCursorDefinition(f"cannot specify both {one} and {other}", position=1)
    hold = reader.take("WITH", "HOLD")
    if not hold:
        reader.take("WITHOUT", "HOLD")
    reader.expect("FOR")
    inner = reader.inner()
    scroll = True if "SCROLL" in options else False if "NO SCROLL" in options else None
    return replace(
        reader.statement("declare", "DECLARE CURSOR", name),
        parameter_count=inner.parameter_count,
        inner=inner,
        cursor=CursorOptions(scroll, hold, "BINARY" in options),
    )


def parse_fetch(reader: TokenReader) -> Statement:
    """FETCH and MOVE. A single word is the cursor's name, even if it is one of the grammar."""
    reader.usage = f"{reader.first} 100 FROM name"
    move = Move() if len(reader.piece.tokens) == 2 else _move(reader)
    if not reader.take("FROM"):
        reader.take("IN")
    found = reader.statement("fetch", reader.first, reader.name())
    return replace(found, move=replace(move, shown=reader.first == "FETCH"))


def _move(reader: TokenReader) -> Move:
    count = _count(reader)
    if count is not None:
        return Move("forward", count)
    for word, move in _PLACES.items():
        if reader.take(word):
            return move
    if reader.take("ABSOLUTE"):
        return Move("absolute", _required_count(reader))
    if reader.take("RELATIVE"):
        return Move("relative", _required_count(reader))
    if reader.take("FORWARD"):
        return Move("forward", _count_or_all(reader))
    if reader.take("BACKWARD"):
        return Move("backward", _count_or_all(reader))
    return Move()


def _count_or_all(reader: TokenReader) -> int | None:
    if reader.take("ALL"):
        return None
    count = _count(reader)
    return 1 if count is None else count


def _required_count(reader: TokenReader) -> int:
    count = _count(reader)
    if count is None:
        raise reader.error()
    return count


def _count(reader: TokenReader) -> int | None:
    position = reader.position()
    digits = reader.number()
    if digits is None:
        return None
    if not digits.removeprefix("-").isdigit() or len(digits) > 11 or abs(int(digits)) > _MOST:
        raise SQLSyntaxError(f'syntax error at or near "{digits[:40]}"', position=position)
    return int(digits)


def parse_close(reader: TokenReader) -> Statement:
    """``target`` is None for ALL."""
    reader.usage = "CLOSE name or CLOSE ALL"
    name = None if reader.take("ALL") else reader.name()
    return reader.statement("close", "CLOSE CURSOR ALL" if name is None else "CLOSE CURSOR", name)
