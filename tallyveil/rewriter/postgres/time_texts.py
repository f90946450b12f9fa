"""Texts that stand for a date or a timestamp: those that PostgreSQL and DuckDB read alike.

DuckDB ignores what follows a timestamp ('10:00 PM' is ten in the morning), takes '14-02-03' for a
day of the year 14, drops a seventh decimal where PostgreSQL rounds, and reads abbreviated time
zones in its own way: PST is Los Angeles, with its summer time, and IST is in India.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from types import MappingProxyType
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidDatetimeFormat,
    InvalidTimeZoneDisplacement,
)
from tallyveil.rewriter.sql.check import position

__all__ = ["check_time_text"]

_OFFSET: Final = r"[+-](?P<zh>[0-9]{2})(?::?(?P<zm>[0-9]{2})(?::(?P<zs>[0-9]{2}))?)?"
_ZONE: Final = rf"[zZ]|{_OFFSET}|\s*(?i:utc|gmt|[a-z_]+/[a-z0-9_/+-]+)"
_TIME: Final = r"(?P<h>[0-9]{1,2}):(?P<min>[0-9]{1,2})(?::(?P<s>[0-9]{1,2}(?:\.[0-9]{1,6})?))?"
_TEXT: Final = re.compile(
    rf"(?P<y>[0-9]{{4,7}})(?P<by>[-/])(?P<m>[0-9]{{1,2}})(?P=by)(?P<d>[0-9]{{1,2}})"
    rf"(?:[tT\s]\s*{_TIME}(?P<zone>{_ZONE})?)?"
    r"|(?i:-?infinity|epoch)",
    re.ASCII,
)

_WORDS: Final = MappingProxyType(
    {
        "now": "now()",
        "today": "current_date",
        "tomorrow": "current_date + 1",
        "yesterday": "current_date - 1",
    }
)
"""Texts that PostgreSQL reads as the time they are read at, and what says the same."""


def check_time_text(node: exp.Expr, kind: str) -> None:
    """Raise InvalidDatetimeFormat for a string that both might not read alike as a ``kind``,
    DatetimeFieldOverflow for a day or a time that there is not, and InvalidTimeZoneDisplacement.
    PostgreSQL has no year 0.

    A timestamp at 24:00 is written as the next day's midnight, whose day it belongs to.
    """
    literal = node.unnest()
    if not literal.is_string:
        return
    text = literal.this.strip()
    found = _TEXT.fullmatch(text)
    if found is None and text.lower() in _WORDS:
        raise FeatureNotSupported(
            f"'{text}' is not read as a {kind}: a text means the same whenever it is read",
            hint=f"Write {_WORDS[text.lower()]}.",
            position=position(literal) or position(node),
        )
    if found is None:
        raise InvalidDatetimeFormat(
            f'invalid input syntax for type {kind}: "{literal.this[:40]}"',
            hint="Write dates and times in ISO 8601, such as 2024-02-29 or 2024-02-29 12:30:00.",
            position=position(literal) or position(node),
        )
    parts = found.groupdict("0")
    year, month, day, hour, minute = (int(parts[name]) for name in ("y", "m", "d", "h", "min"))
    if found["by"] and not _exists(year, month, day, hour, minute, float(parts["s"])):
        raise DatetimeFieldOverflow(
            f'date/time field value out of range: "{literal.this}"',
            position=position(literal) or position(node),
        )
    if int(parts["zh"]) > 15 or int(parts["zm"]) > 59 or int(parts["zs"]) > 59:
        raise InvalidTimeZoneDisplacement(
            f'time zone displacement out of range: "{literal.this}"',
            hint="Keep it between -15:59:59 and +15:59:59.",
            position=position(literal) or position(node),
        )
    if hour == 24 and kind != "date" and year < dt.MAXYEAR:
        midnight = dt.datetime(year, month, day) + dt.timedelta(days=1)
        literal.set("this", f"{midnight.isoformat(' ')}{found['zone'] or ''}")


def _exists(year: int, month: int, day: int, hour: int, minute: int, second: float) -> bool:
    """24:00 is the next day's midnight."""
    if minute > 59 or second >= 60 or 3600 * hour + 60 * minute + second > 86_400:
        return False
    return year > 0 and 1 <= month <= 12 and 1 <= day <= monthrange(2000 + year % 400, month)[1]
