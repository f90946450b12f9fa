"""An interval of SQL: months, days and a time, none of which is a fixed number of another."""

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
    """What PostgreSQL and DuckDB hold of an interval. Its text is PostgreSQL's own style."""

    months: int
    days: int
    microseconds: int

    @classmethod
    def of(cls, value: dt.timedelta | Interval) -> Interval:
        """The same interval; a timedelta has days and a time of the same sign or more."""
        if isinstance(value, Interval):
            return value
        clock = value - dt.timedelta(days=value.days)
        return cls(0, value.days, clock // _MICROSECOND)

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Of the text in which DuckDB writes an interval. Raises ValueError for any other."""
        match = _PARTS.fullmatch(text)
        if match is None or not text:
            raise ValueError(f"no interval: {text}")
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
        """As PostgreSQL and DuckDB read it alike: each quantity with its own sign and unit."""
        return f"{self.months} months {self.days} days {self.microseconds} microseconds"

    def timedelta(self) -> dt.timedelta | None:
        """As Python has it; None with months, or beyond what Python holds."""
        try:
            span = dt.timedelta(days=self.days, microseconds=self.microseconds)
        except OverflowError:
            return None
        return None if self.months else span

    def __str__(self) -> str:
        sign = -1 if self.months < 0 else 1
        years, months = divmod(abs(self.months), 12)
        parts: list[str] = []
        negative = False  # of the part before: a positive one then has a sign
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
