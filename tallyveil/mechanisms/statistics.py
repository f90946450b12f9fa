"""Statistics that are not linear in the counts: distinct values and quantiles, group by group.

A statistic is a function of a `Histogram`: of counts of disjoint rows, so that each record counts
in one row or in none. A row is a value in a group. Let one record be added or removed in a row: the
statistic of its group moves by at most m. Let one record move to another row of its group: it
moves by at most 1. A record that moves between groups moves two by at most m each, one that enters
or leaves the histogram moves one by at most m, and one that stays in its row moves none.

- Distinct values, #{rows with a count above 0}: m = 1. A record more can only fill its own row, a
  record less only empty it, so a record that moves changes their number by −1, 0 or 1. Noise is
  added to each group's number, at a scale s.
- The q-quantile, by the exponential mechanism (McSherry & Talwar 2007, "Mechanism Design via
  Differential Privacy", Theorem 6) over the group's rows, in the order of their values, with

      u(row) = −max(0, L − q n, q n − L − E),      P(row) ∝ e^{u(row) / 2s},

  L the number of records below the row, E of those in it and n of all: how far the rank q n is from
  the ranks of the row, in records. A record more or less moves L − q n and q n − L − E by at most
  m = max(q, 1 − q). One that moves leaves n, and moves L and L + E by at most 1.

At scale s a move by d costs d/s in ε. In ρ the noise costs d²/(2s²) as in `measure`; the quantile
is ε-DP with ε = d/s and of bounded range, so that it costs ε²/8 (Cesar & Rogers 2021, "Bounding,
Concentrating, and Truncating", Lemma 3.4). Groups are independent, so what they cost adds up. A
unit of r records moves one record after the other; so it pays up to r or r² times as much, as for
counts (`Adjacency`).

The loss is that of two columns of counts: `Statistic.loss`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, StatementTooComplex
from tallyveil.inference import NoiseLaw
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.loss_tensor import CELL_LIMIT
from tallyveil.mechanisms.losses.privacy_loss import Loss, privacy_loss
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tallyveil.mechanisms.noise.quantile_draw import draw_quantile
from tallyveil.mechanisms.units import UNIT, positive
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Column, Factor

__all__ = ["STATISTICS", "Statistic", "check_histogram", "rank_error"]


@dataclass(frozen=True)
class Statistic:
    """A mechanism for statistics; ``noise`` is added to distinct counts, None for quantiles. Its
    name is in ledgers, and keeps its meaning for good."""

    name: str
    noise: Additive | None = None

    def law(self, scale: float) -> NoiseLaw | None:
        """The law of its noise; None for quantiles."""
        return None if self.noise is None else self.noise.law(scale)

    def loss(
        self, histogram: Histogram, scale: float, relation: Adjacency, measure: Measure
    ) -> Loss:
        """What each cell or pair of cells loses.

        With m the move by a record more or less, to the power p, and the cost c of a move by 1:
        under add/remove a cell in the histogram pays m c, as the histogram at the rate m c does.
        Under replace, the histogram at c/2 and the groups' counts at c · max(0, m − ½) cost a pair
        of two rows of one group c, of two groups c + 2 c max(0, m − ½) ≥ 2 m c, and of a cell
        inside and one outside at least m c. All coefficients are 0 or 1, so it holds for p = 2 too.

        Raises FeatureNotSupported if it has no cost in ``measure``, and as `check_histogram`.
        """
        whole, column = check_histogram(histogram), histogram.column
        cost = calibrate.rate(scale, measure)
        if self.noise is not None:
            self.noise._check(measure)
            most = Fraction(1)
        else:
            q = _rank(histogram)
            most = max(q, 1 - q) ** power(measure)
            cost /= 4 ** (power(measure) - 1)  # ε²/8 for ε²/2
        if relation.neighbours == "add_remove":
            return privacy_loss([column], [most * cost], relation, measure)
        columns, rates = [column], [cost / 2]
        if most > Fraction(1, 2):
            columns.append(_counts(histogram, whole))
            rates.append(cost * (most - Fraction(1, 2)))
        return privacy_loss(columns, rates, relation, measure)

    def scale_for(
        self, histogram: Histogram, cost: Fraction, relation: Adjacency, measure: Measure
    ) -> float:
        """The least scale found at which it costs at most ``cost``.

        Raises InvalidParameterValue if the cost is too small, and as `loss`.
        """
        budget = math.floor(positive(cost, measure) * UNIT)
        alone = self.loss(histogram, 1.0, relation, measure).bound
        allowed = budget
        while allowed > 0:
            scale = calibrate.least_scale(Fraction(power(measure) * alone, allowed), measure)
            used = self.loss(histogram, scale, relation, measure).bound
            if used <= budget:
                return scale
            allowed -= used - budget
        raise InvalidParameterValue(f"{measure} {float(cost):g} is too small to calibrate noise to")

    def release(
        self, answer: TrueAnswer, receipt: Receipt, histogram: Histogram
    ) -> tuple[tuple[int, ...], ...]:
        """Open the histogram's counts, and draw for each group a noisy number of distinct values,
        or the place of the quantile among the group's rows.

        Raises ReceiptError unless the receipt was issued for this histogram and mechanism.
        """
        calibrate.check_scale(receipt.scales[0])
        (counts,) = open_answer(answer, receipt)
        ends, order = histogram.starts.tolist(), histogram.rows.tolist()
        each = [
            [counts[row] for row in order[start:end]] for start, end in itertools.pairwise(ends)
        ]
        if self.noise is not None:
            exact = [sum(count > 0 for count in own) for own in each]
            return (self.noise._perturbed(exact, receipt.scales[0]),)
        q = _rank(histogram)
        return (tuple(draw_quantile(own, q, receipt.scales[0]) for own in each),)


STATISTICS: Final = {
    one.name: one
    for one in (
        Statistic("distinct_laplace", DiscreteLaplace()),
        Statistic("distinct_gaussian", DiscreteGaussian()),
        Statistic("quantile"),
    )
}
"""By name."""


def check_histogram(histogram: Histogram) -> Factor:
    """Return the histogram as one factor.

    Raises FeatureNotSupported if a record counts in several rows or more than once, and
    StatementTooComplex if there are too many cells to tell.
    """
    whole = histogram.column.multiplied_out(CELL_LIMIT)
    if whole is None:
        raise StatementTooComplex(
            "the values of this aggregate combine too many cells",
            hint="Ask about fewer attributes at once, or group by fewer.",
        )
    if histogram.column.multiplier != 1 or whole.largest > 1 or not whole.disjoint:
        raise FeatureNotSupported(
            "a distinct count or quantile takes one value of each record, and here a record counts"
            " in several groups or several times",
            hint="Join tables by a key, and ask about each branch of a UNION by itself.",
        )
    return whole


def rank_error(histogram: Histogram, scale: float, confidence: Fraction) -> int:
    """The k of quantiles with P(−u > k) ≤ 1 − confidence in each group, whatever the data.

    The row of the quantile itself has u = 0. So with D rows, P(−u > k) ≤ (D − 1) e^{−k/2s}.
    """
    others = int(np.diff(histogram.starts).max(initial=1)) - 1
    return math.ceil(2 * scale * math.log(max(1.0, others / float(1 - confidence))))


def _counts(histogram: Histogram, whole: Factor) -> Column:
    """The counts of the groups; ``whole`` is the histogram as one factor."""
    group = np.empty(len(histogram.rows), dtype=np.int64)
    group[histogram.rows] = histogram.groups
    entries = group[whole.rows], whole.cells, whole.coefficients
    return Column((Factor.of_entries(whole.axes, whole.shape, histogram.height, *entries),))


def _rank(histogram: Histogram) -> Fraction:
    if histogram.q is None:
        raise ValueError("a quantile has a rank")
    return histogram.q
