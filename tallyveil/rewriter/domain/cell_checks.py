"""Check uses of a column whose cells hold many values of the source: bins and days.

An expression that could distinguish two values of a cell is refused. A cell as a whole may be a
group key, tested for NULL, counted, and compared with a constant that cuts through no cell. Bins
that are represented by declared values may be computed with as well.

The domain relation represents a bin ``[a, b)`` by its lower edge. That gives ``x < c`` and
``x >= c`` the right result exactly when c is an edge or lies outside all bins.

A timestamp known by its day may be compared at midnight only; its date may be used freely. The
domain relation represents a day by its midnight. That gives ``t < c`` and ``t >= c`` the right
result exactly when c is a midnight, or lies in no declared day. ``t <= c`` and ``t = c``
distinguish midnight itself, even if c is written as a day: a timestamp equals a day at midnight
only. Anything that depends on the date alone (a cast to date, date_trunc to days and coarser,
extract of the year) is exact. A column of text may hold dates or timestamps. It counts as days, and
only uses of a time of day are refused. `step_checks`
has values that are rounded.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from tallyveil.errors import BinCut
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.domain.column_uses import (
    Constant,
    compares_with_constant,
    comparisons,
    standing_in,
)
from tallyveil.rewriter.domain.step_checks import check_prefix, check_steps
from tallyveil.rewriter.resolve.record_queries import OUTER
from tallyveil.rewriter.sql.naming import written_name
from tallyveil.rewriter.sql.nodes import function_name, position, visit
from tallyveil.rewriter.sql.time_zones import is_utc

__all__ = ["check_cells"]

_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"
_UNITS: Final = frozenset({
    "year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear", "decade",
    "century", "millennium", "era", "yearweek", "weekday", "dayofweek", "dayofyear", "weekofyear",
    "dayofmonth",
})  # fmt: skip
_OF_THE_DATE: Final = (
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth,
    exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.LastDay,
)  # fmt: skip
_NAMED: Final = frozenset({"isfinite", "isodow", "monthname"})


def check_cells(column: exp.Expr, attribute: Attribute, constant: Constant, zone: str) -> None:
    """Raise BinCut if the expression around the column cuts through a cell.

    ``constant`` evaluates a constant expression. ``zone`` is the session's time zone, in which
    PostgreSQL shows a timestamp with time zone.
    """
    if attribute.binned:
        visit([column], lambda node: _check_bins(node, attribute, constant))
    elif attribute.prefix is not None:
        visit([column], lambda node: check_prefix(node, attribute, constant))
    elif attribute.step is not None:
        visit([column], lambda node: check_steps(node, attribute, constant, zone))
    elif attribute.truncates:
        visit([column], lambda node: _check_days(node, attribute, constant, zone))


def _check_bins(column: exp.Expr, attribute: Attribute, constant: Constant) -> None:
    found = comparisons(column)
    if found is None and attribute.represented:
        return
    if found is None:
        place = "a subquery" if column.meta_get(OUTER) else "an expression"
        raise _cut(attribute, f"it is used inside {place}")
    for operator, other in found:
        if not compares_with_constant(other):
            if attribute.represented:
                continue
            raise _cut(attribute, "it is compared with something that is not a constant")
        _check_edge(attribute, operator, constant(other))


def _check_edge(attribute: Attribute, kind: type[exp.Expr], value: Any) -> None:
    """Raise BinCut unless ``attribute <kind> value`` is the same for all values of a bin."""
    if value is None:
        return  # NULL for every value
    edges = attribute.edges or ()
    number = _number(attribute, value)
    if number < edges[0] or number >= edges[-1] or (kind is exp.GTE and number == edges[0]):
        return
    if kind in (exp.LT, exp.GTE) and number in edges:
        return
    if number in edges:
        raise _cut(attribute, f"at the edge {value}, only < {value} and >= {value} are exact")
    below = max(e for e in edges if e <= number)
    above = min(e for e in edges if e > number)
    hint = f"The nearest edges are {below} and {above}: use {{}} < or >= one."
    raise _cut(attribute, f"{value} lies inside the bin [{below}, {above})", hint)


def _number(attribute: Attribute, value: Any) -> int | float | Decimal:
    """The constant to compare with the edges: exact, or a double for an attribute of doubles."""
    number: int | float | Decimal | None = None
    if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool):
        try:
            number = float(value) if attribute.sql_type == "DOUBLE" else Decimal(value)
        except (ValueError, InvalidOperation):
            number = None
    if number is None:
        raise _cut(attribute, "it is compared with something that is not a number")
    if math.isnan(number):
        raise _cut(attribute, "it is compared with NaN")
    return number


def _cut(attribute: Attribute, why: str, hint: str | None = None) -> BinCut:
    """``hint`` has a placeholder for the attribute's name."""
    edges = ", ".join(map(str, attribute.edges or ()))
    hint = hint or f"Compare {{}} with an edge by < or >=: its edges are {edges}."
    return BinCut(
        f"the predicate cuts through a bin of {attribute.name}",
        detail=f"{attribute.name} is known only by bins [a, b): {why}.",
        hint=hint.format(written_name(attribute.name)),
    )


