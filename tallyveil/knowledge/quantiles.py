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

from tallyveil.arrays import FloatArray
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


_KEPT: Final[Recent[Histogram, Column | None]] = Recent(16)


def counted_quantiles(
    knowledge: Knowledge, histogram: Histogram, confidence: Fraction
) -> list[CountedQuantile | None]:
    """For each group; None where not all of its rows are known."""
    nothing: list[CountedQuantile | None] = [None] * histogram.height
    q = histogram.q
    rows = None if q is None else _KEPT.get(histogram, (), lambda: _rows(histogram, q))
    if q is None or rows is None:
        return nothing
    middle = np.array([rows.height // 2])
    if histogram.height == 1 and not _known(knowledge, rows.take(middle), confidence).whole:
        return nothing  # found out with less work
    known, spans = _known(knowledge, rows, confidence), itertools.pairwise(histogram.starts)
    return [_quantile(known[start:end], q, confidence) for start, end in spans]


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
    return CountedQuantile(place, min(low, place), max(high, place), math.ceil(most.max() / record))


def _half_widths(known: Answers, confidence: Fraction) -> FloatArray:
    return np.array(known.by_error(lambda error: error.half_width(confidence)), dtype=np.float64)


def _rows(histogram: Histogram, q: Fraction) -> Column | None:
    """The rows W, in the order of the histogram's; None if there are too many, or they have too
    many coefficients."""
    whole, sizes = histogram.column.multiplied_out(_ENTRIES), np.diff(histogram.starts)
    if len(histogram.rows) > _ROWS or whole is None:
        return None
    entries = np.add.reduceat(whole.entries[histogram.rows], histogram.starts[:-1])
    if (entries * sizes).sum() > _ENTRIES:
        return None
    ones = [np.ones((size, size), dtype=np.int64) for size in sizes.tolist()]
    sums = sparse.block_diag([q.denominator * np.tril(one) - q.numerator for one in ones], "csr")
    rows = sparse.csr_matrix(sums @ whole.sparse()[histogram.rows])
    return Column((Factor.of_sparse(whole.axes, whole.shape, rows),))
