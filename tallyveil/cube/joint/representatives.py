"""Representatives of the classes of values that a column can hold: no declaration tells two values
of a class apart.

Classes are found from what decides in a declaration: its values, ends, edges and the borders of its
steps. Between two neighbours of these, of all declarations together, nothing differs but whether a
number is whole; so each of these points, a point of each kind between, and points beyond both ends
represent all, in all ways in which the column can write them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tallyveil.cube.reading import INTEGERS
from tallyveil.policy import Attribute
from tallyveil.policy.domain import shown

__all__ = ["represented"]

_ULPS: Final = 3  # doubles on both sides of a border that arithmetic may have rounded across
_UNITS: Final = 1 << 63


def represented(attributes: Iterable[Attribute], column_type: str) -> Iterator[str]:
    """The representatives, as text that DuckDB casts to the column's type."""
    words, numbers, moments = set[str](_WORDS), set[Fraction](), set[dt.datetime]()
    prefixes = set[int]()
    for attribute in attributes:
        prefixes |= {attribute.prefix} if attribute.prefix is not None else set()
        for cell in (*attribute.cells, *(attribute.edges or ()), *_borders(attribute)):
            match cell:
                case None:
                    continue
                case bool():
                    words |= {str(cell), str(int(cell))}
                case str():
                    words.add(cell)
                case dt.datetime():
                    moments.add(cell if cell.tzinfo is None else _utc(cell))
                case dt.date():
                    moments.add(dt.datetime.combine(cell, dt.time()))
                case dt.time():
                    moments.add(dt.datetime.combine(dt.date(1970, 1, 1), cell))
                case dt.timedelta():
                    words |= {shown(cell + n * dt.timedelta(microseconds=1)) for n in (-1, 0, 1)}
                case int() | float() | Decimal() | Fraction():
                    numbers.add(Fraction(cell))
    own = {f"{word}{more}" for word in words for more in ("", "~", " ")}
    own |= {word[:size] + more for word in words for size in prefixes for more in ("", "~~~~~~~~")}
    own |= {word.upper() for word in words}
    yield from own
    base = column_type.split("(")[0]
    near = _whole(numbers) if base in INTEGERS else _between(numbers, column_type)
    for number in near:
        yield from _spelled(number) if base not in _NUMBERS else (_decimal(number),)
    for moment in _around(moments):
        yield from _written(moment)


_NUMBERS: Final = INTEGERS | {"DECIMAL", "FLOAT", "DOUBLE"}
_WORDS: Final = (
    "", " ", "?", "true", "t", "yes", "y", "1", "false", "f", "no", "n", "0", "nan", "inf", "-inf",
    "infinity", "-infinity", "1e300", "-1e300", "1e30", "-1e30", "9223372036854775808",
    "-9223372036854775809", "0001-01-01", "9999-12-31", "2000-01-01 25:00:00",
)  # fmt: skip


def _borders(attribute: Attribute) -> Iterator[Any]:
    """Where one step of a range ends and the next begins, and where the first and last end."""
    if attribute.step is None or attribute.ends is None:
        return
    low, high = attribute.ends
    if isinstance(attribute.step, Decimal):
        first, step = Fraction(low), Fraction(attribute.step)
        number = int((Fraction(high) - first) / step)
        yield from (first + (n - Fraction(1, 2)) * step for n in range(number + 2))
    elif isinstance(high, dt.time):
        end = dt.datetime.combine(dt.date(1970, 1, 1), high) + attribute.step
        yield end if end.date() == dt.date(1970, 1, 1) else dt.time.max
    else:
        yield high + attribute.step


def _whole(numbers: set[Fraction]) -> set[Fraction]:
    """Whole numbers at the numbers, beside and between them."""
    near = {Fraction(own + n) for x in numbers for own in (math.floor(x), math.ceil(x))
            for n in (-1, 0, 1)}  # fmt: skip
    ordered = sorted(numbers)
    return near | {Fraction(math.floor((low + high) / 2)) for low, high in pairwise(ordered)}


def _between(numbers: set[Fraction], column_type: str) -> Iterator[Fraction]:
    """The numbers, and numbers just beside and between them, whole and with a fraction."""
    if not numbers:
        return
    ordered = sorted(numbers)
    yield from (ordered[0] - 1, ordered[0] - Fraction(1, 2), ordered[0] - 1000)
    yield from (ordered[-1] + 1, ordered[-1] + Fraction(1, 2), ordered[-1] + 1000)
    decimals = column_type.removeprefix("DECIMAL(").rstrip(")").split(",")[-1]
    least = [Fraction(1, 10**9)]
    if column_type.startswith("DECIMAL"):
        least = [Fraction(1, 10 ** int(decimals))]
    for number in ordered:
        near = {number, *(number + sign * own for own in least for sign in (1, -1))}
        below = above = value = float(number)
        for _ in range(_ULPS):
            below, above = math.nextafter(below, -math.inf), math.nextafter(above, math.inf)
            near |= {Fraction(below), Fraction(above)}
        near |= {Fraction(value), *map(Fraction, _floats(value))}
        yield from near
        yield from {Fraction(math.floor(number)), Fraction(math.ceil(number))}
    for low, high in pairwise(ordered):
        yield (low + high) / 2
        yield from {Fraction(math.floor(low) + 1), Fraction(math.ceil(high) - 1)}
        yield from {(2 * low + high) / 3, Fraction(math.floor((low + high) / 2)) + Fraction(1, 2)}


def _floats(value: float) -> Iterator[float]:
    """The neighbours of a value among the numbers of 32 bits."""
    with np.errstate(over="ignore"):
        own = np.float32(value)
    if np.isfinite(own):
        ends = np.float32(-math.inf), np.float32(math.inf)
        yield from (float(one) for one in (own, *(np.nextafter(own, end) for end in ends)))


def _spelled(number: Fraction) -> Iterator[str]:
    if number.denominator == 1:
        whole = str(number.numerator)
        yield from (whole, f" {whole} ", f"{whole}.0", f"{whole}e0")
        yield f"-0{whole[1:]}" if whole.startswith("-") else f"0{whole}"
        return
    text = _decimal(number)
    yield from (text, f" {text}", f"{text}e0", repr(float(number)))


def _decimal(number: Fraction) -> str:
    """With 40 digits, so that each double has a decimal of its own."""
    with localcontext(prec=40):
        return f"{Decimal(number.numerator) / Decimal(number.denominator):f}"


def _utc(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.UTC).replace(tzinfo=None)


_BESIDE: Final = (
    dt.timedelta(microseconds=-1),
    dt.timedelta(microseconds=1),
    dt.timedelta(hours=12),
    dt.timedelta(days=-1),
    dt.timedelta(days=1),
)


def _around(moments: set[dt.datetime]) -> Iterator[dt.datetime]:
    ordered = sorted(moments)
    for moment in ordered:
        yield moment
        for beside in _BESIDE:
            try:
                yield moment + beside
            except OverflowError:
                continue
    yield from (low + (high - low) / 2 for low, high in pairwise(ordered))


def _written(moment: dt.datetime) -> Iterator[str]:
    """A moment as text: with a time, in UTC, as its day, and as its time of day."""
    text = moment.isoformat(sep=" ", timespec="microseconds")
    yield from (text, f"{text}Z", text[:10], f" {text[:10]}", text[11:], text[:19], text[11:19])
    yield text[11:16]
