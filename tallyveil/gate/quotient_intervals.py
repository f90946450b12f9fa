"""Intervals of quotients and linear combinations of the answers in a noisy table's rows.

They follow from the joint law of the errors (`Fieller`), which is known but for sums of other
answers, counts with a public range, noise that was drawn together, intervals over all looks, and
what exceeds `_LAWS` laws in one statement. There, each of m answers has an interval with 1/m of the
error probability, and the quotient lies anywhere in what these allow: an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import cached_property
from tallyveil.gate.back import Back
from tallyveil.gate.deciding.outcome import Answered, LookIntervals
from tallyveil.gate.moment_intervals import Allowed, Joint, moment_ends
from tallyveil.inference import Fieller, outward
from tallyveil.knowledge import Estimate, JointErrors, joint_errors, sums_with_noises
from tallyveil.rewriter import NoisyTable, Output, Plan
from tallyveil.rewriter.query_plan import Moment, Quotient, Share

__all__ = ["QuotientIntervals"]

_LAWS: Final = 64
_OF_MOMENT: Final = 4  # laws that a moment's count as
_LONG: Final = 16  # noises that make a law count as one more
_LARGEST: Final = 2.0**50  # steps that a float counts
_NEARLY: Final = 1e-6  # of a step: an estimate has no more digits

_Ends: TypeAlias = tuple[FloatArray, FloatArray]


@dataclass(eq=False)
class QuotientIntervals:
    """Of one answered statement, at its confidence. ``looks`` returns intervals over all looks, if
    these are asked. If ``nonnegative``, no count is below 0."""

    plan: Plan
    answered: Answered
    back: Back
    confidence: Fraction
    looks: Callable[[Fraction], LookIntervals] | None = None
    nonnegative: bool = False
    _found: dict[tuple[str, Quotient | Moment], _Ends] = field(default_factory=dict)
    _answers: dict[tuple[str, int], _Answers] = field(default_factory=dict)
    _laws: int = 0

    def columns(
        self, table: NoisyTable, quotient: Quotient | Moment, asked: str
    ) -> dict[str, pa.Array]:
        """What is ``asked`` of a quotient, by the letters of its columns. Ends are NULL where the
        interval is unbounded, and all where an answer is not known."""
        found = dict[str, FloatArray]()
        if "l" in asked:
            found["l"], found["h"] = self._ends(table, quotient)
        if "s" in asked and isinstance(quotient, Quotient):
            found["s"] = self._deviations(self._terms(table, quotient))
        return {name: pa.array(own, from_pandas=True) for name, own in found.items()}

    def half_widths(self, table: NoisyTable, of: Quotient | Moment) -> tuple[FloatArray, int]:
        """Half the widths of the intervals, and in how many rows it is unbounded."""
        low, high = self._ends(table, of)
        answers, _ = self._weighted(table, [of.shares])
        known = ~np.isnan(sum((one.values for one in answers), np.zeros(table.height)))
        return (high - low)[~np.isnan(low)] / 2, int((np.isnan(low) & known).sum())

    def _weighted(
        self, table: NoisyTable, sides: Sequence[Sequence[Share]]
    ) -> tuple[list[_Answers], list[list[Fraction]]]:
        """The answers in some linear combinations, and the weights of each in these."""
        every = {table.name: table for table in self.plan.noisy}
        weights: dict[tuple[str, int], list[Fraction]] = {}
        for side, shares in enumerate(sides):
            for one in shares:
                key = one.table or table.name, one.output
                weights.setdefault(key, [Fraction(0)] * len(sides))[side] = one.times
        for name, number in weights.keys() - self._answers.keys():
            self._answers[name, number] = _Answers(every[name].outputs[number], self)
        return [self._answers[key] for key in weights], [*weights.values()]

    def _terms(self, table: NoisyTable, quotient: Quotient) -> _Terms:
        sides = quotient.top, quotient.bottom
        return _Terms(quotient, table.height, *self._weighted(table, sides))

    def _deviations(self, terms: _Terms) -> FloatArray:
        """The standard deviation of a linear combination; where the joint law of the errors is not
        known, at least that."""
        found = np.zeros(terms.height)
        for one, (times, _) in zip(terms.answers, terms.weights, strict=True):
            found = found + abs(float(times)) * one.deviations
        for rows, law in self._joint_laws(terms):
            found[rows] = law.deviation
        return found

    def _ends(self, table: NoisyTable, of: Quotient | Moment) -> _Ends:
        key = table.name, of
        if key not in self._found:
            if isinstance(of, Moment):
                self._found[key] = self._of_moment(table, of)
            else:
                self._found[key] = self._computed(self._terms(table, of))
        return self._found[key]

    def _of_moment(self, table: NoisyTable, moment: Moment) -> _Ends:
        answers, weights = self._weighted(table, [own for _, own, _ in moment.sums])
        miss = (1 - self.confidence) / moment.of

        def sums(each: Sequence[_Ends], end: int, constant: float = 1.0) -> dict[str, FloatArray]:
            found = {"1": np.full(each[0][0].shape, constant)}
            for number, (name, _, more) in enumerate(moment.sums):
                found[name] = found["1"] * float(more)
                for own, times in zip(each, (one[number] for one in weights), strict=True):
                    found[name] = found[name] + float(times) * own[(times < 0) != end]
            return found

        values = sums([(one.values, one.values) for one in answers], 0)
        low, high = np.full((2, table.height), np.nan)
        left = ~np.isnan(sum(values.values(), np.zeros(1)))
        for rows, errors, noises, rough in (
            self._errors(answers, table.height, _OF_MOMENT) if self.looks is None else ()
        ):
            own = {name: one[rows] for name, one in values.items()}
            law = sums([(error, error) for error in errors], 0, 0.0)
            low[rows], high[rows] = moment_ends(moment, Joint(own, law, noises, rough), miss)
            left[rows] = False
        if left.any():
            confidence = 1 - miss / len(answers)
            looks = None if self.looks is None else self.looks(confidence)
            ends = [one.ends(confidence, looks) for one in answers]
            found = moment_ends(moment, Allowed(sums(ends, 0), sums(ends, 1)), miss)
            low[left], high[left] = (own[left] for own in found)
        shown = sums([(one.reported, one.reported) for one in answers], 0)
        reported, _ = moment_ends(moment, Allowed(shown, shown), miss)
        some = np.isfinite(low)
        low[some], high[some] = outward(low[some], high[some], reported[some])
        return low, high

    def _computed(self, terms: _Terms) -> _Ends:
        confidence = 1 - (1 - self.confidence) / terms.quotient.of
        tops, bottoms = terms.sides("values")
        low, high = np.full((2, terms.height), np.nan)
        left = ~np.isnan(tops + bottoms)
        for rows, law in self._joint_laws(terms) if self.looks is None else ():
            low[rows], high[rows] = law.ends(tops[rows], bottoms[rows], confidence)
            left[rows] = False
        if left.any():
            each = 1 - (1 - confidence) / len(terms.answers)
            found = terms.from_each(each, None if self.looks is None else self.looks(each))
            low[left], high[left] = (ends[left] for ends in found)
        some = np.isfinite(low) & np.isfinite(high)
        low[~some] = high[~some] = np.nan
        top, bottom = terms.sides("reported")
        with np.errstate(divide="ignore", invalid="ignore"):
            reported = np.where(bottom == 0, np.nan, top / bottom)[some]
        ends = outward if terms.quotient.bottom else terms.on_lattice
        low[some], high[some] = ends(low[some], high[some], reported)
        if self.nonnegative and terms.never_negative:
            low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
        return low, high

    def _joint_laws(self, terms: _Terms) -> Iterator[tuple[IntArray, Fieller]]:
        """The laws of the errors of numerator and denominator, by the rows that have them."""
        weights = np.array([[float(one) for one in own] for own in terms.weights])
        for rows, errors, noises, rough in self._errors(terms.answers, terms.height):
            top, bottom = ((own[:, None] * errors).sum(axis=0) for own in weights.T)
            yield rows, Fieller(top, bottom, noises, rough)

    def _errors(
        self, answers: Sequence[_Answers], height: int, laws: int = 1
    ) -> Iterator[JointErrors]:
        """The errors of the answers together, by the rows that have the same, of which each counts
        as some ``laws``."""
        known = [one.estimates for one in answers]
        estimates = [own * (height // len(own)) if own else [] for own in known]
        names = [one.output.table for one in answers]
        tables = [sorted({*names}).index(name) for name in names]
        units = np.array([[float(one.unit)] for one in answers])
        whole = (row for row, own in enumerate(zip(*estimates, strict=True)) if None not in own)
        for rows, errors, noises, rough in joint_errors(estimates, tables, [*whole]):
            deadline.check()
            self._laws += laws * (1 + len(noises) // _LONG)
            if self._laws > _LAWS:
                return
            yield rows, units * errors, noises, rough


class _Answers:
    """The answers to one output of a noisy table, by its rows and in its unit."""

    def __init__(self, output: Output, of: QuotientIntervals) -> None:
        every = of.answered.summed if output.summed else of.answered.columns
        self.output, self.column = output, of.plan.column(output)
        self.unit: Fraction = self.column.multiplier
        self._known = every[output.table][output.column]
        self._plan, self._fine = of.plan, of.answered.columns[output.table]
        self._with_noises = partial(of.back.with_noises, output.table)

    def _rows(self, numbers: Sequence[float | None] | IntArray) -> FloatArray:
        """Numbers by the column's rows and in its steps; NaN for None."""
        found = np.array(numbers, dtype=np.float64) * float(self.unit)
        return found if self.output.rows is None else found[self.output.rows]

    @cached_property
    def values(self) -> FloatArray:
        """Before they are rounded, but without last digits that differ between processors."""
        return self._rows(self._known.settled)

    @cached_property
    def reported(self) -> FloatArray:
        numbers = self._rows([float(value) for value in self._known.rounded])
        return np.where(np.isnan(self.values), np.nan, numbers)

    @property
    def deviations(self) -> FloatArray:
        return self._rows(self._known.by_error(lambda error: error.deviation))

    def ends(self, confidence: Fraction, looks: LookIntervals | None) -> _Ends:
        """The ends of the interval of each answer by itself."""
        if looks is None:
            _, low, high = self._known.intervals(confidence)
        else:
            found = looks[self.output.table][self.output.column].ends
            low, high = ([None if row is None else row[end] for row in found] for end in (1, 2))
        return self._rows(low), self._rows(high)

    @cached_property
    def estimates(self) -> list[Estimate | None]:
        """The answers with their noises; None where these are not known."""
        found = self._with_noises(self.column, self._known)
        if self.output.summed:
            summed = self._plan.summed[self.output.table][self.output.column]
            column = self._plan.workloads[self.output.table].columns[summed.of]
            parts = self._with_noises(column, self._fine[summed.of])
            found = sums_with_noises(self._known, found, summed, parts)
        return found if self.output.rows is None else [found[n] for n in self.output.rows.tolist()]


