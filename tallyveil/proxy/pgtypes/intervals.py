"""Intervals: results as `Interval`, parameters as Python's timedelta, which has no months.

A month has no fixed length, so a parameter with months is refused.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from typing import Any, Final

from tallyveil.errors import FeatureNotSupported
from tallyveil.interval import Interval
from tallyveil.proxy.pgtypes.base import PgType, datetime_overflow

__all__ = ["INTERVAL"]

_INTERVAL: Final = struct.Struct("!qii")
_UNITS: Final = {"day": 1, "week": 7}
_SECONDS: Final = {"hour": 3600, "minute": 60, "min": 60, "second": 1, "sec": 1}
_MONTHS: Final = frozenset({"month", "mon", "year"})
_QUANTITY: Final = re.compile(r"([+-]?\d++(?:\.\d++)?)\s*+([a-z]+?)s?(?:\s++|$)", re.ASCII)
_SIGNED_CLOCK: Final = re.compile(r"([+-]?)(\d{1,9}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?", re.ASCII)


def _encode_interval_text(value: Any) -> bytes:
    """PostgreSQL's own style: ``1 mon 1 day 02:03:04``, ``-1 days +02:03:04``."""
    return str(Interval.of(value)).encode()


def _encode_interval_binary(value: Any) -> bytes:
    months, days, microseconds = Interval.of(value)
    return _INTERVAL.pack(microseconds, days, months)


def _interval(days: float, seconds: float, micros: int, months: int) -> dt.timedelta:
    if months:
        raise FeatureNotSupported(
            "interval parameters with months or years are not supported",
            detail="A month is no fixed number of days.",
            hint="Write the interval into the statement: INTERVAL '1 month'.",
        )
    try:
        return dt.timedelta(days=days, seconds=seconds, microseconds=micros)
    except OverflowError:
        raise datetime_overflow("interval") from None


def _decode_interval_text(text: str) -> dt.timedelta:
    """Quantities (``1 day 2 seconds``) and at the end perhaps a signed clock."""
    days, seconds, micros, months = 0.0, 0.0, 0, 0
    text = text.strip().lower()
    if not text:
        raise ValueError
    at = 0
    while at != len(text):
        if clock := _SIGNED_CLOCK.fullmatch(text, at):
            whole = int(clock[2]) * 3600 + int(clock[3]) * 60 + float(clock[4] or 0)
            seconds += -whole if clock[1] == "-" else whole
            break
        match = _QUANTITY.match(text, at)
        if match is None:
            raise ValueError
        amount, unit, at = float(match[1]), match[2], match.end()
        if unit in _UNITS:
            days += amount * _UNITS[unit]
        elif unit in _SECONDS:
            seconds += amount * _SECONDS[unit]
        elif unit == "microsecond":
            micros += int(amount)
        elif unit in _MONTHS:
            months += 1
        else:
            raise ValueError
    return _interval(days, seconds, micros, months)


def _decode_interval_binary(data: bytes) -> dt.timedelta:
    micros, days, months = _INTERVAL.unpack(data)
    return _interval(days, 0, micros, months)


INTERVAL: Final = PgType(
    1186,
    "interval",
    16,
    1187,
    "INTERVAL",
    _encode_interval_text,
    _encode_interval_binary,
    _decode_interval_text,
    _decode_interval_binary,
)
