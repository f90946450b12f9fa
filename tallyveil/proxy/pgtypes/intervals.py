"""Intervals: results are `Interval` values, parameters become a text that DuckDB can read."""

from __future__ import annotations

import re
import struct
from typing import Any, Final

from tallyveil.interval import Interval
from tallyveil.proxy.pgtypes.base import datetime_overflow, pg_type

__all__ = ["INTERVAL"]

_INTERVAL: Final = struct.Struct("!qii")
_UNITS: Final = {"day": 1, "week": 7}
_SECONDS: Final = {"hour": 3600, "minute": 60, "min": 60, "second": 1, "sec": 1}
_MONTHS: Final = {"month": 1, "mon": 1, "year": 12}
_DAY: Final = 86_400_000_000  # microseconds
_QUANTITY: Final = re.compile(r"([+-]?\d++(?:\.\d++)?)\s*+([a-z]+?)s?(?:\s++|$)", re.ASCII)
_SIGNED_CLOCK: Final = re.compile(r"([+-]?)(\d{1,9}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?", re.ASCII)


def _encode_interval_text(value: Any) -> bytes:
    """PostgreSQL's default format: ``1 mon 1 day 02:03:04``, ``-1 days +02:03:04``."""
    return str(Interval.of(value)).encode()


def _encode_interval_binary(value: Any) -> bytes:
    months, days, microseconds = Interval.of(value)
    return _INTERVAL.pack(microseconds, days, months)


def _interval(months: int, days: float, micros: float) -> str:
    """The interval as text; a fraction of a day becomes time. Raises DatetimeFieldOverflow (22008)
    if it is out of range."""
    whole = int(days)
    micros = round(micros + (days - whole) * _DAY)
    if max(abs(months), abs(whole)) >= 2**31 or abs(micros) >= 2**63:
        raise datetime_overflow("interval")
    return Interval(months, whole, micros).quantities


def _decode_interval_text(text: str) -> str:
    """Read quantities (``1 day 2 seconds``), optionally followed by a signed time ``h:mm:ss``."""
    days, micros, months = 0.0, 0.0, 0
    text = text.strip().lower()
    if not text:
        raise ValueError
    at = 0
    while at != len(text):
        if clock := _SIGNED_CLOCK.fullmatch(text, at):
            seconds = int(clock[2]) * 3600 + int(clock[3]) * 60 + float(clock[4] or 0)
            micros += (-seconds if clock[1] == "-" else seconds) * 1e6
            break
        match = _QUANTITY.match(text, at)
        if match is None:
            raise ValueError
        amount, unit, at = float(match[1]), match[2], match.end()
        if unit in _UNITS:
            days += amount * _UNITS[unit]
        elif unit in _SECONDS:
            micros += amount * _SECONDS[unit] * 1e6
        elif unit == "microsecond":
            micros += int(amount)
        elif unit in _MONTHS and amount == int(amount):
            months += _MONTHS[unit] * int(amount)
        else:
            raise ValueError
    return _interval(months, days, micros)


def _decode_interval_binary(data: bytes) -> str:
    micros, days, months = _INTERVAL.unpack(data)
    return Interval(months, days, micros).quantities


INTERVAL: Final = pg_type(
    "interval",
    16,
    "INTERVAL",
    text=(_encode_interval_text, _decode_interval_text),
    binary=(_encode_interval_binary, _decode_interval_binary),
)
