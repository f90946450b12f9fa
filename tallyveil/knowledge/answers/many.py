"""What is known about many rows at once. Rows whose noise has one law are handled together."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, TypeAlias, overload

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge.answers.answer import InRange, Known, ranged
from tallyveil.knowledge.answers.released_answer import EstimatedInterval, Released
from tallyveil.mechanisms import AnyMechanism, law_of

__all__ = [
    "Alike",
    "IntervalEnds",
    "answers_of",
    "by_law",
    "chosen",
    "extension",
    "interval_ends",
    "intervals",
    "negative",
    "raised",
    "reporting",
    "unknown",
    "variances",
]

_PORTION: Final = 1024  # rows between two checks of the deadline
# Values and half-widths up to here add up within 64 bits.
_SHORT: Final = 2**61

_Steps: TypeAlias = Sequence[int | None] | IntArray
IntervalEnds: TypeAlias = tuple[_Steps, _Steps, _Steps]
"""The values of the rows, and the lower and the upper ends of their intervals."""


@dataclass(frozen=True, eq=False)
class Alike(Sequence[Known]):
    """Rows with the same noise ``law``, whose scale is not 0. The rows numbered ``exact`` have no
    noise. ``reported``, if given, are the values to report instead."""

    values: Sequence[int]
    law: NoiseLaw
    exact: Collection[int] = frozenset()
    reported: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Known]:
        return map(self._row, range(len(self)))

    @overload
    def __getitem__(self, row: int) -> Known: ...

    @overload
    def __getitem__(self, row: slice) -> Alike: ...

    def __getitem__(self, row: int | slice) -> Known | Alike:
        places = range(len(self))[row]
        if isinstance(places, range):
            return self.take(places)
        return self._row(places)

    def _row(self, place: int) -> Known:
        one = Released(self.values[place], () if place in self.exact else (self.law,))
        return one if self.reported is None else one.reporting(self.reported[place])

    def take(self, rows: Sequence[int]) -> Alike:
        return replace(
            self,
            values=tuple(map(self.values.__getitem__, rows)),
            exact=frozenset(n for n, row in enumerate(rows) if row in self.exact),
            reported=self.reported and tuple(map(self.reported.__getitem__, rows)),
        )

    def among(self, rows: Sequence[int], exact: dict[int, int]) -> Alike:
        """Return all rows of a column: these as its ``rows``, and ``exact`` values by number."""
        values = dict(zip(rows, self.values, strict=True)) | exact
        noiseless = frozenset(exact).union(rows[n] for n in self.exact)
        return Alike([values[row] for row in range(len(values))], self.law, noiseless)

    @property
    def of_each_law(self) -> Sequence[Known]:
        """One row with noise and one exact row, if there are such rows."""
        noisy = next((n for n in range(len(self)) if n not in self.exact), None)
        return [self[n] for n in (noisy, next(iter(self.exact), None)) if n is not None]

    @property
    def variances(self) -> FloatArray:
        found = np.full(len(self), self.law.variance)
        found[list(self.exact)] = 0
        return found

    def ends(self, confidence: Fraction) -> IntervalEnds | None:
        """The ends of the rows' intervals; None if they may not fit in 64 bits."""
        half = Released.of(0, self.law).half_width(confidence)
        try:
            values = reported = np.array(self.values, dtype=np.int64)
            if self.reported is not None:
                reported = np.array(self.reported, dtype=np.int64)
        except OverflowError:
            return None
        if max(half, _size(values), _size(reported)) >= _SHORT:
            return None
        away: int | IntArray = half
        if self.exact:
            away = np.full(len(self), half)
            away[list(self.exact)] = 0
        low, high = values - away, values + away
        if reported is values:
            return values, low, high
        return reported, np.minimum(reported, low), np.maximum(reported, high)


def _size(values: IntArray) -> int:
    """The greatest absolute value."""
    return max(int(values.max()), -int(values.min()))


def answers_of(mechanism: AnyMechanism, scale: float, values: Sequence[int]) -> Sequence[Known]:
    """The answers of ``values`` that ``mechanism`` released at ``scale``."""
    law = law_of(mechanism.name, scale)
    if law is None:
        return tuple(ranged(mechanism.name, scale, value) for value in values)
    return Alike(values, law) if law.scale else tuple(map(Released, values))


def by_law(rows: Sequence[Known | None]) -> Mapping[Hashable, Known]:
    """One row for each distinct law of the errors."""
    if isinstance(rows, Alike):
        rows = rows.of_each_law
    return {row.law: row for row in rows if row is not None}


