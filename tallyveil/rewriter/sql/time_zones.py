"""Times as text: zones by name, abbreviation and offset, and timestamps."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from functools import lru_cache
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
)
from tallyveil.rewriter.sql.literals import as_written, written_text
from tallyveil.rewriter.sql.nodes import function_name, position

__all__ = [
    "TIMESTAMP", "by_name", "instant_of", "is_utc", "local_now", "offset", "offset_text",
    "read_formatted", "since_epoch", "unknown_zone", "zone_of",
]  # fmt: skip

ABBREVIATIONS: Final = {
    "akdt": -8, "akst": -9, "bst": 1, "cdt": -5, "cest": 2, "cet": 1, "cst": -6, "edt": -4,
    "eest": 3, "eet": 2, "est": -5, "gmt": 0, "hst": -10, "jst": 9, "kst": 9, "mdt": -6,
    "mest": 2, "met": 1, "mst": -7, "pdt": -7, "pst": -8, "utc": 0, "west": 1, "wet": 0,
    "z": 0, "zulu": 0,
}  # fmt: skip
"""Hours east of Greenwich, in winter and in summer: the abbreviations of PostgreSQL's own list that
always mean one offset and are not mistaken for another country's."""

_CLOCK: Final = r"(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?)?"
_POSIX: Final = re.compile(rf"(?:gmt|utc)?([+-]?){_CLOCK}", re.ASCII)
_MOST: Final = 24 * 3600


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """The zones that DuckDB knows too, by their names in lower case."""
    return {zone.lower(): zone for zone in zoneinfo.available_timezones() - {"localtime"}}


def by_name(text: str) -> str | None:
    """The zone's name in its own spelling, or None if there is none."""
    return _names().get(text.lower())


def offset(text: str) -> int | None:
    """Seconds east of Greenwich of an abbreviation, or of a zone in POSIX's form: UTC+3 and +3 are
    three hours west of Greenwich. None for any other text."""
    word = text.strip().lower()
    if word in ABBREVIATIONS:
        return ABBREVIATIONS[word] * 3600
    match = _POSIX.fullmatch(word)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    west = hours * 3600 + minutes * 60 + seconds
    if west > _MOST:
        return None
    return west if match[1] == "-" else -west


_OFFSET: Final = r"[+-](?P<zh>[0-9]{1,2})(?::?(?P<zm>[0-9]{2})(?::(?P<zs>[0-9]{2}))?)?"
_ZONE: Final = rf"\s*(?:{_OFFSET}|(?P<name>[A-Za-z][A-Za-z0-9_/+:-]*))"
_TIME: Final = r"(?P<h>[0-9]{1,2}):(?P<min>[0-9]{1,2})(?::(?P<s>[0-9]{1,2}(?:\.[0-9]*+)?))?"
TIMESTAMP: Final = re.compile(
    rf"(?P<y>[0-9]{{4,7}})(?P<by>[-/])(?P<m>[0-9]{{1,2}})(?P=by)(?P<d>[0-9]{{1,2}})"
    rf"(?:[tT\s]\s*{_TIME}(?P<zone>{_ZONE})?)?",
    re.ASCII,
)
"""A day, optionally with a time, and with its zone: an offset east of Greenwich, or a name."""


def zone_of(found: re.Match[str]) -> int | str | None:
    """The zone of a TIMESTAMP that has one: seconds east of Greenwich, or a name; None if it is
    unknown."""
    if found["name"] is not None:
        east = offset(found["name"])
        return by_name(found["name"]) if east is None else east
    hours, minutes, seconds = (int(found[part] or 0) for part in ("zh", "zm", "zs"))
    away = 3600 * hours + 60 * minutes + seconds
    return -away if found["zone"].strip().startswith("-") else away


def offset_text(east: int) -> str:
    """The offset in ISO 8601's format, with seconds."""
    minutes, seconds = divmod(abs(east), 60)
    return f"{'-' if east < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def unknown_zone(text: str, position: int | None) -> InvalidParameterValue:
    return InvalidParameterValue(
        f'time zone "{text[:60]}" not recognized',
        hint="Write a name such as 'Europe/Paris', or an offset: 'UTC-5' is five hours east.",
        position=position,
    )


_UTC: Final = frozenset(
    {"utc", "gmt", "z", "etc/utc", "etc/gmt", "zulu", "etc/zulu", "universal", "etc/universal"}
)


def local_now(zone: str) -> dt.datetime:
    """The current time, in the zone."""
    return dt.datetime.now(zoneinfo.ZoneInfo(zone))


def instant_of(local: dt.datetime, zone: str) -> dt.datetime:
    """The instant at which clocks in the zone show a time, as PostgreSQL reads it: the later one if
    they show it twice, and by the offset before if they skip it."""
    own = zoneinfo.ZoneInfo(zone)
    return max(local.replace(tzinfo=own, fold=fold).astimezone(dt.UTC) for fold in (0, 1))


def is_utc(zone: str) -> bool:
    return zone.lower() in _UTC


# Formats that strptime and PostgreSQL's to_date read alike: numbers of fixed meaning, punctuation,
# and one to six digits after the point of the seconds.
_FORMAT: Final = re.compile(r"(?:%[YmdHMS]|(?<=%S\.)%f|[^A-Za-z0-9%\s]|[ T])*")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def read_formatted(node: exp.StrToDate | exp.StrToTime) -> dt.datetime:
    """The time that strptime reads from a text by its format."""
    name = function_name(node)
    text, pattern = written_text(node.this), written_text(node.args.get("format"))
    if text is None or pattern is None:
        raise FeatureNotSupported(
            f"{name} of a value that is not a constant is not answered",
            hint="A declared date needs no conversion: compare it with a date.",
        )
    if not _FORMAT.fullmatch(pattern):
        raise FeatureNotSupported(
            f"this format of {name} is not answered",
            detail="A format has YYYY, MM, DD, HH24, MI, SS or SS.US, and punctuation between.",
            hint="Write the time as a constant: DATE '2020-01-31'.",
            position=position(node.args["format"]),
        )
    try:
        return dt.datetime.strptime(text.strip(), pattern)
    except ValueError:
        raise InvalidTextRepresentation(
            f"'{text[:60]}' is not written in the format of {name}",
            position=position(node.this),
        ) from None


def since_epoch(node: exp.UnixToTime) -> dt.datetime:
    found = as_written(node.this)
    if found is None or not isinstance(found.value, str) or node.args.get("scale") is not None:
        raise FeatureNotSupported(
            "to_timestamp of a value that is not a constant is not answered",
            hint="Write the seconds since 1970 as a number.",
        )
    try:
        return _EPOCH + dt.timedelta(seconds=float(found.value))
    except (ValueError, OverflowError):
        raise NumericValueOutOfRange(f"timestamp out of range: {found.value[:60]}") from None
