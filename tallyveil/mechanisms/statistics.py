"""Statistics that are not linear in the counts: distinct values, units and quantiles, by group.

Each is a function of a `Histogram`. It moves by at most m if a record of its group is added or
removed, and by at most 1 if one moves to another row of the group (docs/guarantees.md has the
proof):

- Distinct values, #{rows with a count above 0}: m = 1. Noise of scale s is added to each number.
- Units, those with a record in the group: noise as for values. What a unit moves is not what its
  records do one after the other (`unit_loss`).
- The q-quantile: m = max(q, 1 − q). By the exponential mechanism (McSherry & Talwar 2007,
  "Mechanism Design via Differential Privacy", Theorem 6) over the group's rows, in the order of
  their values, with L records below the row, E in it and n in all,

      u(row) = −max(0, L − q n, q n − L − E),      P(row) ∝ e^{u(row) / 2s}.

- The mode, the value of most records: by the exponential mechanism with u(row) = E − max E. Only
  differences of E count. One record more raises one of them by 1, one that moves within the group
  changes them by at most 2, as it does twice u: m = 1/2, as for a median.

At scale s a move by d costs d/s in ε. In ρ noise costs d²/(2s²) as in `measure`; the quantile is
ε-DP with ε = d/s and of bounded range, and costs ε²/8 (Cesar & Rogers 2021, "Bounding,
Concentrating, and Truncating", Lemma 3.4). Groups add up, and a unit of r records moves one after
the other: it pays up to r or r² times as much, as for counts (`Adjacency`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import NoiseLaw
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.pair_loss import GroupLoss
from tallyveil.mechanisms.losses.privacy_loss import Loss, privacy_loss
from tallyveil.mechanisms.losses.unit_loss import unit_loss
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tallyveil.mechanisms.noise.quantile_draw import draw_mode, draw_quantile
from tallyveil.mechanisms.units import UNIT, positive
from tallyveil.workload.histogram import Histogram, Kind

__all__ = ["STATISTICS", "Statistic", "rank_error"]


@dataclass(frozen=True)
class Statistic:
    """A mechanism for statistics; ``noise`` is added to distinct counts, None for quantiles and
    modes; ``kind`` is that of the histograms. Its name is in ledgers, and keeps its meaning."""

    name: str
    noise: Additive | None = None
    kind: Kind = "values"

    def law(self, scale: float) -> NoiseLaw | None:
        """The law of its noise; None for quantiles."""
        return None if self.noise is None else self.noise.law(scale)

    def spread(self, scale: float) -> float:
        """The number by which answers of one statistic compare: lower is better."""
        return scale if self.noise is None else self.noise.spread(scale)

    def loss(
        self, histogram: Histogram, scale: float, relation: Adjacency, measure: Measure
    ) -> Loss:
        """What each cell or pair of cells loses.

        With m the move by a record more or less, to the power p, and the cost c of a move by 1:
        under add/remove a cell in the histogram pays m c. Under replace two cells of one group pay
        c, two of different groups 2 m c, and a cell inside and one outside m c (`GroupLoss`).

        Raises FeatureNotSupported if it has no cost in ``measure``, and as `Histogram.counts`.
        """
        cost = calibrate.rate(scale, measure)
        if self.noise is not None:
            self.noise._check(measure)
            most = Fraction(1)
            if histogram.units:
                return unit_loss(histogram.column, cost, relation, measure)
        else:
            q = Fraction(1, 2) if histogram.q is None else histogram.q
            most = max(q, 1 - q) ** power(measure)
            cost /= 4 ** (power(measure) - 1)  # ε²/8 for ε²/2
        if relation.neighbours == "add_remove":
            return privacy_loss([histogram.counts], [most * cost], relation.stacked, measure)
        cost *= relation.max_rows ** power(measure)
        columns, rates = (histogram.counts,), (most * cost,)
        return GroupLoss(columns, rates, relation.closed, measure, within=cost)

    def scale_for(
        self, histogram: Histogram, cost: Fraction, relation: Adjacency, measure: Measure
    ) -> float:
        """The least scale at which it costs at most ``cost``. The loss at scale 1 is rounded up to
        a unit, and at scale s is at most s or s² times less.

        Raises InvalidParameterValue if the cost is too small, and as `loss`.
        """
        budget = math.floor(positive(cost, measure) * UNIT)
        if histogram.units and relation.neighbours == "replace":
            budget -= budget % 2  # two cells' losses are rounded up
        if not budget:
            raise InvalidParameterValue(f"{measure} {float(cost):g} is too small for any noise")
        alone = power(measure) * self.loss(histogram, 1.0, relation, measure).bound
        return calibrate.least_scale(Fraction(alone, budget), measure)

    def release(
        self, answer: TrueAnswer, receipt: Receipt, histogram: Histogram
    ) -> tuple[tuple[int, ...], ...]:
        """Open the histogram's counts, of units or of records, and draw for each group a noisy
        number of units or distinct values, or the place of the quantile among the group's rows.

        Raises ReceiptError unless the receipt is unused and was issued for this answer.
        """
        calibrate.check_scale(receipt.scales[0])
        (counts,) = open_answer(answer, receipt)
        ends, order = histogram.starts.tolist(), histogram.rows.tolist()
        each = [
            [counts[row] for row in order[start:end]] for start, end in itertools.pairwise(ends)
        ]
        if self.noise is not None and histogram.units:
            return (self.noise._perturbed(counts, receipt.scales[0]),)
        if self.noise is not None:
            exact = [sum(count > 0 for count in own) for own in each]
            return (self.noise._perturbed(exact, receipt.scales[0]),)
        scale, q = receipt.scales[0], histogram.q
        if q is None:
            return (tuple(draw_mode(own, scale) for own in each),)
        return (tuple(draw_quantile(own, q, scale) for own in each),)


STATISTICS: Final = {
    one.name: one
    for one in (
        Statistic("distinct_laplace", DiscreteLaplace()),
        Statistic("distinct_gaussian", DiscreteGaussian()),
        Statistic("quantile"),
        Statistic("mode", kind="mode"),
        Statistic("units_laplace", DiscreteLaplace(), "units"),
        Statistic("units_gaussian", DiscreteGaussian(), "units"),
    )
}
"""By name."""


def rank_error(histogram: Histogram, scale: float, confidence: Fraction) -> int:
    """The k of quantiles and modes with P(−u > k) ≤ 1 − confidence in each group, whatever the
    data.

    The row of the quantile or mode itself has u = 0. So with D rows, P(−u > k) ≤ (D − 1) e^{−k/2s}.
    """
    others = int(np.diff(histogram.starts).max(initial=1)) - 1
    return math.ceil(2 * scale * math.log(max(1.0, others / float(1 - confidence))))
