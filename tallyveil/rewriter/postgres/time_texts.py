"""Texts that stand for a date or a timestamp: those that PostgreSQL and DuckDB read alike.

DuckDB ignores what follows a timestamp ('10:00 PM' is ten in the morning), takes '14-02-03' for a
day of the year 14, drops a seventh decimal where PostgreSQL rounds, and reads abbreviated time
zones in its own way: PST is Los Angeles, with its summer time, and IST is in India.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tallyveil.errors import InvalidDatetimeFormat
from tallyveil.rewriter.sql.check import position

__all__ = ["check_time_text"]

_ZONE: Final = r"[zZ]|[+-][0-9]{2}(?::?[0-9]{2})?|\s*(?i:utc|gmt|[a-z_]+/[a-z0-9_/+-]+)"
_TIME: Final = r"[0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2}(?:\.[0-9]{1,6})?)?"
_TEXT: Final = re.compile(
    rf"[0-9]{{4,7}}([-/])[0-9]{{1,2}}\1[0-9]{{1,2}}(?:[tT\s]\s*{_TIME}(?:{_ZONE})?)?"
    r"|(?i:-?infinity|epoch)",
    re.ASCII,
)


def check_time_text(node: exp.Expr, kind: str) -> None:
    """Raise InvalidDatetimeFormat for a string that both might not read alike as a ``kind``."""
    literal = node.unnest()
    if not literal.is_string or _TEXT.fullmatch(literal.this.strip()):
        return
    raise InvalidDatetimeFormat(
        f'invalid input syntax for type {kind}: "{literal.this[:40]}"',
        hint="Write dates and times in ISO 8601, such as 2024-02-29 or 2024-02-29 12:30:00.",
        position=position(literal) or position(node),
    )
