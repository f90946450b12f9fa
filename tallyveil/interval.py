"""The SQL type interval: months, days and a time, none of which is a fixed number of another."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, NamedTuple

__all__ = ["Interval"]

_PARTS: Final = re.compile(
    r"(?:(-?\d+) years?)? ?(?:(-?\d+) (?:months?|mons?))? ?(?:\+?(-?\d+) days?)?"
    r"(?: ?([+-]?)(\d{2,}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?)?"
)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


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
        """Read an interval as DuckDB writes it. Raises ValueError for any other text."""
        match = _PARTS.fullmatch(text)
        if match is None or not text:
            raise ValueError(f"not an interval: {text}")
        years, months, days, sign, hours, minutes, seconds, fraction = match.groups()
        clock = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
        micros = clock * 1_000_000 + int((fraction or "0").ljust(6, "0"))
        return cls(
            12 * int(years or 0) + int(months or 0),
            int(days or 0),
            -micros if sign == "-" else micros,
        )

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
