"""The SQL type interval: months, days and a time, none of which is a fixed number of another."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Final, NamedTuple

__all__ = ["Interval", "quantities_of"]

_SECOND: Final = 1_000_000
_DAY: Final = 86_400 * _SECOND
_MICROSECOND: Final = dt.timedelta(microseconds=1)

# Each unit as a number of months (0), of days (1) or of microseconds (2).
_SIZES: Final = {
    "microsecond": (2, 1), "millisecond": (2, 1_000), "second": (2, _SECOND),
    "minute": (2, 60 * _SECOND), "hour": (2, 3_600 * _SECOND), "day": (1, 1), "week": (1, 7),
    "month": (0, 1), "year": (0, 12), "decade": (0, 120), "century": (0, 1_200),
    "millennium": (0, 12_000),
}  # fmt: skip
_SHORT: Final = {
    "us": "microsecond", "usec": "microsecond", "ms": "millisecond", "msec": "millisecond",
    "s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour", "hr": "hour",
    "d": "day", "w": "week", "mon": "month", "y": "year", "yr": "year", "dec": "decade",
    "c": "century", "cent": "century", "mil": "millennium",
}  # fmt: skip
_SINGULAR: Final = {**{unit: unit for unit in _SIZES}, **_SHORT}
_UNITS: Final = {
    **_SINGULAR,
    **{f"{word}s": unit for word, unit in _SINGULAR.items() if len(word) > 2},
    "hrs": "hour",
    "yrs": "year",
    "centuries": "century",
    "millennia": "millennium",
}
# Python reads no whole number of more than 4,300 digits.
_QUANTITY: Final = re.compile(r"([+-]?[0-9]{1,4000}+(?:\.[0-9]++)?)\s*+([a-zA-Z]++)\s*+", re.ASCII)
_CLOCK: Final = re.compile(
    r"([+-]?)([0-9]{1,10}):([0-9]{2})(?::([0-9]{2}(?:\.[0-9]{1,6})?))?", re.ASCII
)


def quantities_of(text: str) -> list[tuple[str, str]]:
    """The amounts and units of an interval as PostgreSQL reads it: quantities with units, and
    perhaps a time at the end. Raises ValueError for any other text."""
    found, at, text = list[tuple[str, str]](), 0, text.strip()
    while match := _QUANTITY.match(text, at):
        unit = _UNITS.get(match[2].lower())
        if unit is None:
            break
        found.append((match[1], unit))
        at = match.end()
    if clock := _CLOCK.fullmatch(text, at):
        sign, hours, minutes, seconds = clock.groups("")
        # A sign before the clock applies to all its parts.
        found += [(sign + hours, "hour"), (sign + minutes, "minute")]
        found.append((sign + (seconds or "0"), "second"))
    elif at < len(text) or not found:
        raise ValueError(f"not an interval: {text[:40]}")
    return found


class Interval(NamedTuple):
    """An interval as PostgreSQL and DuckDB store it. `str` gives PostgreSQL's default format."""

    months: int
    days: int
    microseconds: int

    @classmethod
    def of(cls, value: dt.timedelta | Interval) -> Interval:
        """Return ``value`` as an Interval. Only the days of a timedelta can be negative."""
        if isinstance(value, Interval):
            return value
        clock = value - dt.timedelta(days=value.days)
        return cls(0, value.days, clock // _MICROSECOND)

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Read an interval as PostgreSQL does, and DuckDB writes it. A fraction of a day becomes
        time. Raises ValueError for other text, and for a fraction of a month."""
        totals: list[int | Decimal] = [0, 0, 0]
        for amount, unit in quantities_of(text):
            place, size = _SIZES[unit]
            totals[place] += (Decimal(amount) if "." in amount else int(amount)) * size
        months, days, micros = totals
        if months != int(months):
            raise ValueError("a fraction of a month")
        return cls(int(months), int(days), round(micros + (days - int(days)) * _DAY))

    @property
    def quantities(self) -> str:
        """A text that PostgreSQL and DuckDB read alike: each quantity with its sign and unit."""
        return f"{self.months} months {self.days} days {self.microseconds} microseconds"

    def timedelta(self) -> dt.timedelta | None:
        """The same timedelta, or None if there are months or it exceeds timedelta's range."""
        try:
            span = dt.timedelta(days=self.days, microseconds=self.microseconds)
        except OverflowError:
            return None
        return None if self.months else span

    def __str__(self) -> str:
        sign = -1 if self.months < 0 else 1
        years, months = divmod(abs(self.months), 12)
        parts: list[str] = []
        negative = False  # after a negative part, PostgreSQL writes a + before a positive one
        for amount, unit in ((sign * years, "year"), (sign * months, "mon"), (self.days, "day")):
            if amount:
                plus = "+" if negative and amount > 0 else ""
                parts.append(f"{plus}{amount} {unit}{'' if amount == 1 else 's'}")
                negative = amount < 0
        if self.microseconds or not parts:
            minus = "-" if self.microseconds < 0 else "+" if negative else ""
            seconds, micros = divmod(abs(self.microseconds), 1_000_000)
            clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
            fraction = f".{micros:06d}".rstrip("0") if micros else ""
            parts.append(f"{minus}{clock}{fraction}")
        return " ".join(parts)
