"""Buys disjoint parts of the counts that a statement asks, and sums by moments of each part.

Counts that nest or overlap are sums of the parts on which all of them agree, and each record is in
one part. A sum of values from lo to hi over a part P is bought as

    a = Σ (v − lo)  and  b = Σ (hi − v):  P = (a + b)/(hi − lo),  Σ v = lo · P + a,

and with a sum of squares as three rows (`moments`). A record moves these together no more than it
could move one. So at the cost of the rows as asked, averages, variances and shares get far less
noise (docs/mathematics.md, "Parts and moments"). The parts are charged by their own loss, and all
rows follow from their answers, as from any others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import Recent
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.moments import Family, Polynomial, families
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.gate.strategies.translated import translated
from tallyveil.inference.canonical import settled
from tallyveil.mechanisms import AUTO, Measure
from tallyveil.rewriter import Workload
from tallyveil.workload.workload import Column, Factor

__all__ = ["parts", "wanted"]

_COLUMNS: Final = 16  # of a statement; their overlaps are bits of an integer
_PARTS: Final = 32  # columns that are bought
_CELLS: Final = 200_000  # that the rows of one group distinguish
_LARGEST: Final = 2**31  # coefficient
_ONE: Final[Polynomial] = (Fraction(1), Fraction(0), Fraction(0))
_GAIN: Final = 0.99  # of the variances as asked, on average over the columns, is still a gain
_WORSE: Final = 1.01  # of the variance as asked is no loss: variances of discrete noise differ so
_ALIKE: Final = 1 - 1e-6  # of a variance is the same but for rounding
_UP: Final = 1 + 1e-6  # keeps a repeated statement from falling short of its own answer


def parts(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """The parts of the whole statement, if none of its rows is known."""
    noise, asked = information.noise, information.asked
    if noise.instead is None:
        return
    whole = noise.all_bought(request.workloads[asked.table])
    if whole.columns != asked.columns or not all(map(np.array_equal, whole.rows, asked.rows)):
        return
    charge = replace(noise.instead, sql=request.sql)
    offer = replace(asked.charged_as(charge), gain=noise.gain)
    yield offer
    yield from translated(request, information._replace(asked=offer), limits)


_KEPT: Final[Recent[Workload, Noise]] = Recent(8)


def wanted(request: Request, workload: Workload, noise: Noise, limits: Limits) -> Noise:
    """The noise with the charge for parts instead, if these gain: on average, with no row worse."""
    exact, target = limits.exact, request.target
    if not 1 < len(workload.columns) <= _COLUMNS or target.half_width is not None:
        return noise
    if noise.mechanism.needs_range or request.mechanism != AUTO or request.by_invariants:
        return noise
    if exact is not None and exact.span.rank > 1 and exact.tied(workload):
        return noise  # what is exact may narrow the rows more than their parts
    found = _KEPT.get(
        workload,
        (noise, target, limits.choice, exact),
        lambda: _bought(workload, noise, request, limits),
    )
    if found is noise or not (request.all_looks or limits.controlled):
        return found
    why = "inference control examines rows as they are asked"
    if request.all_looks:
        why = "dp.coverage = always needs answers to the rows themselves"
    return replace(noise, whole_since=why)


def _bought(workload: Workload, noise: Noise, request: Request, limits: Limits) -> Noise:
    account = limits.account
    frames = _frames(workload.columns, account.domain.names, account.measure)
    if frames is None:
        return noise
    columns = [part.column for frame in frames for part in frame.parts]
    if len(columns) > _PARTS:
        return noise
    other = Workload(workload.table, tuple(columns))
    steps = [part.step for frame in frames for part in frame.parts]
    scales = limits.choice.scales(noise.mechanism, other, request.target, steps)
    if not (all(scales) and all(noise.scales)):
        return noise  # what is exact needs no parts
    error = noise.mechanism.worst_error
    each, before = iter([*map(error, scales)]), np.array([*map(error, noise.scales)])
    variances = np.zeros(len(before))
    for frame in frames:
        own = [next(each) for _ in frame.parts]
        if not (all(own) and all(before)):
            return noise  # as good as exact
        variances[list(frame.numbers)] = frame.variances(own)
    shares = variances / before
    if not (shares.mean() <= _GAIN and shares.max() <= _WORSE):
        return noise
    if not limits.follow(workload.columns, columns):
        return noise
    aims = np.array(noise.scales) * np.where(shares > _ALIKE, np.sqrt(shares) * _UP, 1)
    return replace(
        noise,
        scales=tuple(aims.tolist()),
        instead=Charge(other, noise.mechanism.name, scales, ""),
        deviations=tuple(settled(math.sqrt(one)) for one in variances.tolist()),
        gain=settled(float(shares.mean())),
    )


class _Part(NamedTuple):
    """A column that is bought, with noise as of a row of ``step``. Of its cells' ``label`` it is a
    ``polynomial`` of the sums' ``family``; with label -1 it is the sum ``family`` itself."""

    column: Column
    label: int
    family: int
    polynomial: Polynomial
    step: int


