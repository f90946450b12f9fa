"""Ranges in steps: times every so many seconds, and numbers every so much.

The cells are the values low, low + step, … up to high. A time is cut to the step before it. A
number is rounded to the nearest multiple of the step, halves away from zero. Then it is within the
range or not.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate, repeat
from typing import Any, Final

from tallyveil.interval import Interval
from tallyveil.policy.declaration import wrong
from tallyveil.policy.domain import Step, shown
from tallyveil.policy.value_checks import MAX_CELLS, exact_number

__all__ = [
    "as_instant", "decimal_type", "decimals", "duration_of", "is_time", "number_of",
    "range_mistake", "step_of", "stepped_cells",
]  # fmt: skip

MAX_DECIMALS: Final = 6
MAX_DAYS: Final = 10_000_000  # of a duration: microseconds fit in 64 bits
MAX_DIGITS: Final = 15  # of an end, in units of its last decimal; doubles tell these apart

_ROUNDING: Final = (
    "in a sum its rounding is far below the noise, whose scale is the largest value / epsilon"
)
_EXPECTED: Final = 'a number such as 0.01, or a text such as "15 minutes", "30 seconds", "1 hour"'
_TEXT: Final = re.compile(r"([1-9][0-9]{0,5}) (second|minute|hour)s?")


def step_of(value: Any) -> Step:
    """Check the step of a range."""
    if isinstance(value, str):
        found = _TEXT.fullmatch(value)
        if found is None:
            raise wrong(f"expected {_EXPECTED}")
        return dt.timedelta(**{f"{found[2]}s": int(found[1])})
    number = number_of(value)
    if number is None or number <= 0:
        raise wrong(f"expected {_EXPECTED}, above 0 and with at most {MAX_DECIMALS} decimals")
    return number


def number_of(value: Any) -> Decimal | None:
    """The number without trailing zeros; None for one that no cell can have."""
    if exact_number(value) is None:
        return None
    found = Decimal(repr(value) if isinstance(value, float) else value)
    found = found.normalize() if found else Decimal(0)
    exponent = found.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -MAX_DECIMALS or found.adjusted() > MAX_DIGITS:
        return None
    return found


def as_instant(value: Any) -> Any:
    """A timestamp with an offset in UTC; anything else unchanged, as one beyond Python's years."""
    try:
        zoned = isinstance(value, dt.datetime) and value.tzinfo is not None
        return value.astimezone(dt.UTC) if zoned else value
    except OverflowError:
        return value


def is_time(value: Any) -> bool:
    """Whether it is a timestamp, a time of day without a zone, or a duration, in whole seconds."""
    if isinstance(value, dt.timedelta):
        return not value.microseconds and abs(value.days) < MAX_DAYS
    timed = isinstance(value, dt.datetime) or (isinstance(value, dt.time) and not value.tzinfo)
    return timed and not value.microsecond


def duration_of(value: Any) -> Any:
    """A text such as "72 hours" as a duration; anything else unchanged."""
    try:
        found = Interval.parse(value) if isinstance(value, str) else None
    except ValueError:
        return value
    if found is not None and found.months:
        raise wrong("expected durations in days or less: a month or year is no number of days")
    return value if found is None else found.timedelta()


def range_mistake(ends: Sequence[Any], step: Step | None) -> str | None:
    """What is wrong with a range and its step together, or None."""
    low, high = ends
    days = isinstance(low, dt.date) and not isinstance(low, dt.datetime)
    if step is None:
        if is_time(low):
            return 'expected a step too, such as step = "15 minutes"'
        if isinstance(low, Decimal):
            return "expected two whole numbers or two dates; numbers with decimals need a step"
        if days:
            return _many((high - low).days + 1, "declare fewer days")
        return _many(high - low + 1, f"declare bins or a step; {_ROUNDING}")
    if days:
        return "expected no step: a range of dates has a cell for every day"
    if is_time(low) is not isinstance(step, dt.timedelta):
        kind = 'a text such as "15 minutes"' if is_time(low) else "a number such as 0.01"
        return f"expected ends and a step of one kind: here {kind} as the step"
    if isinstance(low, dt.datetime) and not (low.year > 1 and high.year < 9999):
        return "expected years from 2 to 9998"
    if isinstance(step, Decimal) and _digits(step, *ends) > MAX_DIGITS:
        return f"expected ends of at most {MAX_DIGITS} digits, with as many decimals as the step"
    if isinstance(step, Decimal) and any(end % step for end in ends):
        return f"expected ends that are multiples of the step, {step:f}"
    steps, rest = divmod(_distance(low, high), step)
    if rest:
        last = stepped_cells(low, high, step)[-1] if steps < MAX_CELLS else None
        near = "" if last is None else f"; the last step is at {shown(last)}"
        return f"expected a range of whole steps{near}"
    instead = f"; {_ROUNDING}" if isinstance(step, Decimal) else ""
    return _many(int(steps) + 1, f"declare a larger step{instead}")


def _many(cells: int, instead: str) -> str | None:
    if cells <= MAX_CELLS:
        return None
    return f"expected at most {MAX_CELLS:,} cells, found {cells:,}; {instead}"


def _digits(*numbers: Any) -> int:
    scale = decimals(*numbers)
    return max(len(str(abs(int(Decimal(one).scaleb(scale))))) for one in numbers)


def decimals(*numbers: Any) -> int:
    """The number of digits after the point that the numbers need."""
    exponents = (Decimal(one).as_tuple().exponent for one in numbers)
    return max(0, *(-e for e in exponents if isinstance(e, int)))


def _distance(low: Any, high: Any) -> Any:
    if isinstance(low, dt.time):
        return _at(high) - _at(low)
    return high - low


def _at(time: dt.time) -> dt.datetime:
    return dt.datetime.combine(dt.date.min, time)


def stepped_cells(low: Any, high: Any, step: Step) -> tuple[Any, ...]:
    """The values of the cells: times, integers, or decimals of as many digits as the ends and the
    step need."""
    count = int(_distance(low, high) // step) + 1
    if isinstance(step, dt.timedelta):
        first = _at(low) if isinstance(low, dt.time) else low
        moments = accumulate(repeat(step, count - 1), initial=first)
        return tuple(m.time() for m in moments) if isinstance(low, dt.time) else tuple(moments)
    scale = decimals(low, step)
    start, unit = (int(Decimal(one).scaleb(scale)) for one in (low, step))
    units = range(start, start + count * unit, unit)
    if not scale:
        return tuple(units)
    return tuple(Decimal(one).scaleb(-scale) for one in units)


def decimal_type(cells: Sequence[Any]) -> str:
    """DuckDB's type of decimals with the digits of the cells."""
    return f"DECIMAL(18,{decimals(cells[0])})"
