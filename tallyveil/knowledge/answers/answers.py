"""What is known about the rows of a column, in arrays, with a table of the laws of their errors.

What depends on the law of an error alone is computed once for all rows that have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar, overload

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.cache import cached_property
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge.answers.errors import EXACT, Error, EstimateError, NoiseSum
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.knowledge.answers.known import DIGITS, Known
from tallyveil.mechanisms import AnyMechanism, law_of

__all__ = ["Answers", "IntervalEnds", "interval_ends"]

_PORTION: Final = 1024  # rows between two checks of the deadline
# Values and half-widths up to here add up within 64 bits.
_SHORT: Final = 2**61

T = TypeVar("T")

_Steps: TypeAlias = Sequence[int | None] | IntArray
IntervalEnds: TypeAlias = tuple[_Steps, _Steps, _Steps]
"""The values of the rows, and the lower and the upper ends of their intervals."""


@dataclass(frozen=True, eq=False)
class Answers(Sequence[Known | None]):
    """The rows of a column, each by itself as a sequence; None for a row that is not known.

    Row i has the error ``errors[of[i]]``, or is not known if ``of[i]`` = −1. ``released`` are
    integers of any size. If any rows are estimated, ``estimates`` has an estimate for each of them,
    beside which what was released is often 0. If any ``reported`` values are given, they replace
    the nearest integers (`Known`).
    """

    errors: tuple[Error, ...]
    of: IntArray
    released: Sequence[int]
    estimates: Sequence[Estimate | None] = ()
    reported: Sequence[int | None] = ()

    @classmethod
    def unknown(cls, height: int) -> Answers:
        """Rows of which nothing is known."""
        return cls((), np.full(height, -1, dtype=np.int64), (0,) * height)

    @classmethod
    def exact(cls, values: Mapping[int, int], height: int) -> Answers:
        """Exact rows by number."""
        rows = sorted(values)
        own = cls.with_noise([values[row] for row in rows])
        return own.among(height, np.array(rows, dtype=np.int64))

    @classmethod
    def with_noise(cls, values: Sequence[int], law: NoiseLaw | None = None) -> Answers:
        """Rows with independent noise of one law; without a law they are exact."""
        error = EXACT if law is None else NoiseSum.of(law)
        return cls((error,), np.zeros(len(values), dtype=np.int64), values)

    @classmethod
    def released_by(cls, mechanism: AnyMechanism, scale: float, values: Sequence[int]) -> Answers:
        """Rows with the ``values`` that a mechanism released at this scale."""
        law = law_of(mechanism.name, scale)
        if law is None:
            return cls.listed(Known.in_range(mechanism.name, scale, value) for value in values)
        return cls.with_noise(values, law)

    @classmethod
    def estimated(cls, estimates: Sequence[Estimate | None]) -> Answers:
        """Rows with these estimates. Rows that share weights share the law of their errors."""
        places: dict[int, int] = {}
        errors, of = list[Error](), list[int]()
        for one in estimates:
            if one is None:
                of.append(-1)
                continue
            law = id(one.weights)
            if law not in places:
                places[law] = len(errors)
                errors.append(EstimateError(one.weights))
            of.append(places[law])
        zeros = (0,) * len(estimates)
        return cls(tuple(errors), np.array(of, dtype=np.int64), zeros, estimates)

    @classmethod
    def listed(cls, rows: Iterable[Known | None]) -> Answers:
        """The rows, given one by one."""
        if isinstance(rows, Answers):
            return rows
        every = tuple(rows)
        places: dict[Hashable, int] = {}
        errors, of = list[Error](), np.full(len(every), -1, dtype=np.int64)
        for number, row in enumerate(deadline.stoppable(every)):
            if row is not None:
                key = row.error.key
                if key not in places:
                    places[key] = len(errors)
                    errors.append(row.error)
                of[number] = places[key]
        estimates = [None if row is None else row.estimate for row in every]
        reported = [None if row is None else row.reported for row in every]
        return cls(
            tuple(errors),
            of,
            [0 if row is None else row.released for row in every],
            estimates if any(estimates) else (),
            () if reported.count(None) == len(reported) else reported,
        )

    @classmethod
    def assembled(cls, height: int, parts: Iterable[tuple[IntArray, Answers]]) -> Answers:
        """The rows of a column, given in parts with the numbers of their rows. Rows in no part are
        not known."""
        errors, of = list[Error](), np.full(height, -1, dtype=np.int64)
        values, estimates = [0] * height, list[Estimate | None](_nothing(height))
        for rows, part in parts:
            of[rows] = np.where(part.of < 0, -1, part.of + len(errors))
            errors += part.errors
            numbers = rows.tolist()
            for row, value in zip(numbers, part.released, strict=True):
                values[row] = value
            for row, one in zip(numbers, part.estimates, strict=False):
                estimates[row] = one
        return cls(tuple(errors), of, values, estimates if any(estimates) else ())

    def __len__(self) -> int:
        return len(self.of)

    def __iter__(self) -> Iterator[Known | None]:
        return map(self._row, range(len(self)))

    @overload
    def __getitem__(self, row: int) -> Known | None: ...

    @overload
    def __getitem__(self, row: slice) -> Answers: ...

    def __getitem__(self, row: int | slice) -> Known | Answers | None:
        places = range(len(self))[row]
        return self.take(places) if isinstance(places, range) else self._row(places)

    def _row(self, place: int) -> Known | None:
        error = self._error(int(self.of[place]))
        if error is None:
            return None
        released, reported = self.released[place], self.reported[place] if self.reported else None
        estimate = self.estimates[place] if self.estimates else None
        if estimate is None and reported == released:
            reported = None
        return Known(error, released, estimate, reported)

    def _error(self, place: int) -> Error | None:
        return None if place < 0 else self.errors[place]

    @cached_property
    def row_estimates(self) -> Sequence[Estimate | None]:
        """The estimate of each row, if it has one."""
        return self.estimates or _nothing(len(self))

    @cached_property
    def _used(self) -> list[int]:
        """The places of the errors that rows have."""
        return sorted({*self.of.tolist()} - {-1})

    @cached_property
    def used_errors(self) -> list[Error]:
        """The errors that rows have."""
        return [self.errors[place] for place in self._used]

    @cached_property
    def known(self) -> BoolArray:
        """Which rows are known."""
        found: BoolArray = self.of >= 0
        return found

    @property
    def known_rows(self) -> int:
        """The number of known rows."""
        return int(np.count_nonzero(self.known))

    @property
    def whole(self) -> bool:
        """Whether all rows are known."""
        return bool(self.known.all())

    @property
    def all_exact(self) -> bool:
        """Whether all rows are known exactly."""
        return self.whole and all(error.exact for error in self.used_errors)

    @property
    def one_law(self) -> NoiseLaw | None:
        """The law of all rows' noise, if all were released with one."""
        if not (self._all_released and len(self.used_errors) == 1):
            return None
        (error,) = self.used_errors
        return error.laws[0] if isinstance(error, NoiseSum) and len(error.laws) == 1 else None

    @property
    def of_one_noise(self) -> bool:
        """Whether all rows were released, those that are not exact with noise of one law."""
        noisy = [error for error in self.used_errors if not error.exact]
        return len(noisy) == 1 and self._all_released

    @property
    def _all_released(self) -> bool:
        """Whether all rows are known as they were released, not estimated or in a range."""
        return self.whole and all(isinstance(error, NoiseSum) for error in self.used_errors)

    def by_error(self, result: Callable[[Error], T]) -> list[T | None]:
        """For each row a result that depends on its error alone; None for rows not known."""
        table = self._table(result)
        return [table[place] for place in self.of.tolist()]

    def _table(self, result: Callable[[Error], T]) -> list[T | None]:
        """The result for each error that rows have. The last entry, which is None, is that of the
        place −1."""
        table: list[T | None] = [None] * (len(self.errors) + 1)
        for place in self._used:
            table[place] = result(self.errors[place])
        return table

    def holds(self, test: Callable[[Error], bool]) -> BoolArray:
        """For which known rows a test of their errors holds."""
        found: BoolArray = np.array([bool(one) for one in self._table(test)])[self.of]
        return found

    def preferred(
        self, others: Answers, prefers: Callable[[Error | None, Error | None], bool]
    ) -> BoolArray:
        """For which rows the others are preferred, by the errors of both alone. None stands for
        the error of a row that is not known."""
        number = len(others.errors) + 1
        pairs = (self.of + 1) * number + (others.of + 1)
        if (pairs == pairs[:1]).all():
            kinds, which = pairs[:1], np.zeros(len(pairs), dtype=np.int64)
        else:
            kinds, which = np.unique(pairs, return_inverse=True)
        found = [
            prefers(self._error(pair // number - 1), others._error(pair % number - 1))
            for pair in deadline.stoppable(kinds.tolist())
        ]
        return np.array(found, dtype=np.bool_)[which.ravel()]

    def take(self, rows: Sequence[int]) -> Answers:
        """The rows with these numbers."""
        return replace(
            self,
            of=self.of[np.asarray(rows, dtype=np.int64)],
            released=tuple(map(self.released.__getitem__, rows)),
            estimates=self.estimates and tuple(map(self.estimates.__getitem__, rows)),
            reported=self.reported and tuple(map(self.reported.__getitem__, rows)),
        )

    def among(self, height: int, rows: IntArray) -> Answers:
        """All rows of a column of this height, of which these have the ascending numbers ``rows``
        and the others are not known."""
        return self if len(rows) == height else self.assembled(height, [(rows, self)])

    def where(self, which: BoolArray, others: Answers) -> Answers:
        """These rows, those of ``which`` replaced by the others' rows."""
        if not which.any():
            return self
        if which.all():
            return others
        chosen, height = which.tolist(), len(self)

        def mixed(own: Sequence[T], other: Sequence[T]) -> list[T]:
            return [b if put else a for put, a, b in zip(chosen, own, other, strict=True)]

        nothing = _nothing(height)
        before, now = self.reported or nothing, others.reported or nothing
        return Answers(
            self.errors + others.errors,
            np.where(which, np.where(others.known, others.of + len(self.errors), -1), self.of),
            mixed(self.released, others.released),
            mixed(self.row_estimates, others.row_estimates)
            if self.estimates or others.estimates
            else (),
            mixed(before, now) if self.reported or others.reported else (),
        )

    def reporting(self, rows: Sequence[int], values: Sequence[int]) -> Answers:
        """These rows, of which those with these numbers report ``values``."""
        reported = [*(self.reported or _nothing(len(self)))]
        for row, value in zip(rows, values, strict=True):
            reported[row] = value
        return replace(self, reported=reported)

    @property
    def raised(self) -> Answers:
        """These rows, of which those that report a value below 0 report 0 instead."""
        below = self.negative
        return self.reporting(below, [0] * len(below)) if below else self

    @property
    def negative(self) -> list[int]:
        """The numbers of the rows that report a value below 0."""
        known = zip(self.rounded, self.of.tolist(), strict=True)
        return [row for row, (value, place) in enumerate(known) if value < 0 <= place]

    @property
    def rounded(self) -> Sequence[int]:
        """The integers to report; any for rows that are not known."""
        found = self.released
        if self.estimates:
            each = zip(self.released, self.estimates, strict=True)
            found = [
                own if one is None else own + round(round(one.value, DIGITS)) for own, one in each
            ]
        if self.reported:
            each_reported = zip(found, self.reported, strict=True)
            found = [own if other is None else other for own, other in each_reported]
        return found

    @property
    def settled(self) -> list[float]:
        """The values before they are rounded, without the last digits of estimates; NaN for rows
        that are not known."""
        each = zip(self.of.tolist(), self.released, self.row_estimates, strict=True)
        return [
            math.nan if place < 0 else float(own) if one is None else own + round(one.value, DIGITS)
            for place, own, one in each
        ]

    @property
    def variances(self) -> tuple[FloatArray, FloatArray]:
        """The rows' values and variances. Both are NaN for rows that are not known, or whose errors
        are not additive."""
        table = self._table(lambda error: error.variance if error.additive else None)
        spread = np.array([np.nan if one is None else one for one in table])[self.of]
        values = np.where(np.isnan(spread), np.nan, np.array(self._means, dtype=np.float64))
        return values, spread

    @property
    def _means(self) -> Sequence[float]:
        """The values before they are rounded."""
        if not self.estimates:
            return self.released
        each = zip(self.released, self.estimates, strict=True)
        return [own if one is None else own + one.value for own, one in each]

    def intervals(self, confidence: Fraction) -> IntervalEnds:
        """The rows' values and the ends of their intervals at ``confidence``; None for rows that
        are not known."""
        return self._in_64_bits(confidence) or self._one_by_one(confidence)

    def _in_64_bits(self, confidence: Fraction) -> IntervalEnds | None:
        """As `intervals`; None unless all rows were released, and the ends fit for certain."""
        if not (len(self) and self._all_released):
            return None
        table = [one or 0 for one in self._table(lambda error: error.half_width(confidence))]
        if max(table) >= _SHORT:
            return None
        try:
            values = reported = np.array(self.released, dtype=np.int64)
            if self.reported:
                reported = np.array(self.rounded, dtype=np.int64)
        except OverflowError:
            return None
        if max(_size(values), _size(reported)) >= _SHORT:
            return None
        half = np.array(table, dtype=np.int64)[self.of]
        low, high = values - half, values + half
        if reported is values:
            return values, low, high
        return reported, np.minimum(reported, low), np.maximum(reported, high)

    def _one_by_one(self, confidence: Fraction) -> IntervalEnds:
        """As `intervals`, in Python's integers."""
        table = self._table(lambda error: error.reach(confidence))
        every = zip(self.of.tolist(), self.released, self.row_estimates, self.rounded, strict=True)
        found = list[tuple[int | None, int | None, int | None]]()
        for row, (place, value, estimate, reported) in enumerate(every):
            if not row % _PORTION:
                deadline.check()
            reach = table[place]
            if reach is None:
                found.append((None, None, None))
                continue
            below, width = reach
            low = value - below
            if estimate is not None:
                settled = round(estimate.value, DIGITS)
                nearest = round(settled)
                low += nearest - (width & (settled < nearest))
            found.append((reported, min(reported, low), max(reported, low + width)))
        return interval_ends(found)

    def extension(self, confidence: Fraction, least: int | None = None) -> float:
        """By how many steps the intervals at ``confidence`` are extended at most to hold values
        that add up; 0 for less than one step. Intervals reach up to ``least`` in any case."""
        if not self.reported:
            return 0.0
        furthest = 0.0
        halves = self._table(lambda error: error.half_width(confidence) if error.additive else None)
        every = zip(self.of.tolist(), self._means, self.reported, strict=True)
        for row, (place, mean, reported) in enumerate(every):
            if not row % _PORTION:
                deadline.check()
            half = halves[place]
            if half is None or reported is None:
                continue
            high = mean + half if least is None else max(mean + half, least)
            furthest = max(furthest, reported - high, mean - half - reported)
        return furthest if furthest >= 1 else 0.0


def _size(values: IntArray) -> int:
    """The greatest absolute value."""
    return max(int(values.max()), -int(values.min()))


def _nothing(height: int) -> tuple[None, ...]:
    return (None,) * height


def interval_ends(rows: Sequence[tuple[int | None, int | None, int | None]]) -> IntervalEnds:
    """Collect the values, the lower and the upper ends of rows of these three."""
    values, low, high = zip(*rows, strict=True) if rows else ((), (), ())
    return values, low, high
