"""Texts that stand for a date or a timestamp: those that PostgreSQL and DuckDB read alike.

DuckDB ignores what follows a timestamp ('10:00 PM' is ten in the morning), takes '14-02-03' for a
day of the year 14, drops a seventh decimal where PostgreSQL rounds, and reads abbreviated time
zones in its own way: PST is Los Angeles, with its summer time, and IST is in India.
"""

from __future__ import annotations

import re
from calendar import monthrange
from typing import Final

from sqlglot import exp

from tallyveil.errors import DatetimeFieldOverflow, InvalidDatetimeFormat
from tallyveil.rewriter.sql.check import position

__all__ = ["check_time_text"]

_ZONE: Final = r"[zZ]|[+-][0-9]{2}(?::?[0-9]{2})?|\s*(?i:utc|gmt|[a-z_]+/[a-z0-9_/+-]+)"
_TIME: Final = r"([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.[0-9]{1,6})?)?"
_TEXT: Final = re.compile(
    rf"([0-9]{{4,7}})(?P<by>[-/])([0-9]{{1,2}})(?P=by)([0-9]{{1,2}})"
    rf"(?:[tT\s]\s*{_TIME}(?:{_ZONE})?)?"
    r"|(?i:-?infinity|epoch)",
    re.ASCII,
)


def check_time_text(node: exp.Expr, kind: str) -> None:
    """Raise InvalidDatetimeFormat for a string that both might not read alike as a ``kind``, and
    DatetimeFieldOverflow for a day or a time that there is not. PostgreSQL has no year 0.
    """
    literal = node.unnest()
    if not literal.is_string:
        return
    found = _TEXT.fullmatch(literal.this.strip())
    if found is None:
        raise InvalidDatetimeFormat(
            f'invalid input syntax for type {kind}: "{literal.this[:40]}"',
            hint="Write dates and times in ISO 8601, such as 2024-02-29 or 2024-02-29 12:30:00.",
            position=position(literal) or position(node),
        )
    year, _, *rest = found.groups("0")
    if found["by"] and not _exists(int(year), *map(int, rest)):
        raise DatetimeFieldOverflow(
            f'date/time field value out of range: "{literal.this}"',
            position=position(literal) or position(node),
        )


def _exists(year: int, month: int, day: int, hour: int, minute: int, second: int) -> bool:
    """24:00 is the next day's midnight."""
    if minute > 59 or second > 59 or 3600 * hour + 60 * minute + second > 86_400:
        return False
    return year > 0 and 1 <= month <= 12 and 1 <= day <= monthrange(2000 + year % 400, month)[1]