def unknown(rows: Sequence[Known | None]) -> int:
    """The number of rows about which nothing is known."""
    return 0 if isinstance(rows, Alike) else [*rows].count(None)


def chosen(rows: Sequence[Known | None], numbers: Sequence[int]) -> Sequence[Known | None]:
    """The rows with these numbers."""
    if isinstance(rows, Alike):
        return rows.take(numbers)
    return tuple(map(rows.__getitem__, numbers))


def variances(rows: Sequence[Known | None]) -> tuple[FloatArray, FloatArray]:
    """The rows' values and variances. The variance is 0 for exact rows. Both are NaN for rows that
    are not known or not additive. Each law's variance is computed once."""
    if isinstance(rows, Alike):
        return np.array(rows.values, dtype=np.float64), rows.variances
    found: dict[Hashable, float] = {}
    values, spread = np.full((2, len(rows)), np.nan)
    for number, row in enumerate(rows):
        if row is not None and row.additive:
            law = row.law
            if law not in found:
                found[law] = row.variance
            values[number], spread[number] = row.value, found[law]
    return values, spread


def reporting(
    rows: Sequence[Known | None], numbers: Sequence[int], values: Sequence[int]
) -> Sequence[Known | None]:
    """Return the rows, of which those with these numbers report ``values``."""
    if isinstance(rows, Alike):
        reported = list(rows.values if rows.reported is None else rows.reported)
        for number, value in zip(numbers, values, strict=True):
            reported[number] = value
        return replace(rows, reported=reported)
    every = list(rows)
    for number, value in zip(numbers, values, strict=True):
        row = every[number]
        every[number] = row and row.reporting(value)
    return every


def negative(rows: Sequence[Known | None]) -> list[int]:
    """The rows that report a value below 0."""
    if isinstance(rows, Alike):
        return [n for n, v in enumerate(rows.reported or rows.values) if v < 0]
    return [n for n, row in enumerate(rows) if row is not None and row.rounded < 0]


def raised(rows: Sequence[Known | None]) -> Sequence[Known | None]:
    """Return the rows, of which those that reported a value below 0 report 0."""
    below = negative(rows)
    return reporting(rows, below, [0] * len(below)) if below else rows


def intervals(rows: Sequence[Known | None], confidence: Fraction) -> IntervalEnds:
    """The rows' values and the ends of their intervals at ``confidence``; None for unknown rows."""
    if isinstance(rows, Alike) and rows:
        ends = rows.ends(confidence)
        if ends is not None:
            return ends
    halves: dict[Hashable, int] = {}
    found: list[EstimatedInterval | tuple[None, None, None]] = []
    for start in range(0, len(rows), _PORTION):
        deadline.check()
        found += (_interval(row, confidence, halves) for row in rows[start : start + _PORTION])
    return interval_ends(found)


def extension(
    rows: Sequence[Known | None], confidence: Fraction, least: int | None = None
) -> float:
    """By how many steps the intervals at ``confidence`` are extended at most to hold values that
    add up; 0 for less than one step. Intervals reach up to ``least`` in any case."""
    furthest, halves = 0.0, dict[Hashable, float]()
    if isinstance(rows, Alike) and rows.reported is None:
        return furthest
    for row in deadline.stoppable(rows):
        if row is None or isinstance(row, InRange) or row.reported is None:
            continue
        if row.law not in halves:
            halves[row.law] = row.half_width(confidence)
        low, high = row.value - halves[row.law], row.value + halves[row.law]
        high = high if least is None else max(high, least)
        furthest = max(furthest, row.reported - high, low - row.reported)
    return furthest if furthest >= 1 else 0.0


def interval_ends(rows: Sequence[tuple[int | None, int | None, int | None]]) -> IntervalEnds:
    """Collect the values, the lower and the upper ends of rows of these three."""
    values, low, high = zip(*rows, strict=True) if rows else ((), (), ())
    return values, low, high


def _interval(
    row: Known | None, confidence: Fraction, halves: dict[Hashable, int]
) -> EstimatedInterval | tuple[None, None, None]:
    """The interval of one row. ``halves`` caches the half-widths of released answers by law."""
    if not isinstance(row, Released):
        return (None, None, None) if row is None else row.interval(confidence)
    law, value, reported = row.law, row.value, row.reported
    half = halves.get(law)
    if half is None:
        half = halves[law] = row.half_width(confidence)
    if reported is None:
        return EstimatedInterval(value, value - half, value + half)
    return EstimatedInterval(reported, min(reported, value - half), max(reported, value + half))