def _check_days(column: exp.Expr, attribute: Attribute, constant: Constant, zone: str) -> None:
    """Raise BinCut if the expression could distinguish two times of one day."""
    found = comparisons(column)
    if attribute.truncates == _WITH_ZONE and not is_utc(zone) and found != []:
        raise BinCut(
            f"the days of {attribute.name} are days in UTC, not in {zone}",
            hint="SET timezone = 'UTC' and ask again.",
        )
    child, parent = standing_in(column)
    unit = _unit(child, parent)
    if unit is not None and unit not in _UNITS:
        raise _inside(attribute, f"the {unit} depends on the time of day")
    if unit is not None or _takes_the_date(parent):
        return
    if found is None and attribute.coarse:
        raise _inside(attribute, "it is used inside an expression")
    for operator, other in found or ():
        if compares_with_constant(other):
            _check_midnight(attribute, operator, other, constant)
        elif attribute.coarse:
            raise _inside(attribute, "it is compared with something that is not a constant")


def _unit(child: exp.Expr, parent: exp.Expr | None) -> str | None:
    """The unit that extract, date_part or date_trunc takes from the column, or None."""
    match parent:
        case exp.Extract():
            return str(parent.this.name).lower()
        case exp.Hour() | exp.Minute():
            return type(parent).__name__.lower()
        case exp.TimestampTrunc() | exp.DateTrunc() if parent.this is child:
            return str(parent.args["unit"].name).lower()
    return None


def _takes_the_date(parent: exp.Expr | None) -> bool:
    if isinstance(parent, exp.Cast):
        return parent.to.this is exp.DType.DATE
    if isinstance(parent, exp.Anonymous):
        return function_name(parent) in _NAMED
    return isinstance(parent, _OF_THE_DATE)


def _check_midnight(
    attribute: Attribute, operator: type[exp.Expr], other: exp.Expr, constant: Constant
) -> None:
    """Raise BinCut unless ``attribute <operator> other`` is the same throughout each day."""
    day, midnight = constant(_day_and_midnight(attribute, other))
    days = (cell.isoformat() for cell in attribute.cells if isinstance(cell, dt.date))
    if day is None or day not in days:
        return
    if midnight and (not attribute.coarse or operator in (exp.LT, exp.GTE)):
        return
    name = written_name(attribute.name)
    first = f"DATE '{day}'"
    after = f"DATE '{dt.date.fromisoformat(day) + dt.timedelta(days=1)}'"
    match operator:
        case exp.LT | exp.LTE:
            hint = f"Write {name} < {after} with the day, or {name} < {first} without it."
        case exp.GT | exp.GTE:
            hint = f"Write {name} >= {first} with the day, or {name} >= {after} without it."
        case _:
            hint = f"Write {name} >= {first} AND {name} < {after} for the day."
    compared = " A timestamp is <= or = a day at its midnight only." if attribute.coarse else ""
    raise BinCut(
        f"the predicate cuts through the day {day} of {attribute.name}",
        detail=_known(attribute) + compared,
        hint=hint,
        position=position(other),
    )


def _known(attribute: Attribute) -> str:
    if attribute.coarse:
        return f"{attribute.name} is a timestamp in the source, and is counted by the day."
    return f"{attribute.name} is counted by the day."


def _day_and_midnight(attribute: Attribute, other: exp.Expr) -> exp.Expr:
    """SQL for the day of the constant as text, and whether it is that day's midnight.

    The comparison with the domain casts a text to a day, so it must give the same day.
    """
    kind = "timestamptz" if attribute.truncates == _WITH_ZONE else "timestamp"
    instant = exp.cast(exp.cast(other.copy(), kind), "timestamp")
    day = exp.cast(exp.cast(instant, "date"), "varchar")
    start = exp.cast(exp.cast(other.copy(), "date"), "timestamp")
    return exp.Tuple(expressions=[day, exp.EQ(this=instant.copy(), expression=start)])


def _inside(attribute: Attribute, why: str) -> BinCut:
    name = written_name(attribute.name)
    return BinCut(
        f"the time of day of {attribute.name} is not known",
        detail=f"{_known(attribute)} Here {why}.",
        hint=f"Use its date: CAST({name} AS DATE); or compare it with a day by < or >=: "
        f"{name} < DATE '2020-01-31'.",
    )
