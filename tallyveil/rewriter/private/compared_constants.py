"""Constants as a comparison with an attribute reads them: in its type, days beside timestamps."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.sql.literals import WrittenConstant, as_written
from tallyveil.rewriter.sql.time_zones import instant_of

__all__ = ["NO_CONSTANT", "as_compared", "as_instant"]

NO_CONSTANT: Final = object()

_ZONED: Final = exp.DType.TIMESTAMPTZ
_DAYS_AND_TIMES: Final = (
    exp.DType.DATE,
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ,
    _ZONED,
)


def as_compared(node: exp.Expr, attribute: Attribute, zone: str) -> Any:
    """Return the constant as a value of the attribute's type; ``NO_CONSTANT`` for NULL and if it
    takes DuckDB to convert it.

    A constant compared with a day keeps its time: a day equals a timestamp at midnight only. One
    compared with an instant is in the session's time ``zone``, if it has none of its own.
    """
    found = as_written(node)
    if found is None or found.value is None:
        return NO_CONSTANT
    value = found.value
    try:
        match attribute.sql_type:
            case "VARCHAR":
                return value if found.quoted else NO_CONSTANT
            case "BOOLEAN":
                return value if isinstance(value, bool) else NO_CONSTANT
            case "DATE":
                return _whole_day(_instant(found, attribute.coarse))
            case "TIMESTAMP":
                instant = _instant(found, timed=True)
                return NO_CONSTANT if instant is None or instant.tzinfo is not None else instant
            case "TIMESTAMP WITH TIME ZONE":
                return _zoned(found, zone)
            case "TIME":
                return _clock(found)
            case "INTERVAL":
                return NO_CONSTANT
        if isinstance(value, bool):
            return NO_CONSTANT
        number = float(value) if attribute.sql_type == "DOUBLE" else Decimal(value)
    except (ValueError, OverflowError, InvalidOperation):
        return NO_CONSTANT
    return NO_CONSTANT if math.isnan(number) else number


def _zoned(found: WrittenConstant, zone: str) -> Any:
    plain = found._replace(casts=tuple(c for c in found.casts if c.this is not _ZONED))
    moment = _instant(plain, timed=True)
    if moment is None or len(found.casts) > 1:
        return NO_CONSTANT
    return moment if moment.tzinfo is not None else instant_of(moment, zone)


def _clock(found: WrittenConstant) -> Any:
    if not found.quoted or found.casts:
        return NO_CONSTANT
    clock = dt.time.fromisoformat(str(found.value))
    return clock if clock.tzinfo is None else NO_CONSTANT


def _instant(found: WrittenConstant, timed: bool) -> dt.datetime | None:
    """The time that a constant means, cut to midnight if it becomes a day; None for no time.

    ``timed`` says whether a text without a cast means a timestamp here.
    """
    if not (found.quoted and isinstance(found.value, str)):
        return None
    instant = dt.datetime.fromisoformat(found.value)
    if not found.casts:
        return instant if timed else _midnight(instant)
    for kind in (cast.this for cast in found.casts):
        zoned = kind is _ZONED and instant.tzinfo is not None
        if zoned or kind not in _DAYS_AND_TIMES:
            return None
        instant = _midnight(instant) if kind is exp.DType.DATE else instant.replace(tzinfo=None)
    return instant


def _midnight(day: Any) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day)


def _whole_day(instant: dt.datetime | None) -> Any:
    if instant is None or instant.tzinfo is not None:
        return NO_CONSTANT
    return instant.date() if instant == _midnight(instant) else instant


def as_instant(value: Any) -> Any:
    """A day as its midnight; other values unchanged."""
    whole = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return _midnight(value) if whole else value
