"""Functions of dates and times, and the texts that stand for a date or a timestamp."""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidDatetimeFormat,
    InvalidTimeZoneDisplacement,
)
from tallyveil.rewriter.postgres.topic import Rules, each, need_family
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.sql import time_zones as zones
from tallyveil.rewriter.sql.nodes import as_type, call, function_name, position
from tallyveil.rewriter.sql.types import is_literal_text, postgres_type

__all__ = ["MACROS", "RULES", "check_clock_text", "check_time_text"]

# Numbers of fixed width and meaning, as the parser translates PostgreSQL's format, and punctuation.
_FORMAT: Final = re.compile(r"(?:%[YmdjHMS]|[-/., :;_()])+")
_DAYS: Final = re.compile(r"(?:%[Ymdj]|[-/., :;_()])+")

_DATE_PARTS: Final = frozenset(
    {
        "year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear", "epoch",
        "decade", "century", "millennium",
    }
)  # fmt: skip
_DATED: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_TIME_PARTS: Final = frozenset({"hour", "minute"})
_TIME_UNITS: Final = frozenset({"hour", "minute", "second"})
_STRIDE: Final = re.compile(r"[1-9][0-9]{0,5} (second|minute|hour|day)s?")
_STRIDES: Final = frozenset(
    unit + s for unit in ("second", "minute", "hour", "day") for s in ("", "s")
)
_UNITS: Final = frozenset({"year", "quarter", "month", "week", "day"})


def extract(node: exp.Extract, bound: Bound) -> None:
    part, kind = node.this.name.lower(), bound.type_of(node.expression)
    parts = _DATE_PARTS | _TIME_PARTS if kind in ("TIMESTAMP", "TIMESTAMPTZ") else _DATE_PARTS
    parts = {"TIME": _TIME_PARTS, "INTERVAL": frozenset({"epoch"})}.get(kind or "", parts)
    if part not in parts or kind not in (*_DATED, "TIME", "INTERVAL", None):
        raise FeatureNotSupported(
            f"extract({part}) of a {(kind or 'value').lower()} is not answered",
            hint=f"Use one of: {', '.join(sorted(parts))}.",
        )


def make_date(node: exp.Anonymous, bound: Bound) -> None:
    """PostgreSQL has no year 0, and DuckDB counts the years before it otherwise."""
    if function_name(node) == "make_date":
        year = call("__pg_year", node.expressions[0])
        node.set("expressions", [year, *node.expressions[1:]])


def truncate(node: exp.Func, bound: Bound) -> exp.Expr | None:
    """Of an instant, PostgreSQL takes a unit of up to an hour off the time on the clock, and reads
    what is left of the date in the session's time zone. So it does of a day, which is an instant
    too. DuckDB confuses the two hours that clocks show twice."""
    unit, kind = node.args["unit"].name.lower(), bound.declared_type_of(node.this)
    units = _UNITS | _TIME_UNITS if kind in _DATED else _UNITS
    if unit not in units:
        raise FeatureNotSupported(
            f"date_trunc to {unit} is not answered", hint=f"Use one of: {', '.join(sorted(units))}."
        )
    if kind == "TIMESTAMPTZ" and unit in _TIME_UNITS:
        short = call("__pg_trunc", exp.Literal.string(unit), node.this)
        return as_type(short, "TIMESTAMPTZ")  # so that its type is known
    if kind not in ("DATE", "TIMESTAMPTZ"):
        return None
    if kind == "TIMESTAMPTZ":
        node.set("this", as_type(node.this, "TIMESTAMP"))
    return as_type(type(node)(**node.args), "TIMESTAMPTZ")


def arithmetic(node: exp.Binary, bound: Bound) -> exp.Expr | None:
    """PostgreSQL adds months and days on the clocks of the session's time zone, and then the hours
    as they pass. Between two instants it counts hours as they pass."""
    operands = [node.this, node.expression]
    kinds = [None if is_literal_text(one) else bound.declared_type_of(one) for one in operands]
    if "TIMESTAMPTZ" not in kinds:
        return None
    if None in kinds:
        raise FeatureNotSupported(
            "this is not added to or subtracted from a timestamptz: its type is not known",
            hint="Write its type: interval '1 day', or timestamptz '2020-01-31'.",
            position=position(operands[kinds.index(None)]),
        )
    if "INTERVAL" in kinds:
        at = kinds.index("INTERVAL")
        span, instant = operands[at], operands[1 - at]
        less, hours = isinstance(node, exp.Sub), span.text("unit").lower() in _TIME_UNITS
        if (less and at == 0) or (isinstance(span, exp.Interval) and hours):
            return None
        span = exp.Neg(this=exp.paren(span, copy=False)) if less else span
        return as_type(call("__pg_moved", instant, span), "TIMESTAMPTZ")
    if isinstance(node, exp.Sub) and all(kind in _DATED for kind in kinds):
        for name, one in zip(("this", "expression"), operands, strict=True):
            utc = exp.Literal.string("UTC")
            node.set(name, exp.AtTimeZone(this=as_type(one, "TIMESTAMPTZ"), zone=utc))
    return None


