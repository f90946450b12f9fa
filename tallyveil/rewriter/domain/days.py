"""A timestamp known by its day may be compared at midnight, no more; its date may be used freely.

Within a day the cube does not know the times. In the domain relation a day stands as its midnight,
which decides ``t < c`` and ``t >= c`` rightly exactly when c is a midnight, or lies in no declared
day. ``t <= c`` and ``t = c`` tell midnight itself apart, even where c is written as a day: a
timestamp equals a day at midnight only. What depends on the date alone (a cast to date,
date_trunc to days and coarser, extract of the year) has an exact answer.

A column of text may hold dates or timestamps. Nobody knows, so it counts as days, and is refused
only what asks for a time of day.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Final, NoReturn

from sqlglot import exp

from tallyveil.errors import BinCut
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.domain.coarse import compares_with_constant, comparisons, place_of
from tallyveil.rewriter.sql.check import function_name, position
from tallyveil.rewriter.sql.instants import is_utc
from tallyveil.rewriter.sql.naming import written_name

__all__ = ["check_days"]

_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"
_UNITS: Final = frozenset(
    {
        "year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear", "decade",
        "century", "millennium", "era", "yearweek", "weekday", "dayofweek", "dayofyear",
        "weekofyear", "dayofmonth",
    }
)  # fmt: skip
_OF_THE_DATE: Final = (
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth,
    exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.LastDay,
)  # fmt: skip
_NAMED: Final = frozenset({"isfinite", "isodow", "monthname"})


def check_days(
    column: exp.Expr, attribute: Attribute, constant: Callable[[exp.Expr], Any], zone: str
) -> None:
    """Raise BinCut unless no two times of one day could be told apart.

    ``constant`` evaluates a constant expression; ``zone`` is the session's, in which PostgreSQL
    would see a timestamp with a zone.
    """
    if attribute.truncates == _WITH_ZONE and not is_utc(zone) and comparisons(column) != []:
        raise BinCut(
            f"the days of {attribute.name} are days in UTC, not in {zone}",
            hint="SET timezone = 'UTC' and ask again.",
            position=position(column),
        )
    child, parent = place_of(column)
    unit = _unit(child, parent)
    if unit is not None and unit not in _UNITS:
        _inside(attribute, column, f"the {unit} depends on the time of day")
    if unit is not None or _takes_the_date(parent):
        return
    found = comparisons(column)
    if found is None:
        if attribute.coarse:
            _inside(attribute, column, "it stands inside an expression")
        return
    for operator, other in found:
        if compares_with_constant(other):
            _meet(attribute, operator, other, column, constant)
        elif attribute.coarse:
            _inside(attribute, column, "it is compared with something that is not a constant")


def _unit(child: exp.Expr, parent: exp.Expr | None) -> str | None:
    """What extract, date_part or date_trunc takes of the column."""
    match parent:
        case exp.Extract():
            return str(parent.this.name).lower()
        case exp.TimestampTrunc() | exp.DateTrunc() if parent.this is child:
            return str(parent.args["unit"].name).lower()
    return None


def _takes_the_date(parent: exp.Expr | None) -> bool:
    if isinstance(parent, exp.Cast):
        return parent.to.this is exp.DType.DATE
    if isinstance(parent, exp.Anonymous):
        return function_name(parent) in _NAMED
    return isinstance(parent, _OF_THE_DATE)


def _meet(
    attribute: Attribute,
    operator: type[exp.Expr],
    other: exp.Expr,
    column: exp.Expr,
    constant: Callable[[exp.Expr], Any],
) -> None:
    """Whether ``attribute <operator> other`` is the same for all times of each declared day."""
    day, midnight = constant(_day_and_midnight(attribute, other))
    if day is None or not _declared(attribute, day):
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
    raise BinCut(
        f"the predicate cuts through the day {day} of {attribute.name}",
        detail=f"{_known(attribute)} {_COMPARED if attribute.coarse else ''}".strip(),
        hint=hint,
        position=position(other) or position(column),
    )


_COMPARED: Final = "A timestamp is <= or = a day at its midnight only."


def _known(attribute: Attribute) -> str:
    if attribute.coarse:
        return f"{attribute.name} is a timestamp in the source, and is counted by the day."
    return f"{attribute.name} is counted by the day."


def _day_and_midnight(attribute: Attribute, other: exp.Expr) -> exp.Expr:
    """SQL for the day of the constant as text, and whether it is that day's midnight.

    A text becomes a day in the comparison with the domain, so that its day must be the same.
    """
    kind = "timestamptz" if attribute.truncates == _WITH_ZONE else "timestamp"
    instant = exp.cast(exp.cast(other.copy(), kind), "timestamp")
    day = exp.cast(exp.cast(instant, "date"), "varchar")
    start = exp.cast(exp.cast(other.copy(), "date"), "timestamp")
    return exp.Tuple(expressions=[day, exp.EQ(this=instant.copy(), expression=start)])


def _declared(attribute: Attribute, day: str) -> bool:
    return any(isinstance(cell, dt.date) and cell.isoformat() == day for cell in attribute.cells)


def _inside(attribute: Attribute, column: exp.Expr, why: str) -> NoReturn:
    name = written_name(attribute.name)
    raise BinCut(
        f"the time of day of {attribute.name} is not known",
        detail=f"{_known(attribute)} Here {why}.",
        hint=f"Use its date: CAST({name} AS DATE); or compare it with a day by < or >=: "
        f"{name} < DATE '2020-01-31'.",
        position=position(column),
    )
