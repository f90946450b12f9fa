"""The step that a value belongs to: DuckDB expressions that never fail.

A time belongs to the step before it, a number to the nearest one, or halfway to the one further
from 0. What is read is the distance from the first step, a BIGINT in small units: microseconds, or
halves of the last decimal that steps have. It is negative below the first step.

- Timestamps: timestamps (in UTC where they have a zone); dates as their midnights; text YYYY-MM-DD,
  alone or before hh:mm or hh:mm:ss with any decimals, and with Z or an offset such as +01:00.
- Timestamps with time zone: those; text with Z or an offset.
- Times of day: times; those of timestamps without a zone; text hh:mm or hh:mm:ss.
- Durations: intervals without months, a day being 24 hours; text such as 26:30, 26:30:00 or 1 day
  02:30:00, as PostgreSQL and DuckDB write them. What has months is no number of days, and NULL.
- Numbers: whole numbers and decimals exactly; text in decimal digits exactly, and text with an
  exponent as a double; doubles by the nearest step in double precision.

Text may have spaces around it. NaN is NULL; infinities are beyond the ends. A value is moved to
just beyond the ends before anything is computed with it, in its own type, so that nothing can
overflow.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Final

from tallyveil.policy import Attribute
from tallyveil.policy.steps import decimals

__all__ = ["distance", "moment", "step_number"]

_WHOLE: Final = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT",
})  # fmt: skip
_TEXT: Final = frozenset({"VARCHAR", "ENUM", "JSON", "UHUGEINT", "BIGNUM", '"NULL"'})
_MOMENTS: Final = frozenset({"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_NANOSECONDS: Final = ("TIMESTAMP_NS", "TIMESTAMPTZ_NS")

_CLOCK: Final = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_STAMP: Final = rf"{_DAY}([ T]{_CLOCK})?"
_OFFSET: Final = rf"{_DAY}[ T]{_CLOCK}(Z|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)"
_SPAN: Final = r"[+-]?[0-9]{1,10} days?( [+-]?[0-9]+:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?"
_HOURS: Final = r"[+-]?[0-9]{1,9}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?"
_PLAIN: Final = r"[ \t]*[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)[ \t]*"
_EXPONENT: Final = r"[ \t]*[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)[eE][+-]?[0-9]+[ \t]*"

_EPOCH: Final = dt.datetime(1970, 1, 1)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_DAY_LENGTH: Final = 86_400_000_000
_DIGITS: Final = 38  # of DuckDB's longest decimals
_SHORT: Final = 18  # of those of 64 bits
_EXACT: Final = Context(prec=100)


def distance(attribute: Attribute, name: str, column_type: str) -> str | None:
    """What is read of a column of this type; None if the type cannot be read."""
    base = column_type.split("(")[0]
    steps = _steps_of(attribute)
    if isinstance(steps, _Numbers):
        return steps.of_number(name, base, column_type)
    if isinstance(steps, _Durations):
        return steps.of_duration(name, base)
    return (steps.of_clock if attribute.sql_type == "TIME" else steps.of_moment)(name, base)


def moment(name: str, column_type: str) -> str | None:
    """An expression for microseconds, in the order of the times in a column of this type, which are
    read as timestamps are; None if it has none. Years beyond 2 to 9998 are equal."""
    years = dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31)
    return _Times(*years, dt.timedelta(days=1)).of_moment(name, column_type.split("(")[0])


def step_number(attribute: Attribute, value: str) -> tuple[str, int]:
    """An expression over what was read, and an integer: their quotient, rounded down, is the number
    of the step, from 0 on."""
    steps = _steps_of(attribute)
    if isinstance(steps, _Times | _Durations):
        return value, steps.unit
    away = f"CAST({value} < {-steps.first} AS BIGINT)"  # numbers below 0 are rounded the other way
    return f"({value} + {steps.unit // 2} - {away})", steps.unit


def _steps_of(attribute: Attribute) -> _Times | _Durations | _Numbers:
    if attribute.ends is None or attribute.step is None:
        raise ValueError(f"attribute {attribute.name} has no steps")
    if isinstance(attribute.step, Decimal):
        return _Numbers(*attribute.ends, attribute.step)
    low, high = attribute.ends
    if attribute.sql_type == "TIME":
        low, high = (dt.datetime.combine(_EPOCH, end) for end in (low, high))
    if attribute.sql_type == "INTERVAL":
        return _Durations(low, high, attribute.step)
    return _Times(low, high, attribute.step)


class _Times:
    def __init__(self, low: dt.datetime, high: dt.datetime, step: dt.timedelta) -> None:
        self._zoned = low.tzinfo is not None
        low, high = (end.replace(tzinfo=None) for end in (low, high))
        self._first, self.unit = (low - _EPOCH) // _MICROSECOND, step // _MICROSECOND
        self._below, self._above = low - step, high + step

    def of_moment(self, name: str, base: str) -> str | None:
        """Any two texts of one moment have one number, whatever the session's time zone."""
        low, high = f"{self._below}", f"{self._above}"
        if self._zoned and base not in (_ZONED, "TIMESTAMPTZ_NS", *_TEXT):
            return None
        if base in _MOMENTS:
            ends = (f"CAST(TIMESTAMP '{end}' AS {base})" for end in (low, high))
            return self._since(f"epoch_us(CAST({_moved(name, *ends)} AS TIMESTAMP))")
        if base in _NANOSECONDS:
            # Rounded down, also before 1970. DuckDB has no number for an infinity.
            infinite = f"CASE WHEN {name} > {base} '2000-01-01' THEN 1 ELSE -1 END"
            number = f"coalesce(epoch_ns({name}), {infinite} * {2**63 - 1})"
            down = self._since(f"({number} // 1000 - CAST({number} % 1000 < 0 AS BIGINT))")
            return f"CASE WHEN {name} IS NOT NULL THEN {down} END"
        if base == "DATE":
            # An end may be within a day.
            day = dt.timedelta(days=1)
            low, high = f"{(self._below - day).date()}", f"{(self._above + day).date()}"
            moved = _moved(name, f"DATE '{low}'", f"DATE '{high}'")
            return self._since(f"epoch_us(CAST({moved} AS TIMESTAMP))")
        if base == _ZONED:
            moved = _moved(name, f"TIMESTAMPTZ '{low}+00'", f"TIMESTAMPTZ '{high}+00'")
            return self._since(f"epoch_us({moved})")
        if base not in _TEXT:
            return None
        text = f"trim(CAST({name} AS VARCHAR), ' \t')"
        zoned = self.of_moment(f"TRY_CAST({text} AS TIMESTAMPTZ)", _ZONED)
        cases = f"WHEN regexp_full_match({text}, '{_OFFSET}') THEN {zoned} END"
        if self._zoned:
            return f"CASE {cases}"
        plain = self.of_moment(f"TRY_CAST({text} AS TIMESTAMP)", "TIMESTAMP")
        return f"CASE WHEN regexp_full_match({text}, '{_STAMP}') THEN {plain} {cases}"

    def of_clock(self, name: str, base: str) -> str | None:
        if base == "TIME":
            return self._since(f"epoch_us({name})")
        if base == "TIMESTAMP":
            since = f"epoch_us({name}) % {_DAY_LENGTH}"
            clock = f"CASE WHEN {since} < 0 THEN {since} + {_DAY_LENGTH} ELSE {since} END"
            return f"CASE WHEN isfinite({name}) THEN {self._since(f'({clock})')} END"
        if base not in _TEXT:
            return None
        text = f"trim(CAST({name} AS VARCHAR), ' \t')"
        number = self._since(f"epoch_us(TRY_CAST({text} AS TIME))")
        return f"CASE WHEN regexp_full_match({text}, '{_CLOCK}') THEN {number} END"

    def _since(self, microseconds: str) -> str:
        return f"({microseconds} - ({self._first}))"