@dataclass(frozen=True, eq=False)
class _Frame:
    """Columns ``numbers`` of a workload, whose rows differ by what they add up of a group alone:
    its cells have ``labels`` of a bit for each count, and the rows have the values ``vectors``, of
    which ``first`` are the first that are equal. ``families`` has by label the sums that vary."""

    numbers: tuple[int, ...]
    vectors: IntArray
    first: tuple[int, ...]
    labels: IntArray
    families: Mapping[int, Sequence[Family]]
    parts: tuple[_Part, ...]

    def variances(self, noise: Sequence[float]) -> FloatArray:
        """Of the rows of each column, in lattice units: of the best linear unbiased estimates from
        answers to the parts with ``noise`` of these variances."""
        found = np.zeros(len(self.numbers))
        bought = list(zip(self.parts, noise, strict=True))
        for label in dict.fromkeys(part.label for part in self.parts):
            own = [(part, one) for part, one in bought if part.label == label]
            if label < 0:
                for part, one in own:
                    found[[number == part.family for number in self.first]] = one
                continue
            families = self.families[label]
            # Unknown are the part's count and, of each family, Σ τ and perhaps Σ τ².
            starts = np.cumsum([1, *(one.degree for one in families)]).tolist()

            def placed(
                polynomial: Polynomial, family: int, starts: list[int] = starts
            ) -> FloatArray:
                vector = np.zeros(starts[-1])
                vector[0] = polynomial[0]
                if family >= 0:
                    own = slice(*starts[family : family + 2])
                    vector[own] = polynomial[1 : 1 + own.stop - own.start]
                return vector

            rows = np.array(
                [placed(part.polynomial, part.family) / math.sqrt(one) for part, one in own]
            )
            covariance = np.linalg.inv(rows.T @ rows)
            of = {
                number: (polynomial, place)
                for place, family in enumerate(families)
                for number, polynomial in zip(family.numbers, family.polynomials, strict=True)
            }
            inside = self.labels == label
            for place, (number, vector) in enumerate(zip(self.first, self.vectors, strict=True)):
                if not vector[self.labels == 0].any():
                    # A sum that does not vary is a multiple of the count.
                    constant = (Fraction(int(vector[inside][0])), Fraction(0), Fraction(0))
                    row = placed(*of.get(number, (constant, -1)))
                    found[place] += row @ covariance @ row
        return found


def _frames(
    columns: Sequence[Column], axes: Sequence[str], measure: Measure
) -> list[_Frame] | None:
    """The columns in frames; None if there is no more to be bought than each by itself."""
    alike: dict[object, list[int]] = {}
    for number, column in enumerate(columns):
        groups = tuple(map(_content, _groups(column)))
        chosen = None if column.selected is None else column.selected.tobytes()
        alike.setdefault((groups, chosen), []).append(number)
    found = [_frame(columns, numbers, axes, measure) for numbers in alike.values()]
    frames = [frame for frame in found if frame is not None]
    divided = any(part.label >= 0 for frame in frames for part in frame.parts)
    return frames if divided and len(frames) == len(found) else None


