"""Readers of the texts of settings. Each returns the text that SHOW shows, or raises.

Readers take the setting's name, the new text and the current one. They limit the length of what
they parse: '1e999999999' as a number would take minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from tallyveil.errors import InvalidParameterValue
from tallyveil.rewriter import zone_by_name
from tallyveil.truth import truth

__all__ = [
    "LEVELS",
    "SEVERITIES",
    "Setting",
    "between",
    "cut",
    "date_style",
    "duration",
    "encoding",
    "isolation",
    "label",
    "milliseconds",
    "number",
    "one_of",
    "only",
    "search_path",
    "severity",
    "switch",
    "time_zone",
]

ReadSetting: TypeAlias = Callable[[str, str, str], str]


@dataclass(frozen=True)
class Setting:
    """A setting that a session keeps: its default, its reader, and what a dp setting is for."""

    default: str
    read: ReadSetting
    description: str = ""


_NUMBER: Final = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,2})?", re.ASCII)

_ANY_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NO_NUMBER: Final = "Give a number, such as 0.1."
_LONG: Final = (
    "Give a number with at most 20 digits on each side of the point, and an exponent of at most two"
    " digits."
)


def wrong(name: str, value: str, hint: str | None = None) -> InvalidParameterValue:
    """The error, in PostgreSQL's words."""
    return InvalidParameterValue(f'invalid value for parameter "{name}": "{value[:40]}"', hint=hint)


def between(least: Fraction | int, most: Fraction | int, hint: str) -> ReadSetting:
    """A number that lies strictly between two."""

    def read(name: str, value: str, now: str = "") -> str:
        if not _NUMBER.fullmatch(value):
            raise wrong(name, value, _LONG if _ANY_NUMBER.fullmatch(value) else _NO_NUMBER)
        if not least < Fraction(value) < most:
            raise wrong(name, value, hint)
        return value

    return read


def switch(name: str, value: str, now: str = "") -> str:
    on = truth(value)
    if on is None:
        raise wrong(name, value, "Choose on or off.")
    return "on" if on else "off"


def one_of(*words: str) -> ReadSetting:
    def read(name: str, value: str, now: str = "") -> str:
        word = value.strip().lower()
        if word not in words:
            raise wrong(name, value, f"Choose one of: {', '.join(words)}.")
        return word

    return read


def only(offered: str, everything: ReadSetting, instead: str = "") -> ReadSetting:
    """Accept only ``offered`` of PostgreSQL's values: the others would change answers."""

    def read(name: str, value: str, now: str = "") -> str:
        if everything(name, value, now) != offered:
            raise wrong(name, value, f"Only {offered} is offered{instead}.")
        return offered

    return read


def cut(name: str) -> str:
    """The 63 bytes of a name that PostgreSQL reads."""
    return name.encode()[:63].decode(errors="ignore")


def label(name: str, value: str, now: str = "") -> str:
    """Any text, truncated as a name: clients are sent it in one message, and fail on a long one."""
    return cut(value)


# The sizes of units of memory, in bytes, and of time, in microseconds; the largest first.
_UNITS: Final = (
    {"TB": 1 << 40, "GB": 1 << 30, "MB": 1 << 20, "kB": 1 << 10, "B": 1},
    {
        "d": 86_400_000_000,
        "h": 3_600_000_000,
        "min": 60_000_000,
        "s": 1_000_000,
        "ms": 1_000,
        "us": 1,
    },
)
_BASE: Final = re.compile(r"(\d*)(\w+)")
_QUANTITY: Final = re.compile(
    r"\s*+([+-]?(?:(?:0|[1-9]\d{0,14})(?:\.\d{0,15})?|\.\d{1,15}))\s*+([a-zA-Z]{0,9})\s*+", re.ASCII
)


def number(least: str, most: str, base: str = "", *, whole: bool = True) -> ReadSetting:
    """A number between two; with ``base``, such as ms or 8kB, one that may have a unit of memory or
    time, and that counts ``base`` without one. It is shown in the largest unit that it is whole in.
    """
    units = _in_units_of(base)
    ends = tuple(f"{end} {base}".strip() for end in (least, most))

    def read(name: str, value: str, now: str = "") -> str:
        match = _QUANTITY.fullmatch(value)
        if match is None or not (match[2] == "" or match[2] in units):
            listed = f", perhaps with a unit: {', '.join(units)}" if units else ""
            raise wrong(name, value, f"Give a number{listed}.")
        found = Fraction(match[1])
        if match[2]:
            found = _rounded(found * units[match[2]], match[2], units)
        if whole:
            found = Fraction(round(found))
        if not Fraction(least) <= found <= Fraction(most):
            raise InvalidParameterValue(
                f"{_plain(found)}{base and ' '}{base} is outside the valid range for parameter "
                f'"{name}" ({ends[0]} .. {ends[1]})'
            )
        if found <= 0 or not units:
            return _plain(found)
        unit = next((u for u, size in units.items() if found % size == 0), [*units][-1])
        return f"{_plain(found / units[unit])}{unit}"

    return read


def _in_units_of(base: str) -> dict[str, Fraction]:
    """Each unit of memory or time, as a multiple of ``base``."""
    match = _BASE.fullmatch(base)
    if match is None:
        return {}
    sizes = next(sizes for sizes in _UNITS if match[2] in sizes)
    one = int(match[1] or 1) * sizes[match[2]]
    return {unit: Fraction(size, one) for unit, size in sizes.items()}


