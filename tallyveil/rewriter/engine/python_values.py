"""DuckDB's dates, times and intervals as Python values, without loss.

DuckDB's own conversion turns an infinite day into Python's last one, and a month into 30 days, and
needs a package of time zones. So these values are fetched as text. Infinite ones and years that
Python's types lack, BC or from 10000 on, are refused.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tallyveil.errors import DatetimeFieldOverflow
from tallyveil.interval import Interval

__all__ = ["as_text", "read_columns", "readers"]

Read: TypeAlias = Callable[[str], Any]

_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_LISTED: Final = re.compile(r"(.+?)(\[\d*\])?", re.DOTALL)


def readers(kinds: Sequence[str], zone: str) -> list[Read | None]:
    """For each column of these DuckDB types, the reader of its text, or None if it is not fetched
    as text.

    Timestamps with time zone are in ``zone``. A reader raises DatetimeFieldOverflow for a value
    beyond Python's types.
    """
    return [_reader(kind, zone) for kind in kinds]


def read_columns(
    rows: list[tuple[Any, ...]], reads: Sequence[Read | None]
) -> list[tuple[Any, ...]]:
    """The rows with the texts of each column converted by its reader."""
    columns = [
        column if read is None else [None if text is None else read(text) for text in column]
        for read, column in zip(reads, zip(*rows, strict=True), strict=True)
    ]
    return list(zip(*columns, strict=True))


def as_text(sql: str, kinds: Sequence[str]) -> str:
    """The query with its dates, times and intervals as text, and its rows in the same order."""
    names = [f'"{number}"' for number in range(len(kinds))]
    items = ", ".join(_text(name, kind) for name, kind in zip(names, kinds, strict=True))
    return f'SELECT {items} FROM ({sql}) AS "result" ({", ".join(names)})'


def _split(kind: str) -> tuple[str, bool]:
    """The type, or its elements' if it is a list, and whether it is one."""
    match = _LISTED.fullmatch(kind)
    return (kind, False) if match is None else (match[1], match[2] is not None)


def _text(name: str, kind: str) -> str:
    element, listed = _split(kind)
    if _scalar(element, "UTC") is None:
        return name
    if element == _ZONED:
        moment = f"list_transform({name}, lambda v: timezone('UTC', v))" if listed else None
        name = moment or f"timezone('UTC', {name})"
    return f"CAST({name} AS VARCHAR{'[]' if listed else ''})"


def _reader(kind: str, zone: str) -> Read | None:
    element, listed = _split(kind)
    read = _scalar(element, zone)
    if read is None or not listed:
        return read

    def read_list(texts: Any) -> list[Any]:
        return [None if text is None else read(text) for text in texts]

    return read_list


def _scalar(kind: str, zone: str) -> Read | None:
    match kind:
        case "DATE":
            return _read_by(dt.date.fromisoformat, "date")
        case "INTERVAL":
            return Interval.parse
        case "TIMESTAMP WITH TIME ZONE":
            own = zoneinfo.ZoneInfo(zone)
            utc = dt.datetime.fromisoformat
            return _read_by(lambda t: utc(t).replace(tzinfo=dt.UTC).astimezone(own), "timestamp")
        case "TIMESTAMP" | "TIMESTAMP_S" | "TIMESTAMP_MS" | "TIMESTAMP_NS":
            return _read_by(dt.datetime.fromisoformat, "timestamp")
    return None


def _read_by(plain: Read, kind: str) -> Read:
    def read(text: str) -> Any:
        try:
            return plain(text)
        except (ValueError, OverflowError):
            raise DatetimeFieldOverflow(
                f"{kind} out of range: {text}", hint="Keep it between the years 1 and 9999."
            ) from None

    return read