def date_bin(node: exp.DateBin, bound: Bound) -> None:
    """DuckDB's time_bucket, which takes months too, and gives a date for dates."""
    stride, origin = node.this, node.args["unit"]
    kind, origins = bound.type_of(node.expression), bound.type_of(origin)
    zoned = kind == "TIMESTAMPTZ" and origins in _DATED
    if not zoned and (kind, origins) != ("TIMESTAMP", "TIMESTAMP"):
        raise FeatureNotSupported(
            "date_bin is answered for timestamps, from an origin of the same type",
            hint="Write date_bin('15 minutes', t, TIMESTAMP '2001-01-01'), or TIMESTAMPTZ.",
        )
    if zoned and origins != kind:
        node.set("unit", as_type(origin, "TIMESTAMPTZ"))
    if stride.is_string and _STRIDE.fullmatch(stride.this):
        node.set("this", exp.cast(stride, "interval"))
    elif not (isinstance(stride, exp.Interval) and stride.text("unit").lower() in _STRIDES):
        raise FeatureNotSupported(
            "this stride of date_bin is not answered",
            hint="Write seconds, minutes, hours or days: '15 minutes'.",
            position=position(stride),
        )


def to_char(node: exp.TimeToStr, bound: Bound) -> None:
    """to_char of a date or a timestamp, in the formats that DuckDB writes alike."""
    wanted, kind = node.args.get("format"), bound.type_of(node.this)
    if kind not in _DATED:
        raise FeatureNotSupported(
            f"to_char of a {postgres_type(kind)} is not answered",
            hint="It takes dates and timestamps. To write a number as text, cast it: n::text.",
        )
    formats = _DAYS if kind == "DATE" else _FORMAT
    if not isinstance(wanted, exp.Literal) or not formats.fullmatch(wanted.this):
        raise FeatureNotSupported(
            "this format of to_char is not answered",
            detail="A format has YYYY, MM, DD, DDD and, for a timestamp, HH24, MI and SS, with "
            "punctuation between.",
            hint="Take a part with extract, or a period with date_trunc.",
            position=position(wanted) if wanted is not None else position(node),
        )


def isfinite(node: exp.Anonymous, bound: Bound) -> None:
    """DuckDB has isfinite of numbers too."""
    if function_name(node) == "isfinite" and node.expressions:
        hint = "Give it a date or a timestamp."
        need_family(node, node.expressions[0], ("time",), hint, bound)


# Texts that PostgreSQL and DuckDB read alike as a date or a timestamp. DuckDB ignores what follows
# a timestamp ('10:00 PM' is ten in the morning), reads '14-02-03' as a day of the year 14, drops a
# seventh decimal where PostgreSQL rounds, and has its own meaning of abbreviated time zones: PST is
# Los Angeles, with its summer time, and IST is in India. So these are replaced by their offsets.
_DECIMALS: Final = re.compile(r"[^.]*(?:\.[0-9]{1,6})?")
_DIGITS: Final = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?")
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?")
_WORDS: Final = {
    "now": "now()",
    "today": "current_date",
    "tomorrow": "current_date + 1",
    "yesterday": "current_date - 1",
}
"""Texts that PostgreSQL reads as the current time, with expressions that mean the same."""


