"""What is known of many rows at once: of those with noise of one law without looking at each."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, TypeAlias, overload

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge.answers.answer import Known, released
from tallyveil.knowledge.answers.released_answer import EstimatedInterval, Released, variance_of
from tallyveil.mechanisms import AnyMechanism, law_of

__all__ = [
    "Alike",
    "IntervalEnds",
    "bought",
    "by_law",
    "chosen",
    "intervals",
    "reporting",
    "turned",
    "unknown",
    "variances",
]

# How many rows are looked at between two looks at the deadline.
_PORTION: Final = 1024
# Values and half-widths up to here add up within 64 bits.
_SHORT: Final = 2**61

_Steps: TypeAlias = Sequence[int | None] | IntArray
IntervalEnds: TypeAlias = tuple[_Steps, _Steps, _Steps]
"""Of each row the value and the lower and the upper end of its interval."""


@dataclass(frozen=True, eq=False)
class Alike(Sequence[Known]):
    """Of each row a value with noise of ``law``, which is of a scale other than 0; those of the
    numbers ``exact`` have none. ``reported`` are the values that are reported instead."""

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
        """As the ``rows`` of these numbers beside exact values by number."""
        values = dict(zip(rows, self.values, strict=True)) | exact
        silent = frozenset(exact).union(rows[n] for n in self.exact)
        return Alike([values[row] for row in range(len(values))], self.law, silent)

    @property
    def of_each_law(self) -> Sequence[Known]:
        """One row with noise, and one that is exact, as far as there are any."""
        noisy = next((n for n in range(len(self)) if n not in self.exact), None)
        return [self[n] for n in (noisy, next(iter(self.exact), None)) if n is not None]

    @property
    def variances(self) -> FloatArray:
        found = np.full(len(self), variance_of(self.law))
        found[list(self.exact)] = 0
        return found

    def ends(self, confidence: Fraction) -> IntervalEnds | None:
        """Of the rows' intervals; None if they take more than 64 bits."""
        half = Released.of(0, self.law).half_width(confidence)
        try:
            values = told = np.array(self.values, dtype=np.int64)
            if self.reported is not None:
                told = np.array(self.reported, dtype=np.int64)
        except OverflowError:
            return None
        if max(half, _size(values), _size(told)) >= _SHORT:
            return None
        away: int | IntArray = half
        if self.exact:
            away = np.full(len(self), half)
            away[list(self.exact)] = 0
        low, high = values - away, values + away
        if told is values:
            return values, low, high
        return told, np.minimum(told, low), np.maximum(told, high)


def _size(values: IntArray) -> int:
    """The greatest absolute value."""
    return max(int(values.max()), -int(values.min()))


def bought(mechanism: AnyMechanism, scale: float, values: Sequence[int]) -> Sequence[Known]:
    """What ``values`` say that ``mechanism`` released at ``scale``."""
    law = law_of(mechanism.name, scale)
    if law is not None and law.scale:
        return Alike(values, law)
    return tuple(map(released(mechanism, scale), values))


def by_law(rows: Sequence[Known | None]) -> Mapping[Hashable, Known]:
    """One of the rows of each law of error."""
    if isinstance(rows, Alike):
        rows = rows.of_each_law
    return {row.law: row for row in rows if row is not None}


def unknown(rows: Sequence[Known | None]) -> int:
    """How many rows nothing is known of."""
    return 0 if isinstance(rows, Alike) else sum(row is None for row in rows)


def chosen(rows: Sequence[Known | None], numbers: Sequence[int]) -> Sequence[Known | None]:
    if isinstance(rows, Alike):
        return rows.take(numbers)
    return tuple(map(rows.__getitem__, numbers))


def variances(rows: Sequence[Known | None]) -> tuple[FloatArray, FloatArray]:
    """The rows' values and variances: 0 of what is exact, and NaN of what is not known, or does
    not add up. Each law is looked at once."""
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
    """With ``values`` reported of the rows of these numbers, which are known."""
    if isinstance(rows, Alike):
        told = list(rows.values if rows.reported is None else rows.reported)
        for number, value in zip(numbers, values, strict=True):
            told[number] = value
        return replace(rows, reported=told)
    every = list(rows)
    for number, value in zip(numbers, values, strict=True):
        row = every[number]
        every[number] = row and row.reporting(value)
    return every


def intervals(rows: Sequence[Known | None], confidence: Fraction) -> IntervalEnds:
    """Most rows have noise of their own, and many of these noise of one law."""
    if isinstance(rows, Alike) and rows:
        ends = rows.ends(confidence)
        if ends is not None:
            return ends
    halves: dict[Hashable, int] = {}
    found: list[EstimatedInterval | tuple[None, None, None]] = []
    for start in range(0, len(rows), _PORTION):
        deadline.check()
        found += (_interval(row, confidence, halves) for row in rows[start : start + _PORTION])
    return turned(found)


def turned(rows: Sequence[tuple[int | None, int | None, int | None]]) -> IntervalEnds:
    """The values, the lower and the upper ends."""
    values, low, high = zip(*rows, strict=True) if rows else ((), (), ())
    return values, low, high


def _interval(
    row: Known | None, confidence: Fraction, halves: dict[Hashable, int]
) -> EstimatedInterval | tuple[None, None, None]:
    """``halves`` are the half-widths of released answers, by their laws."""
    if not isinstance(row, Released):
        return (None, None, None) if row is None else row.interval(confidence)
    law, value, told = row.law, row.value, row.reported
    half = halves.get(law)
    if half is None:
        half = halves[law] = row.half_width(confidence)
    if told is None:
        return EstimatedInterval(value, value - half, value + half)
    return EstimatedInterval(told, min(told, value - half), max(told, value + half))
