"""Time zones by name, by abbreviation, and by hours from Greenwich, as PostgreSQL reads them."""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from tallyveil.errors import InvalidParameterValue

__all__ = ["ABBREVIATIONS", "by_name", "is_shown_again", "offset", "unknown", "utc_of", "written"]

ABBREVIATIONS: Final = MappingProxyType(
    {
        "akdt": -8, "akst": -9, "bst": 1, "cdt": -5, "cest": 2, "cet": 1, "cst": -6, "edt": -4,
        "eest": 3, "eet": 2, "est": -5, "gmt": 0, "hst": -10, "jst": 9, "kst": 9, "mdt": -6,
        "mest": 2, "met": 1, "mst": -7, "pdt": -7, "pst": -8, "utc": 0, "west": 1, "wet": 0,
        "z": 0, "zulu": 0,
    }
)  # fmt: skip
"""Hours east of Greenwich, in winter and in summer: PostgreSQL's own list, as far as it stands for
one offset at all times and is not mistaken for another country's."""

_CLOCK: Final = r"(\d{1,2})(?::([0-5]\d)(?::([0-5]\d))?)?"
_POSIX: Final = re.compile(rf"(?:gmt|utc)?([+-]?){_CLOCK}", re.ASCII)
_MOST: Final = 24 * 3600


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """By the name in lower case, those that DuckDB knows too."""
    return {zone.lower(): zone for zone in zoneinfo.available_timezones() - {"localtime"}}


def by_name(text: str) -> str | None:
    """The name of the zone, as it is written; None where there is none."""
    return _names().get(text.lower())


def offset(text: str) -> int | None:
    """Seconds east of Greenwich where a zone is an abbreviation or has POSIX's form, UTC+3 or +3,
    which is three hours west of it; None where it is neither."""
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


_TEXT: Final = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})[tT\s]\s*(\d{1,2}):(\d{1,2})(?::(\d{1,2}))?(?:\.\d*)?"
    r"\s*([A-Za-z+-].*)",
    re.ASCII,
)


def utc_of(text: str) -> dt.datetime | None:
    """The instant, to the second, that a text with a zone stands for; None where it has none, or is
    none of Python's."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        return None
    zone, east = match[7], offset(match[7])
    if east is None and by_name(zone) is None:
        return None
    try:
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        local = dt.datetime(year, month, day, hour, minute, second)
        if east is None:
            named = zoneinfo.ZoneInfo(by_name(zone) or "UTC")
            return local.replace(tzinfo=named, fold=1).astimezone(dt.UTC)
        signed = -east if zone[0] in "+-" else east  # ISO 8601 counts to the east
        return (local - dt.timedelta(seconds=signed)).replace(tzinfo=dt.UTC)
    except (ValueError, OverflowError):
        return None


def is_shown_again(instant: dt.datetime, zone: str) -> bool:
    """Whether clocks there show its time once more, when they are put back."""
    local = instant.astimezone(zoneinfo.ZoneInfo(zone))
    return not local.fold and local.utcoffset() != local.replace(fold=1).utcoffset()


def written(east: int) -> str:
    """As ISO 8601 has it, with the seconds."""
    minutes, seconds = divmod(abs(east), 60)
    return f"{'-' if east < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def unknown(text: str, position: int | None) -> InvalidParameterValue:
    return InvalidParameterValue(
        f'time zone "{text[:60]}" not recognized',
        hint="Write a name such as 'Europe/Paris', or an offset such as 'UTC-5': that is east.",
        position=position,
    )
