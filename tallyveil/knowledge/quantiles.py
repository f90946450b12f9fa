"""Quantiles of groups whose cumulative counts are known from answers to counts, or exact.

With F_j the records up to the j-th value of a group, N all of them and q = a/b, the rows

    W_j = b F_j − a N,    W_j ≥ 0 from the q-quantile's place on, < 0 before it,

are estimated as any rows are. The quantile is the value at the place #{j : W_j < 0}. Its interval
holds the places j with W_j + h_j ≥ −b and W_{j−1} − h_{j−1} ≤ b, h the half-widths: at the true
place each end misses with half of the error probability, without a union bound. The b leaves a
record to either side, so that it holds both values between which a continuous quantile lies.

The value is at most max h_j / b records from its rank where all rows are within h_j together: of D
rows each misses with 1/D of the error probability then. That depends on laws alone.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import Recent
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.knowledge import Knowledge
from tallyveil.mechanisms import mechanism
from tallyveil.workload.factor import Factor
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Column

__all__ = ["CountedQuantile", "counted_quantiles"]

_ROWS: Final = 2_000  # that are estimated together
_ENTRIES: Final = 300_000


class CountedQuantile(NamedTuple):
    """The place of a quantile among the values of its group, those of the ends of its interval, and
    how many records it is from its rank at most."""

    value: int
    low: int
    high: int
    rank_error: int


class _Rows(NamedTuple):
    """The rows W of all groups, and by group those of its values in their order."""

    column: Column
    places: list[IntArray]


_KEPT: Final[Recent[Histogram, _Rows | None]] = Recent(16)


def counted_quantiles(
    knowledge: Knowledge, histogram: Histogram, confidence: Fraction
) -> list[CountedQuantile | None]:
    """For each group; None where not all of its rows are known."""
    nothing: list[CountedQuantile | None] = [None] * histogram.height
    q = histogram.q
    rows = None if q is None else _KEPT.get(histogram, (), lambda: _rows(histogram, q))
    if q is None or rows is None:
        return nothing
    one = rows.places[0][[len(rows.places[0]) // 2]]
    if histogram.height == 1 and not _known(knowledge, rows.column.take(one), confidence).whole:
        return nothing  # found out with less work
    known = _known(knowledge, rows.column, confidence)
    return [_quantile(known.take(own.tolist()), q, confidence) for own in rows.places]


def _known(knowledge: Knowledge, column: Column, confidence: Fraction) -> Answers:
    aim = Aim(mechanism("laplace"), 1.0, None, confidence)
    return knowledge.find([column], [aim]).rows[0]


def _quantile(known: Answers, q: Fraction, confidence: Fraction) -> CountedQuantile | None:
    values, variances = known.variances
    if not np.isfinite(variances).all():
        return None  # not known, or in a range
    together = 1 - (1 - confidence) / len(known)
    half, most = (_half_widths(known, level) for level in (confidence, together))
    last, record = len(known) - 1, q.denominator
    place = min(int((values < 0).sum()), last)
    above, below = values + half >= -record, values - half <= record
    low = int(np.argmax(above)) if above.any() else last
    high = min(last - int(np.argmax(below[::-1])) + 1, last) if below.any() else 0
    far = math.ceil(most.max() / record)
    return CountedQuantile(place, min(low, place), max(high, place), far)


def _half_widths(known: Answers, confidence: Fraction) -> FloatArray:
    return np.array(known.by_error(lambda error: error.half_width(confidence)), dtype=np.float64)


def _rows(histogram: Histogram, q: Fraction) -> _Rows | None:
    """None if there are too many, or they have too many coefficients."""
    if len(histogram.rows) > _ROWS:
        return None
    return _of_product(histogram, q) or _of_entries(histogram, q)


def _of_product(histogram: Histogram, q: Fraction) -> _Rows | None:
    """Where all groups have the same values, and one factor tells these apart alone."""
    column, groups = histogram.column, histogram.height
    if len(histogram.rows) % groups or (np.diff(histogram.starts, n=2) != 0).any():
        return None
    each = [own.reshape(groups, -1) for own in column.factor_rows(column.numbers[histogram.rows])]
    varied = [n for n, own in enumerate(each) if (own != own[:, :1]).any()]
    if len(varied) > 1 or any((each[n] != each[n][:1]).any() for n in varied):
        return None
    number = each[0].shape[1] if each else 1
    product, factors = np.zeros((groups, 1), dtype=np.int64), list(column.factors)
    for n, own in enumerate(each):
        if n in varied:
            factors[n] = _summed(factors[n], [own[0]], q)
            if factors[n].height != number or len(factors[n].rows) > _ENTRIES:
                return None
            product = product * number + np.arange(number)
        else:
            product = product * factors[n].height + own[:, :1]
    if product.shape[1] != number:
        return None
    chosen = np.sort(product.ravel())
    whole = math.prod(factor.height for factor in factors) == len(chosen)
    found = Column(tuple(factors), column.multiplier, None if whole else chosen)
    return _Rows(found, [np.searchsorted(chosen, own) for own in product])


def _of_entries(histogram: Histogram, q: Fraction) -> _Rows | None:
    whole = histogram.column.multiplied_out(_ENTRIES)
    ends = histogram.starts.tolist()
    if whole is None or sum(number**2 for number in np.diff(ends).tolist()) > _ENTRIES:
        return None
    spans = [*itertools.pairwise(ends)]
    groups = [histogram.rows[start:end] for start, end in spans]
    factor = _summed(whole, groups, q)
    places = [np.arange(start, end) for start, end in spans]
    return _Rows(Column((factor,)), places) if len(factor.rows) <= _ENTRIES else None


def _summed(factor: Factor, groups: list[IntArray], q: Fraction) -> Factor:
    """b times the rows up to each of a group's rows, less a times all of the group's."""
    a, b = q.numerator, q.denominator
    own = factor.sparse()
    sums = [
        sparse.csr_matrix(b * np.tril(np.ones((len(one),) * 2, dtype=np.int64)) - a) @ own[one]
        for one in groups
    ]
    return Factor.of_sparse(factor.axes, factor.shape, sparse.csr_matrix(sparse.vstack(sums)))
