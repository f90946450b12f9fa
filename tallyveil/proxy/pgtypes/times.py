"""Dates, times and timestamps.

PostgreSQL counts binary dates in days and times in microseconds from 2000-01-01. A value that
Python has no type for is a text, as PostgreSQL writes it: ``infinity``, ``10000-01-01``,
``0044-03-15 12:00:00 BC``. Every such text of a date of PostgreSQL's has a binary form.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
from typing import Any, Final

from tallyveil.errors import InvalidTimeZoneDisplacement
from tallyveil.proxy.pgtypes.base import bad_datetime, datetime_overflow, pg_type

__all__ = ["TIMES"]

_DAY: Final = 86_400_000_000
_EPOCH_DATE: Final = dt.date(2000, 1, 1)
_EPOCH: Final = dt.datetime(2000, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_INT32: Final = struct.Struct("!i")
_INT64: Final = struct.Struct("!q")
_TIMETZ: Final = struct.Struct("!qi")

_CLOCK: Final = r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:\.(?P<f>\d{1,9}))?)?"
_ZONE: Final = r"\s*+(?P<z>Z|[+-]\d{1,2}(?::?\d{2})?(?::?\d{2})?)?"
_DATE: Final = r"(?P<Y>\d{4,6})-(?P<M>\d{1,2})-(?P<D>\d{1,2})"
# Possessive (*+) where two runs of white space could meet: input is up to a megabyte long, and a
# regular expression that backtracks over it would hold every other connection up.
_MOMENT_TEXT: Final = re.compile(rf"\s*+{_DATE}(?:(?:\s++|T){_CLOCK})?{_ZONE}\s*+", re.ASCII)
_TIME_TEXT: Final = re.compile(rf"\s*+{_CLOCK}{_ZONE}\s*+", re.ASCII)
_INFINITY_TEXT: Final = re.compile(r"\s*([+-]?)infinity\s*", re.ASCII | re.IGNORECASE)


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
    """Time since midnight; the 61st second and 24:00 are errors, microseconds are rounded."""
    hour, minute, second = (int(match[k] or 0) for k in ("h", "m", "s"))
    if hour > 23 or minute > 59 or second > 59:
        raise datetime_overflow("time")
    micro = round(int((match["f"] or "0").ljust(9, "0")) / 1000)
    return dt.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micro)


def _moment(text: str, name: str) -> tuple[dt.datetime, dt.timezone | None] | str:
    if infinite := _is_infinite(text):
        return _INFINITY[infinite > 0]
    match = _MOMENT_TEXT.fullmatch(text)
    if match is None:
        raise bad_datetime(text, name)
    try:
        day = dt.datetime(int(match["Y"]), int(match["M"]), int(match["D"]))
        ends = match["h"] == "24" and not any(int(match[k] or 0) for k in ("m", "s", "f"))
        # 24:00 is the next day's midnight, where the time of day counts.
        since = dt.timedelta(days=name != "date") if ends else _clock(match)
        return day + since, _zone(match["z"])
    except (ValueError, OverflowError):
        raise datetime_overflow(name) from None


def _is_infinite(text: str) -> int:
    """-1, 0 or 1."""
    match = _INFINITY_TEXT.fullmatch(text)
    return 0 if match is None else -1 if match[1] == "-" else 1


_INFINITY: Final = {True: "infinity", False: "-infinity"}
_FAR: Final = re.compile(
    r"(\d{4,7})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:\+00)?( BC)?"
)
_CYCLE: Final = 400  # years, after which the calendar repeats itself
_CYCLE_DAYS: Final = 146_097


def _far(text: str) -> tuple[int, int]:
    """Days from 2000-01-01, and microseconds of the day, of a text that is no Python value."""
    match = _FAR.fullmatch(text)
    if match is None:
        raise datetime_overflow("date")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    cycles, rest = divmod((1 - year if match[8] else year) - 1, _CYCLE)
    days = dt.date(rest + 1, month, day).toordinal() + cycles * _CYCLE_DAYS
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((match[7] or "").ljust(6, "0"))
    return days - _EPOCH_DATE.toordinal(), micros


def _encode_date_text(value: Any) -> bytes:
    text = value if isinstance(value, str) else dt.date.isoformat(value)[:10]
    return text.encode()


def _encode_date_binary(value: Any) -> bytes:
    if isinstance(value, str):
        if infinite := _is_infinite(value):
            return _INT32.pack(2**31 - 1 if infinite > 0 else -(2**31))
        return _INT32.pack(_far(value)[0])
    return _INT32.pack(dt.date.toordinal(value) - _EPOCH_DATE.toordinal())


def _decode_date_text(text: str) -> dt.date | str:
    moment = _moment(text, "date")
    return moment if isinstance(moment, str) else moment[0].date()


def _decode_date_binary(data: bytes) -> dt.date | str:
    (days,) = _INT32.unpack(data)
    if days in (2**31 - 1, -(2**31)):
        return _INFINITY[days > 0]
    try:
        return dt.date.fromordinal(days + _EPOCH_DATE.toordinal())
    except (ValueError, OverflowError):
        raise datetime_overflow("date") from None


def _trimmed(text: str) -> str:
    """Without the zeros at the end of a fraction."""
    return text.rstrip("0") if "." in text else text


def _in_utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


def _encode_timestamp_text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return _trimmed(dt.datetime.isoformat(value.replace(tzinfo=None), " ")).encode()


def _encode_timestamptz_text(value: Any) -> bytes:
    """In the zone it is given in, with that zone's hours, minutes and seconds east of UTC."""
    if isinstance(value, str):
        return value.encode()
    return _encode_timestamp_text(value) + _zone_text(value).encode()