def _groups(column: Column) -> list[Factor]:
    return [factor for factor in column.factors if factor.height != 1]


def _content(factor: Factor) -> tuple[object, ...]:
    arrays = (factor.rows, factor.cells, factor.coefficients)
    return factor.axes, factor.shape, *(array.tobytes() for array in arrays)


def _frame(
    columns: Sequence[Column], numbers: Sequence[int], axes: Sequence[str], measure: Measure
) -> _Frame | None:
    """None if their rows distinguish too many cells. ``axes`` has the order of the table's."""
    first = columns[numbers[0]]
    each = [{_content(factor) for factor in columns[number].factors} for number in numbers]
    common = frozenset(each[0]).intersection(*each)
    groups = tuple(factor for factor in first.factors if _content(factor) in common)
    rest = [[f for f in columns[n].factors if _content(f) not in common] for n in numbers]
    extents = {
        axis: size
        for own in rest
        for factor in own
        for axis, size in zip(factor.axes, factor.shape, strict=True)
    }
    sizes = {axis: extents[axis] for axis in axes if axis in extents}
    grouped = {axis for factor in groups for axis in factor.axes}
    plain = all((factor.coefficients == 1).all() for factor in groups)
    if math.prod(sizes.values()) > _CELLS or not plain or not grouped.isdisjoint(sizes):
        return None
    if any(columns[number].largest >= _LARGEST for number in numbers):
        return None
    vectors = np.array([_vector(own, sizes) for own in rest])
    counts = tuple(n for n, own in enumerate(vectors) if ((own == 0) | (own == 1)).all())
    labels = np.zeros(vectors.shape[1], dtype=np.int64)
    for bit, n in enumerate(counts):
        labels |= vectors[n] << bit

    def column(vector: IntArray, multiplier: Fraction) -> Column:
        cells = np.flatnonzero(vector).astype(np.int64)
        own = Factor(
            tuple(sizes), tuple(sizes.values()), 1, np.zeros_like(cells), cells, vector[cells]
        )
        return Column((*groups, own) if sizes else groups, multiplier, first.selected)

    units = [columns[number].multiplier for number in numbers]
    equal: dict[bytes, int] = {}
    originals = tuple(equal.setdefault(vector.tobytes(), n) for n, vector in enumerate(vectors))
    every = [n for n in dict.fromkeys(originals) if n not in counts]
    whole = [n for n in every if vectors[n, labels == 0].any()]
    sums = [n for n in every if n not in whole]
    bought = [_Part(columns[numbers[n]], -1, n, _ONE, _step(vectors[n])) for n in whole]
    varied = dict[int, list[Family]]()
    for label in np.unique(labels[labels != 0]).tolist():
        inside = labels == label
        varied[label] = families(
            [(n, vectors[n, inside]) for n in sums if np.ptp(vectors[n, inside]) > 0]
        )
        if not varied[label]:
            bought.append(_Part(column(inside.astype(np.int64), Fraction(1)), label, -1, _ONE, 1))
        for place, family in enumerate(varied[label]):
            for moment in family.moments(measure):
                values = np.zeros_like(labels)
                values[inside] = moment.values
                unit = (units[family.of] * family.unit) ** family.degree
                own = column(values, unit)
                bought.append(_Part(own, label, place, moment.polynomial, moment.step))
    return _Frame(tuple(numbers), vectors, originals, labels, varied, tuple(bought))


def _step(vector: IntArray) -> int:
    return int(np.abs(vector).max())


def _vector(factors: Sequence[Factor], sizes: dict[str, int]) -> IntArray:
    """What a row of these factors counts of each cell of the axes."""
    found = np.ones(tuple(sizes.values()), dtype=np.int64)
    for factor in factors:
        shape = [size if axis in factor.axes else 1 for axis, size in sizes.items()]
        found = found * factor.dense().reshape(shape)  # both have the table's order
    return found.ravel()
