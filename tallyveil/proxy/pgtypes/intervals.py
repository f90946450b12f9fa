"""Intervals: results are `Interval` values, parameters become a text that DuckDB can read."""

from __future__ import annotations

import struct
from typing import Any, Final

from tallyveil.interval import Interval
from tallyveil.proxy.pgtypes.base import datetime_overflow, pg_type

__all__ = ["INTERVAL"]

_INTERVAL: Final = struct.Struct("!qii")


def _encode_interval_text(value: Any) -> bytes:
    """PostgreSQL's default format: ``1 mon 1 day 02:03:04``, ``-1 days +02:03:04``."""
    return str(Interval.of(value)).encode()


def _encode_interval_binary(value: Any) -> bytes:
    months, days, microseconds = Interval.of(value)
    return _INTERVAL.pack(microseconds, days, months)


def _decode_interval_text(text: str) -> str:
    """Raises DatetimeFieldOverflow (22008) if it is out of range."""
    found = Interval.parse(text)
    months, days, microseconds = map(abs, found)
    if max(months, days) >= 2**31 or microseconds >= 2**63:
        raise datetime_overflow("interval")
    return found.quantities


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
