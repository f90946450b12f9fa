"""Dates, times and timestamps.

In binary format, PostgreSQL counts dates in days and timestamps in microseconds from 2000-01-01.
Infinite ones and years that Python's types lack, BC or from 10000 on, are refused.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from tallyveil.errors import InvalidTimeZoneDisplacement
from tallyveil.proxy.pgtypes.base import PgType, bad_datetime, datetime_overflow, pg_type

__all__ = ["TIMES"]

_DAY: Final = 86_400_000_000
_EPOCH: Final = dt.datetime(2000, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_INT32: Final = struct.Struct("!i")
_INT64: Final = struct.Struct("!q")

_CLOCK: Final = r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:\.(?P<f>\d{1,9}))?)?"
_ZONE: Final = r"\s*+(?P<z>Z|[+-]\d{1,2}(?::?\d{2})?(?::?\d{2})?)?"
_DATE: Final = r"(?P<Y>\d{4,6})-(?P<M>\d{1,2})-(?P<D>\d{1,2})"
# Possessive quantifiers (*+) where two runs of white space could meet: input is up to a megabyte
# long, and a regular expression that backtracks over it would delay every other connection.
_MOMENT_TEXT: Final = re.compile(rf"\s*+{_DATE}(?:(?:\s++|T){_CLOCK})?{_ZONE}\s*+", re.ASCII)
_TIME_TEXT: Final = re.compile(rf"\s*+{_CLOCK}{_ZONE}\s*+", re.ASCII)
_INFINITY_TEXT: Final = re.compile(r"\s*+[+-]?infinity\s*+", re.ASCII | re.IGNORECASE)


def _zone(text: str | None) -> dt.timezone | None:
    if text is None:
        return None
    digits = re.sub(r"\D", "", text)
    hours, rest = (digits[:-4], digits[-4:]) if len(digits) > 4 else (digits[:-2], digits[-2:])
    if len(digits) <= 2:
        hours, rest = digits or "0", "00"
    rest = rest.ljust(4, "0")
    if int(hours) > 15 or max(rest[:2], rest[2:]) > "59":
        raise InvalidTimeZoneDisplacement(
            f'time zone displacement out of range: "{text}"',
            hint="Keep it between -15:59:59 and +15:59:59.",
        )
    offset = dt.timedelta(hours=int(hours), minutes=int(rest[:2]), seconds=int(rest[2:]))
    return dt.timezone(-offset if text.startswith("-") else offset)


def _clock(match: re.Match[str]) -> dt.timedelta:
    """The time since midnight, rounded to microseconds. Raises DatetimeFieldOverflow (22008) for
    second 60 and for 24:00."""
    hour, minute, second = (int(match[k] or 0) for k in ("h", "m", "s"))
    if hour > 23 or minute > 59 or second > 59:
        raise datetime_overflow("time")
    micro = round(int((match["f"] or "0").ljust(9, "0")) / 1000)
    return dt.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micro)


def _moment(text: str, name: str) -> tuple[dt.datetime, dt.timezone | None]:
    if _INFINITY_TEXT.fullmatch(text):
        raise datetime_overflow(name)
    match = _MOMENT_TEXT.fullmatch(text)
    if match is None:
        raise bad_datetime(text, name)
    try:
        day = dt.datetime(int(match["Y"]), int(match["M"]), int(match["D"]))
        ends = match["h"] == "24" and not any(int(match[k] or 0) for k in ("m", "s", "f"))
        # 24:00 is midnight of the next day; a date ignores the time of day.
        since = dt.timedelta(days=name != "date") if ends else _clock(match)
        return day + since, _zone(match["z"])
    except (ValueError, OverflowError):
        raise datetime_overflow(name) from None


def _since_epoch(value: dt.date) -> int:
    """Microseconds from 2000-01-01, in UTC."""
    if not isinstance(value, dt.datetime):
        return (value.toordinal() - _EPOCH.toordinal()) * _DAY
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return (value - _EPOCH) // _MICROSECOND


def _calendar(
    name: str,
    duckdb: str,
    form: struct.Struct,
    unit: int,
    encode: Callable[[Any], bytes],
    value: Callable[[dt.datetime, dt.timezone | None], Any],
    also: tuple[str, ...] = (),
) -> PgType:
    """A type whose binary format counts units of ``unit`` microseconds from 2000-01-01. ``value``
    converts a moment, and its time zone or None, to a Python value.
    """

    def encode_binary(given: Any) -> bytes:
        return form.pack(_since_epoch(given) // unit)

    def decode_text(text: str) -> Any:
        return value(*_moment(text, name))

    def decode_binary(data: bytes) -> Any:
        (count,) = form.unpack(data)
        try:
            return value(_EPOCH + dt.timedelta(microseconds=count * unit), dt.UTC)
        except OverflowError:
            raise datetime_overflow(name.partition(" ")[0]) from None

    text, binary = (encode, decode_text), (encode_binary, decode_binary)
    return pg_type(name, form.size, duckdb, text=text, binary=binary, also=also)


def _encode_date_text(value: dt.date) -> bytes:
    return dt.date.isoformat(value)[:10].encode()


def _trimmed(text: str) -> str:
    """The text without trailing zeros of its fraction."""
    return text.rstrip("0") if "." in text else text


def _encode_timestamp_text(value: dt.datetime) -> bytes:
    return _trimmed(dt.datetime.isoformat(value.replace(tzinfo=None), " ")).encode()


def _encode_timestamptz_text(value: dt.datetime) -> bytes:
    """The value in its own time zone, with the zone's offset from UTC."""
    return _encode_timestamp_text(value) + _zone_text(value).encode()