class _Terms(NamedTuple):
    """The ``answers`` in a quotient's rows, with their ``weights`` in numerator and denominator."""

    quotient: Quotient
    height: int
    answers: list[_Answers]
    weights: list[list[Fraction]]

    @property
    def pairs(self) -> list[tuple[_Answers, list[Fraction]]]:
        return [*zip(self.answers, self.weights, strict=True)]

    def _side(self, side: int, each: Sequence[FloatArray]) -> FloatArray:
        found = np.full(self.height, float((self.quotient.above, self.quotient.below)[side]))
        for weights, own in zip(self.weights, each, strict=True):
            found = found + float(weights[side]) * own
        return found

    def sides(self, which: str) -> list[FloatArray]:
        """The numerator and the denominator of the ``values``, or those ``reported``."""
        each = [getattr(one, which) for one in self.answers]
        return [self._side(0, each), self._side(1, each)]

    def from_each(self, confidence: Fraction, looks: LookIntervals | None) -> _Ends:
        """The ends that follow from intervals of the answers by themselves; NaN for none."""
        found = [(one.ends(confidence, looks), weights) for one, weights in self.pairs]
        (first, last), (least, most) = (
            [self._side(side, [own[(w[side] < 0) != end] for own, w in found]) for end in (0, 1)]
            for side in (0, 1)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            corners = [a / b for a in (first, last) for b in (least, most)]
        safe = (least > 0) | (most < 0)
        low, high = (np.where(safe, end(corners, axis=0), np.nan) for end in (np.min, np.max))
        return low, high

    @property
    def never_negative(self) -> bool:
        least = min(self.quotient.above, self.quotient.below, *map(min, self.weights))
        return least >= 0 and all(one.column.counts_up for one in self.answers)

    def on_lattice(self, low: FloatArray, high: FloatArray, reported: FloatArray) -> _Ends:
        """The outermost values between the ends that a linear combination can have, stretched to
        hold what is reported."""
        units = [one.unit * times for one, (times, _) in self.pairs]
        bottom = math.lcm(*(unit.denominator for unit in units))
        step = math.gcd(*(int(unit * bottom) for unit in units)) / bottom
        first, last = (np.array([low, high]) - float(self.quotient.above)) / step
        first, last = np.ceil(first - _NEARLY), np.floor(last + _NEARLY)
        inside = (np.maximum(-first, last) < _LARGEST) & (first <= last)
        ends = np.array([first, last]) * step + float(self.quotient.above)
        low, high = np.where(inside, ends, [low, high])
        return np.fmin(low, reported), np.fmax(high, reported)