def check_time_text(node: exp.Expr, kind: str) -> None:
    """Raise InvalidDatetimeFormat if DuckDB might misread a string as a ``kind``,
    DatetimeFieldOverflow if there is no such day or time, and InvalidTimeZoneDisplacement.
    PostgreSQL has no year 0.

    In place, an abbreviated zone becomes an offset, and 24:00 the next day's midnight, whose day it
    belongs to.
    """
    literal = node.unnest()
    if not literal.is_string:
        return
    text = literal.this.strip()
    if text.lower() == "epoch":
        return
    if text.lower().lstrip("+-") in ("inf", "infinity"):
        raise FeatureNotSupported(
            f"an infinite {kind} is not supported",
            hint="Write a day, such as DATE '9999-12-31'.",
            position=position(literal),
        )
    if text.lower() in _WORDS:
        raise FeatureNotSupported(
            f"'{text}' is not read as a {kind}: a constant must always mean the same",
            hint=f"Write {_WORDS[text.lower()]}.",
            position=position(literal),
        )
    found = zones.TIMESTAMP.fullmatch(text)
    if found is None or not _DECIMALS.fullmatch(found["s"] or ""):
        raise InvalidDatetimeFormat(
            f'invalid input syntax for type {kind}: "{literal.this[:40]}"',
            hint="Write a date as 2024-02-29, a time as 2024-02-29 12:30:00.",
            position=position(literal),
        )
    parts = found.groupdict("0")
    year, month, day, hour, minute = (int(parts[name]) for name in ("y", "m", "d", "h", "min"))
    if not _exists(year, month, day, hour, minute, float(parts["s"])):
        raise DatetimeFieldOverflow(
            f'date/time field value out of range: "{literal.this}"',
            position=position(literal),
        )
    if int(parts["zh"]) > 15 or int(parts["zm"]) > 59 or int(parts["zs"]) > 59:
        raise InvalidTimeZoneDisplacement(
            f'time zone displacement out of range: "{literal.this}"',
            hint="Keep it between -15:59:59 and +15:59:59.",
            position=position(literal),
        )
    zone = ""
    if found["zone"]:  # DuckDB would read an abbreviation as a name, or ignore it
        east = zones.zone_of(found)
        if east is None:
            raise zones.unknown_zone(found["name"], position(literal))
        zone = zones.offset_text(east) if isinstance(east, int) else f" {east}"
    if hour == 24 and kind != "date" and year < dt.MAXYEAR:
        midnight = dt.datetime(year, month, day) + dt.timedelta(days=1)
        literal.set("this", f"{midnight.isoformat(' ')}{zone}")
    elif zone:
        literal.set("this", text[: found.start("zone")] + zone)


def check_clock_text(node: exp.Expr) -> None:
    """Raise InvalidDatetimeFormat, or DatetimeFieldOverflow for a time that there is not, if DuckDB
    might misread a string as a time of day."""
    literal = node.unnest()
    if literal.is_string and not _CLOCK.fullmatch(literal.this):
        if _DIGITS.fullmatch(literal.this):
            raise DatetimeFieldOverflow(
                f'date/time field value out of range: "{literal.this}"', position=position(literal)
            )
        raise InvalidDatetimeFormat(
            f'invalid input syntax for type time: "{literal.this[:40]}"',
            hint="Write a time of day as 14:30 or 14:30:00.",
            position=position(literal),
        )


def _exists(year: int, month: int, day: int, hour: int, minute: int, second: float) -> bool:
    """Whether this time exists. 24:00 is the next day's midnight."""
    if minute > 59 or second >= 60 or 3600 * hour + 60 * minute + second > 86_400:
        return False
    return year > 0 and 1 <= month <= 12 and 1 <= day <= monthrange(2000 + year % 400, month)[1]


RULES: Final[Rules] = {
    exp.Extract: (extract,),
    **each((exp.TimestampTrunc, exp.DateTrunc), truncate),
    **each((exp.Add, exp.Sub), arithmetic),
    exp.DateBin: (date_bin,),
    exp.TimeToStr: (to_char,),
    exp.Anonymous: (isfinite, make_date),
}

_MONTHS: Final = "CAST(12 * year(i) + month(i) AS INTEGER)"
_CALENDAR_DAYS: Final = "CAST(day(i) AS INTEGER)"

MACROS: Final = (
    "__pg_year(y) AS list_transform([y], lambda v: CASE WHEN v < 1 "
    "THEN error('date field value out of range: years begin with 1') ELSE v END)[1]",
    "__pg_trunc(unit, t) AS list_transform([t], lambda v: "
    "v - (CAST(v AS TIMESTAMP) - date_trunc(unit, CAST(v AS TIMESTAMP))))[1]",
    "__pg_moved(t, i) AS list_transform([list_transform([t], lambda v: "
    f"CASE WHEN {_MONTHS} <> 0 "
    f"THEN CAST(CAST(v AS TIMESTAMP) + to_months({_MONTHS}) AS TIMESTAMPTZ) ELSE v END)[1]], "
    f"lambda v: CASE WHEN {_CALENDAR_DAYS} <> 0 "
    f"THEN CAST(CAST(v AS TIMESTAMP) + to_days({_CALENDAR_DAYS}) AS TIMESTAMPTZ) ELSE v END)[1] "
    f"+ (i - to_months({_MONTHS}) - to_days({_CALENDAR_DAYS}))",
)