def _in_utc(moment: dt.datetime, zone: dt.timezone | None) -> dt.datetime:
    """Without a zone, it is the time on the clocks of the session."""
    try:
        return moment if zone is None else moment.replace(tzinfo=zone).astimezone(dt.UTC)
    except OverflowError:
        raise datetime_overflow("timestamp with time zone") from None


def _micros(value: Any) -> int:
    """Microseconds since midnight. DuckDB's 24:00:00, which Python cannot hold, is a text."""
    if isinstance(value, str):
        return _DAY
    hours = dt.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
    return hours // _MICROSECOND + int(value.microsecond)


def _encode_time_text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return _trimmed(value.replace(tzinfo=None).isoformat()).encode()


def _time(micros: int) -> dt.time:
    if not 0 <= micros < _DAY:
        raise datetime_overflow("time")
    return (_EPOCH + dt.timedelta(microseconds=micros)).time()


def _decode_time_text(text: str) -> dt.time:
    """A zone is read and ignored, as in PostgreSQL."""
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        raise bad_datetime(text, "time")
    _zone(match["z"])
    return _time(_clock(match) // _MICROSECOND)


def _zone_text(value: dt.datetime) -> str:
    """The offset from UTC, positive to the east."""
    seconds = (value.utcoffset() or dt.timedelta()) // dt.timedelta(seconds=1)
    text = f"{dt.timedelta(seconds=abs(seconds))!s:0>8}"
    return ("-" if seconds < 0 else "+") + text.removesuffix(":00").removesuffix(":00")


TIMES: Final = (
    _calendar("date", "DATE", _INT32, _DAY, _encode_date_text, lambda moment, _: moment.date()),
    pg_type(
        "time",
        8,
        "TIME",
        text=(_encode_time_text, _decode_time_text),
        binary=(
            lambda value: _INT64.pack(_micros(value)),
            lambda data: _time(_INT64.unpack(data)[0]),
        ),
        also=("TIME_NS",),
    ),
    _calendar(
        "timestamp",
        "TIMESTAMP",
        _INT64,
        1,
        _encode_timestamp_text,
        lambda moment, _: moment,
        also=("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
    ),
    _calendar(
        "timestamp with time zone",
        "TIMESTAMP WITH TIME ZONE",
        _INT64,
        1,
        _encode_timestamptz_text,
        _in_utc,
        also=("TIMESTAMPTZ",),
    ),
)
