"""Times that are constants of the statement: now() and its like, times as text, times with a zone.

A timestamp with a zone is the timestamp in the session's time zone here, as PostgreSQL compares it
with dates and timestamps, and both have one type. Whatever is not the same for every record is
refused, and so is what needs the zone afterwards.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from typing import Final, Literal

from sqlglot import exp

from tallyveil.errors import (
    FeatureNotSupported,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
)
from tallyveil.rewriter.sql.check import function_name, position

__all__ = ["asks_the_time", "is_utc", "local_now", "settle_instants"]

_INSTANTS: Final = frozenset(
    {
        "now", "current_timestamp", "localtimestamp", "transaction_timestamp",
        "statement_timestamp", "get_current_timestamp",
    }
)  # fmt: skip
_DAYS: Final = frozenset({"current_date"})
_UTC: Final = frozenset(
    {"utc", "gmt", "z", "etc/utc", "etc/gmt", "zulu", "etc/zulu", "universal", "etc/universal"}
)

# What strptime and PostgreSQL's to_date read alike: numbers of fixed meaning, and punctuation.
# Digits of a second's fraction stand after its point, of which there may be one to six.
_FORMAT: Final = re.compile(r"(?:%[YmdHMS]|(?<=%S\.)%f|[^A-Za-z0-9%\s]|[ T])*")
_EPOCH: Final = dt.datetime(1970, 1, 1)


def local_now(zone: str) -> dt.datetime:
    """This moment as a clock in the zone shows it."""
    return dt.datetime.now(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)


def is_utc(zone: str) -> bool:
    return zone.lower() in _UTC


def asks_the_time(tree: exp.Expr) -> Literal["day", "instant"] | None:
    """Whether the statement depends on the "day" or on the "instant" it is asked at."""
    names = {function_name(node) for node in tree.find_all(exp.Func)}
    if names & _INSTANTS:
        return "instant"
    return "day" if names & _DAYS else None


def settle_instants(tree: exp.Expr, now: dt.datetime, zone: str) -> None:
    """Replace, in place, all of them by constants; ``now`` is as a clock in the session's time
    zone shows it.

    Raises FeatureNotSupported, InvalidTextRepresentation, NumericValueOutOfRange.
    """
    epochs: list[exp.Expr] = []
    zoned = False
    for node in list(tree.find_all(exp.Func, exp.AtTimeZone)):
        settled = _settled(node, now, zone)
        if settled is not None:
            zoned = zoned or settled.is_type("timestamp")
            node.replace(settled)
        elif isinstance(node, exp.Extract) and node.name.lower() == "epoch":
            epochs.append(node)
    if epochs and zoned and not is_utc(zone):
        raise FeatureNotSupported(
            "extract(epoch) beside a timestamp with a zone is answered in time zone UTC only",
            hint="SET timezone = 'UTC', or write the seconds as a number.",
            position=position(epochs[0]),
        )


def _settled(node: exp.Expr, now: dt.datetime, zone: str) -> exp.Expr | None:
    match node:
        case exp.StrToDate():
            return _day(_read(node).date())
        case exp.StrToTime():
            return _instant(_read(node))
        case exp.UnixToTime():
            utc = exp.Literal.string(_since_epoch(node).isoformat(" ") + "+00")
            return exp.cast(exp.cast(utc, "timestamptz"), "timestamp")
        case exp.AtTimeZone():
            return _in_utc(node, zone)
        case exp.Cast() if node.to.this is exp.DType.TIMESTAMPTZ:
            # With the zone that a text may have, to the same instant in the session's zone.
            return exp.cast(exp.Cast(this=node.this.copy(), to=node.to.copy()), "timestamp")
    name = function_name(node)
    if name in _DAYS:
        return _day(now.date())
    return _instant(now) if name in _INSTANTS else None


def _day(day: dt.date) -> exp.Expr:
    return exp.cast(exp.Literal.string(day.isoformat()), "date")


def _instant(instant: dt.datetime) -> exp.Expr:
    return exp.cast(exp.Literal.string(instant.isoformat(" ")), "timestamp")


def _in_utc(node: exp.AtTimeZone, session: str) -> exp.Expr:
    """With the session in UTC too it changes the type alone."""
    zone = node.args["zone"]
    if not (zone.is_string and is_utc(zone.name) and is_utc(session)):
        raise FeatureNotSupported(
            "AT TIME ZONE is answered for 'UTC' only, in a session whose timezone is UTC",
            hint="Write the time in the session's time zone.",
            position=position(zone) or position(node),
        )
    return exp.cast(exp.cast(node.this.copy(), "timestamptz"), "timestamp")


def _read(node: exp.StrToDate | exp.StrToTime) -> dt.datetime:
    """The text by its format, as strptime reads it."""
    name = function_name(node)
    text, pattern = _text(node.this), _text(node.args.get("format"))
    if text is None or pattern is None:
        raise FeatureNotSupported(
            f"{name} of a value that is no constant is not answered",
            hint="Declared dates are dates already: compare them with a date.",
            position=position(node),
        )
    if not _FORMAT.fullmatch(pattern):
        raise FeatureNotSupported(
            f"this format of {name} is not answered",
            detail="YYYY, MM, DD, HH24, MI, SS and SS.US are, with punctuation between them.",
            hint="Write the time as a constant: DATE '2020-01-31'.",
            position=position(node.args["format"]) or position(node),
        )
    try:
        return dt.datetime.strptime(text.strip(), pattern)
    except ValueError:
        raise InvalidTextRepresentation(
            f"'{text[:60]}' is not written in the format of {name}",
            position=position(node.this) or position(node),
        ) from None


def _text(node: exp.Expr | None) -> str | None:
    """The string that a constant is, also where it was passed as a parameter."""
    inner = node.unnest() if node is not None else None
    if isinstance(inner, exp.Cast):
        inner = inner.this.unnest()
    return str(inner.this) if isinstance(inner, exp.Literal) and inner.is_string else None


def _since_epoch(node: exp.UnixToTime) -> dt.datetime:
    inner = node.this.unnest()
    inner = inner.this.unnest() if isinstance(inner, exp.Cast) else inner
    negative = isinstance(inner, exp.Neg)
    inner = inner.this.unnest() if negative else inner
    if not isinstance(inner, exp.Literal) or node.args.get("scale") is not None:
        raise FeatureNotSupported(
            "to_timestamp of a value that is no constant is not answered",
            hint="Write the seconds since 1970 as a number.",
            position=position(node),
        )
    try:
        seconds = float(inner.this)
        return _EPOCH + dt.timedelta(seconds=-seconds if negative else seconds)
    except (ValueError, OverflowError):
        raise NumericValueOutOfRange(
            f"timestamp out of range: {inner.this[:60]}", position=position(node)
        ) from None
