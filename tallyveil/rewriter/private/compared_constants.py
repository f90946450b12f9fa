"""Constants as they are compared with an attribute: of its type, and days beside times."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from tallyveil.policy.domain import Attribute

__all__ = ["NO_CONSTANT", "as_compared", "moment", "written_constant"]

NO_CONSTANT: Final = object()

_DAYS_AND_TIMES: Final = (
    exp.DType.DATE,
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPTZ,
)


def written_constant(node: exp.Expr) -> Any:
    """The value of a constant as it is written; expressions are left to their evaluation."""
    node = node.unnest()
    match node:
        case exp.Literal():
            return node.this if node.is_string else Decimal(node.this)
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Neg():
            inner = written_constant(node.this)
            return -inner if isinstance(inner, Decimal) else NO_CONSTANT
        case exp.Cast():
            return written_constant(node.this)
    return NO_CONSTANT


def as_compared(node: exp.Expr, attribute: Attribute) -> Any:
    """The constant as the attribute's type has it, or ``NO_CONSTANT`` where that takes DuckDB.

    A day is compared with a timestamp at midnight, so that such a constant keeps its time.
    """
    value = written_constant(node)
    if value is None or value is NO_CONSTANT:
        return value
    try:
        match attribute.sql_type:
            case "VARCHAR":
                return value if isinstance(value, str) else NO_CONSTANT
            case "BOOLEAN":
                return value if isinstance(value, bool) else NO_CONSTANT
            case "DATE":
                return _whole_day(_instant(node, attribute.coarse))
        if isinstance(value, bool):
            return NO_CONSTANT
        number = float(value) if attribute.sql_type == "DOUBLE" else Decimal(value)
    except (ValueError, InvalidOperation):
        return NO_CONSTANT
    return NO_CONSTANT if math.isnan(number) else number


def _instant(node: exp.Expr, timed: bool) -> dt.datetime | None:
    """The time a constant means; its midnight where it becomes a day, None where it is none.

    ``timed`` says whether a text is a timestamp where it stands.
    """
    node = node.unnest()
    if isinstance(node, exp.Literal) and node.is_string:
        instant = dt.datetime.fromisoformat(node.this)
        return instant if timed else _midnight(instant)
    if not isinstance(node, exp.Cast):
        return None
    kind = node.to.this
    instant_or_none = _instant(node.this, timed=True)
    if instant_or_none is None or kind not in _DAYS_AND_TIMES:
        return None
    if kind is exp.DType.DATE:
        return _midnight(instant_or_none)
    zoned = kind is exp.DType.TIMESTAMPTZ and instant_or_none.tzinfo is not None
    return None if zoned else instant_or_none.replace(tzinfo=None)


def _midnight(day: Any) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day)


def _whole_day(instant: dt.datetime | None) -> Any:
    if instant is None or instant.tzinfo is not None:
        return NO_CONSTANT
    return instant.date() if instant == _midnight(instant) else instant


def moment(value: Any) -> Any:
    """A number as it is, a day as a time."""
    whole = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    return _midnight(value) if whole else value