def _encode_timestamp_binary(value: Any) -> bytes:
    if isinstance(value, str):
        if infinite := _is_infinite(value):
            return _INT64.pack(2**63 - 1 if infinite > 0 else -(2**63))
        days, micros = _far(value)
        return _INT64.pack(days * _DAY + micros)
    return _INT64.pack((_in_utc(value) - _EPOCH) // _MICROSECOND)


def _decode_timestamp_text(text: str) -> dt.datetime | str:
    moment = _moment(text, "timestamp")
    return moment if isinstance(moment, str) else moment[0]


def _timestamp(data: bytes) -> dt.datetime | str:
    (micros,) = _INT64.unpack(data)
    if micros in (2**63 - 1, -(2**63)):
        return _INFINITY[micros > 0]
    try:
        return _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise datetime_overflow("timestamp") from None


def _decode_timestamptz_text(text: str) -> dt.datetime | str:
    found = _moment(text, "timestamp with time zone")
    if isinstance(found, str):
        return found
    moment, zone = found
    try:
        return moment.replace(tzinfo=zone or dt.UTC).astimezone(dt.UTC)
    except OverflowError:
        raise datetime_overflow("timestamp with time zone") from None


def _decode_timestamptz_binary(data: bytes) -> dt.datetime | str:
    moment = _timestamp(data)
    return moment if isinstance(moment, str) else moment.replace(tzinfo=dt.UTC)


_MIDNIGHT: Final = re.compile(r"24:00:00(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?")


def _micros(value: Any) -> int:
    """Microseconds since midnight. DuckDB's 24:00:00 has no Python time and comes as text."""
    if isinstance(value, str):
        return _DAY
    hours = dt.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
    return hours // _MICROSECOND + int(value.microsecond)


def _encode_time_text(value: Any) -> bytes:
    if isinstance(value, str):
        return value[:8].encode()
    return _trimmed(value.replace(tzinfo=None).isoformat()).encode()


def _time(micros: int) -> dt.time:
    if not 0 <= micros < _DAY:
        raise datetime_overflow("time")
    return (_EPOCH + dt.timedelta(microseconds=micros)).time()


def _decode_timetz_text(text: str) -> dt.time:
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        raise bad_datetime(text, "time")
    return _time(_clock(match) // _MICROSECOND).replace(tzinfo=_zone(match["z"]) or dt.UTC)


def _zone_seconds(value: Any) -> int:
    """East of Greenwich."""
    if isinstance(value, str):
        match = _MIDNIGHT.fullmatch(value)
        hours, minutes, seconds = (
            (int(part or 0) for part in match.groups()[1:]) if match else (0,) * 3
        )
        east = (hours * 60 + minutes) * 60 + seconds
        return -east if match and match[1] == "-" else east
    offset = value.utcoffset() or dt.timedelta()
    return int(offset // dt.timedelta(seconds=1))


def _zone_text(value: Any) -> str:
    seconds = _zone_seconds(value)
    text = f"{dt.timedelta(seconds=abs(seconds))!s:0>8}"
    return ("-" if seconds < 0 else "+") + text.removesuffix(":00").removesuffix(":00")


def _decode_timetz_binary(data: bytes) -> dt.time:
    micros, west = _TIMETZ.unpack(data)
    zone = dt.timezone(dt.timedelta(seconds=-west))
    return _time(micros).replace(tzinfo=zone)


TIMES: Final = (
    pg_type(
        "date",
        4,
        "DATE",
        text=(_encode_date_text, _decode_date_text),
        binary=(_encode_date_binary, _decode_date_binary),
    ),
    pg_type(
        "time",
        8,
        "TIME",
        text=(_encode_time_text, lambda text: _decode_timetz_text(text).replace(tzinfo=None)),
        binary=(
            lambda value: _INT64.pack(_micros(value)),
            lambda data: _time(_INT64.unpack(data)[0]),
        ),
    ),
    pg_type(
        "time with time zone",
        12,
        "TIME WITH TIME ZONE",
        text=(
            lambda value: _encode_time_text(value) + _zone_text(value).encode(),
            _decode_timetz_text,
        ),
        # PostgreSQL counts zones west of Greenwich.
        binary=(
            lambda value: _TIMETZ.pack(_micros(value), -_zone_seconds(value)),
            _decode_timetz_binary,
        ),
    ),
    pg_type(
        "timestamp",
        8,
        "TIMESTAMP",
        text=(_encode_timestamp_text, _decode_timestamp_text),
        binary=(_encode_timestamp_binary, _timestamp),
    ),
    pg_type(
        "timestamp with time zone",
        8,
        "TIMESTAMP WITH TIME ZONE",
        text=(_encode_timestamptz_text, _decode_timestamptz_text),
        binary=(_encode_timestamp_binary, _decode_timestamptz_binary),
    ),
)