def _rounded(found: Fraction, unit: str, units: Mapping[str, Fraction]) -> Fraction:
    """A number that was given in a unit, as PostgreSQL rounds it: to the next smaller unit."""
    smaller = [*units][[*units].index(unit) + 1 :]
    return round(found / units[smaller[0]]) * units[smaller[0]] if smaller else found


def _plain(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else format(float(value), "g")


duration: Final = number("0", str(2**31 - 1), "ms")
"""A time in milliseconds or with a unit."""


@lru_cache(maxsize=256)
def milliseconds(shown: str) -> int:
    """The milliseconds of a text that `duration` returned."""
    match = _QUANTITY.fullmatch(shown)
    return 0 if match is None else int(Fraction(match[1]) * _in_units_of("ms")[match[2] or "ms"])


def encoding(name: str, value: str, now: str = "") -> str:
    """Compares only letters and digits, as PostgreSQL does; drivers send 'utf-8' in quotes."""
    if re.sub(r"[^a-z0-9]", "", value.lower()) not in ("utf8", "unicode"):
        raise wrong(name, value, "Only UTF8 is offered.")
    return "UTF8"


_ORDERS: Final = (
    ("DMY", re.compile("dmy|euro.*")),
    ("MDY", re.compile("mdy|us|noneuro.*")),
    ("YMD", re.compile("ymd")),
)


def date_style(name: str, value: str, now: str = "") -> str:
    """ISO with any order of day and month: dates are read with the year first."""
    style: list[str] = []
    order: list[str] = []
    for part in value.split(","):
        word = part.strip().strip('"').lower()
        found = [shown for shown, pattern in _ORDERS if pattern.fullmatch(word)]
        if word in ("iso", "sql", "postgres", "german"):
            style.append(word)
        elif found:
            order += found
        elif word == "default":
            style, order = ["iso"], ["MDY"]
        else:
            raise wrong(name, value, "Write ISO, and perhaps an order: 'ISO, DMY'.")
    if len(set(style)) > 1 or len(set(order)) > 1:
        raise InvalidParameterValue(
            f'invalid value for parameter "{name}": "{value[:40]}"',
            detail='Conflicting "DateStyle" specifications.',
        )
    if style and style[0] != "iso":
        raise wrong(
            name, value, "Only ISO is offered: dates are read and written with the year first."
        )
    return f"ISO, {order[0] if order else now.partition(', ')[2] or 'MDY'}"


LEVELS: Final = ("serializable", "repeatable read", "read committed", "read uncommitted")


def isolation(name: str, value: str, now: str = "") -> str:
    """The level is shown, and all levels are the same: see transactions in docs/analyst.md."""
    return one_of(*LEVELS)(name, " ".join(value.split()), now)


# The values of client_min_messages in PostgreSQL's order; INFO is always sent.
SEVERITIES: Final = (
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error",
)  # fmt: skip


def severity(name: str, value: str, now: str = "") -> str:
    word = value.strip().lower()
    return one_of(*SEVERITIES)(name, "debug2" if word == "debug" else value, now)


_SCHEMA: Final = re.compile(r'\s*+(?:"((?:[^"]|"")*+)"|([^\W\d][\w$]*+))\s*+(?:,|$)')

_LONGEST_PATH: Final = 1000  # characters; drivers are sent the path each time it changes
_SHOWN: Final = 30  # characters of a refused path in the message


def search_path(name: str, value: str, now: str = "") -> str:
    """Schemas in which names are looked up: tables are found in public, whatever else is listed.

    Raises InvalidParameterValue for a path by which a name would mean something else.
    """
    if len(value) > _LONGEST_PATH:
        shown = f"{value[:_SHOWN]}…"
        raise wrong(name, shown, f"A path has at most {_LONGEST_PATH} characters.")
    schemas: list[str] = []
    at = 0
    while at < len(value) or not schemas:
        match = _SCHEMA.match(value, at)
        if match is None:
            raise wrong(name, value, 'Write names of schemas: "$user", public.')
        schemas.append(match[2].lower() if match[2] else match[1].replace('""', '"'))
        at = match.end()
    before = schemas[: schemas.index("public")] if "public" in schemas else ["dp"]
    if {"dp", "information_schema"} & set(before) or value.rstrip().endswith(","):
        raise wrong(
            name,
            "" if value == '""' else value,
            "Names without a schema are always looked up in public: leave it in the path, and"
            " write dp. before the names of its relations.",
        )
    return value


_OFFSET: Final = re.compile(r"(gmt|utc|)([+-]?)(\d{1,2})(?::?00)?", re.ASCII)


def time_zone(name: str, value: str, now: str = "") -> str:
    """A zone's name; hours east of Greenwich; or as POSIX has it, UTC and the hours west of it."""
    word = value.strip().lower()
    match = None if zone_by_name(word) else _OFFSET.fullmatch(word)
    if match is not None:
        west = (match[2] == "-") == (match[1] == "")
        word = f"etc/gmt{'+' if west else '-'}{int(match[3])}"
    zone = zone_by_name(word)
    if zone is None:
        raise wrong(
            name,
            value,
            "Write the name of a time zone, such as 'Europe/Paris', or whole hours: 5 and 'UTC-5' "
            "are five hours east of Greenwich.",
        )
    return zone