class _Durations:
    def __init__(self, low: dt.timedelta, high: dt.timedelta, step: dt.timedelta) -> None:
        self._first, self.unit = low // _MICROSECOND, step // _MICROSECOND
        ends = ((end // _MICROSECOND) for end in (low - step, high + step))
        self._below, self._above = (f"INTERVAL '{end} microseconds'" for end in ends)

    def of_duration(self, name: str, base: str) -> str | None:
        if base in _TEXT:
            text = f"trim(CAST({name} AS VARCHAR), ' \t')"
            found = self.of_duration(f"TRY_CAST(replace({text}, '+', '') AS INTERVAL)", "INTERVAL")
            return f"CASE WHEN regexp_full_match({text}, '{_SPAN}|{_HOURS}') THEN {found} END"
        if base != "INTERVAL":
            return None
        # DuckDB's least and greatest do not know that a day is 24 hours; its comparisons do.
        low, high = self._below, self._above
        moved = f"CASE WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high}"
        micros = f"epoch_us({moved} ELSE {name} END) - ({self._first})"
        months = f"(date_part('year', {name}) = 0 AND date_part('month', {name}) = 0)"
        return f"CASE WHEN {months} THEN ({micros}) END"


class _Numbers:
    """Numbers in units of half of the last decimal that steps have: exact, and within 64 bits.
    ``first`` is the first step and ``unit`` the distance of two, an even number."""

    def __init__(self, low: Any, high: Any, step: Decimal) -> None:
        self._low, self._step, self._decimals = Decimal(low), step, decimals(low, step)
        self._below, self._above = self._low - step, Decimal(high) + step
        # Digits before the point of anything up to just beyond the ends.
        largest = max(abs(self._below), abs(self._above)) + 1
        self._digits = len(str(math.ceil(largest)))
        self._units = 2 * 10**self._decimals
        self.first, self.unit = int(self._low * self._units), int(step * self._units)

    def of_number(self, name: str, base: str, column_type: str) -> str | None:
        if base in _WHOLE:
            low, high = math.floor(self._below), math.ceil(self._above)
            moved = _moved(f"CAST({name} AS HUGEINT)", f"({low})", f"({high})")
            return self._since(f"CAST({moved} AS BIGINT) * {self._units}")
        if base == "DECIMAL":
            width, scale = map(int, re.findall(r"\d+", column_type))
            if self._digits + scale + self._decimals + 1 > _DIGITS:
                return self._of_text(f"CAST({name} AS VARCHAR)")
            return self._of_decimal(name, width, scale)
        if base in ("FLOAT", "DOUBLE"):
            return self._of_double(f"CAST({name} AS DOUBLE)")
        return self._of_text(f"CAST({name} AS VARCHAR)") if base in _TEXT else None

    def _of_decimal(self, value: str, width: int, scale: int) -> str:
        """DuckDB computes with decimals of up to 18 digits many times faster."""
        needed = self._digits + scale + self._decimals + 1
        quantum = Decimal(1).scaleb(-scale)
        low = self._below.quantize(quantum, ROUND_FLOOR, _EXACT)
        high = self._above.quantize(quantum, ROUND_CEILING, _EXACT)
        widest = f"DECIMAL({_SHORT if max(width, needed) <= _SHORT else _DIGITS},{scale})"
        ends = (f"CAST('{end:f}' AS {widest})" for end in (low, high))
        moved = _moved(f"CAST({value} AS {widest})", *ends)
        narrow = f"CAST({moved} AS DECIMAL({self._digits + scale},{scale}))"
        units = f"CAST({self._units} AS DECIMAL({self._decimals + 1},0))"
        return self._since(f"CAST(trunc({narrow} * {units}) AS BIGINT)")

    def _of_text(self, text: str) -> str:
        """Of long texts, digits that decide nothing are cut off first. A number with too many
        digits before the point is beyond the ends, and a double."""
        kept = self._decimals + 1
        scale = max(kept, _SHORT - self._digits - self._decimals - 1)
        width = max(_SHORT, self._digits + scale + kept)
        digits = f"regexp_extract({text}, '^[ \t]*([+-]?[0-9]*(\\.[0-9]{{0,{kept}}})?)', 1)"
        short = f"CASE WHEN strlen({text}) <= {scale} THEN {text} ELSE {digits} END"
        exact = self._of_decimal(f"TRY_CAST({short} AS DECIMAL({width},{scale}))", width, scale)
        double = self._of_double(f"TRY_CAST({text} AS DOUBLE)")
        return (
            f"CASE WHEN regexp_full_match({text}, '{_PLAIN}') THEN coalesce({exact}, {double}) "
            f"WHEN regexp_full_match({text}, '{_EXPONENT}') THEN {double} END"
        )

    def _of_double(self, value: str) -> str:
        low, step = (f"CAST('{number:f}' AS DOUBLE)" for number in (self._low, self._step))
        ends = (f"CAST('{end:f}' AS DOUBLE)" for end in (self._below, self._above))
        place = f"(({_moved(value, *ends)} - {low}) / {step})"
        nearest = f"CASE WHEN {value} < 0 THEN ceil({place} - 0.5) ELSE floor({place} + 0.5) END"
        number = f"TRY_CAST({nearest} AS BIGINT) * {self.unit}"
        return f"CASE WHEN NOT isnan({value}) THEN {number} END"

    def _since(self, units: str) -> str:
        return f"({units} - ({self.first}))"


def _moved(value: str, low: str, high: str) -> str:
    """The value, moved to the nearer end if it is beyond one; NULL for NULL."""
    return f"CASE WHEN {value} IS NOT NULL THEN least(greatest({value}, {low}), {high}) END"
