"""What is known of many rows at once: of those with noise of one law without looking at each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, overload

import numpy as np

from tallyveil import deadline
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge.answer import Released, released
from tallyveil.knowledge.known import Interval, Known
from tallyveil.mechanisms import AnyMechanism, law_of
from tallyveil.workload.workload import IntArray

__all__ = ["Alike", "Ends", "bought", "by_law", "chosen", "intervals", "turned", "unknown"]

# How many rows are looked at between two looks at the deadline.
_PORTION: Final = 1024
# Values and half-widths up to here add up within 64 bits.
_SHORT: Final = 2**61

_Steps: TypeAlias = Sequence[int | None] | IntArray
Ends: TypeAlias = tuple[_Steps, _Steps, _Steps]
"""Of each row the value and the lower and the upper end of its interval."""


@dataclass(frozen=True, eq=False)
class Alike(Sequence[Known]):
    """Of each row a value with noise of ``law``, which is of a scale other than 0."""

    values: Sequence[int]
    law: NoiseLaw

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Known]:
        laws = (self.law,)
        return (Released(value, laws) for value in self.values)

    @overload
    def __getitem__(self, row: int) -> Known: ...

    @overload
    def __getitem__(self, row: slice) -> Alike: ...

    def __getitem__(self, row: int | slice) -> Known | Alike:
        if isinstance(row, slice):
            return Alike(self.values[row], self.law)
        return Released.of(self.values[row], self.law)


def bought(mechanism: AnyMechanism, scale: float, values: Sequence[int]) -> Sequence[Known]:
    """What ``values`` say that ``mechanism`` released at ``scale``."""
    law = law_of(mechanism.name, scale)
    if law is not None and law.scale:
        return Alike(values, law)
    return tuple(map(released(mechanism, scale), values))


def by_law(rows: Sequence[Known | None]) -> Mapping[Hashable, Known]:
    """One of the rows of each law of error."""
    if isinstance(rows, Alike):
        rows = rows[:1]
    return {row.law: row for row in rows if row is not None}


def unknown(rows: Sequence[Known | None]) -> int:
    """How many rows nothing is known of."""
    return 0 if isinstance(rows, Alike) else sum(row is None for row in rows)


def chosen(rows: Sequence[Known | None], numbers: Sequence[int]) -> Sequence[Known | None]:
    if isinstance(rows, Alike):
        return Alike(tuple(map(rows.values.__getitem__, numbers)), rows.law)
    return tuple(map(rows.__getitem__, numbers))


def intervals(rows: Sequence[Known | None], confidence: Fraction) -> Ends:
    """Most rows have noise of their own, and many of these noise of one law."""
    if isinstance(rows, Alike) and rows:
        half = Released.of(0, rows.law).half_width(confidence)
        if max(max(rows.values), -min(rows.values), half) < _SHORT:
            values = np.array(rows.values, dtype=np.int64)
            return values, values - half, values + half
    own = [row for row in rows if isinstance(row, Released)]
    if len(own) == len(rows) > _PORTION:
        found_ends = _of_released(own, confidence)
        if found_ends is not None:
            return found_ends
    halves: dict[Hashable, int] = {}
    found: list[Interval | tuple[None, None, None]] = []
    for start in range(0, len(rows), _PORTION):
        deadline.check()
        found += (_interval(row, confidence, halves) for row in rows[start : start + _PORTION])
    return turned(found)


def _of_released(rows: Sequence[Released], confidence: Fraction) -> Ends | None:
    """With arrays; None where that takes more than 64 bits."""
    laws = [row.law for row in rows]
    by = {
        law: row.half_width(confidence) for law, row in dict(zip(laws, rows, strict=True)).items()
    }
    deadline.check()
    told = [row.value if row.reported is None else row.reported for row in rows]
    values = [row.value for row in rows]
    largest = max(max(map(abs, values)), max(map(abs, told)), max(by.values()))
    if largest >= _SHORT:
        return None
    half = np.array([by[law] for law in laws], dtype=np.int64)
    value, reported = np.array(values, dtype=np.int64), np.array(told, dtype=np.int64)
    low, high = np.minimum(reported, value - half), np.maximum(reported, value + half)
    return reported, low, high


def turned(rows: Sequence[tuple[int | None, int | None, int | None]]) -> Ends:
    """The values, the lower and the upper ends."""
    values, low, high = zip(*rows, strict=True) if rows else ((), (), ())
    return values, low, high


def _interval(
    row: Known | None, confidence: Fraction, halves: dict[Hashable, int]
) -> Interval | tuple[None, None, None]:
    """``halves`` are the half-widths of released answers, by their laws."""
    if not isinstance(row, Released):
        return (None, None, None) if row is None else row.interval(confidence)
    law, value, told = row.law, row.value, row.reported
    half = halves.get(law)
    if half is None:
        half = halves[law] = row.half_width(confidence)
    if told is None:
        return Interval(value, value - half, value + half)
    return Interval(told, min(told, value - half), max(told, value + half))
