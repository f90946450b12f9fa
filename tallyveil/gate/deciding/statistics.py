"""Decides how distinct counts and quantiles are answered: by released ones, or by a purchase.

Each is a release of its own. A statement's cost is shared evenly between its statistics and the
aggregates that are counts, table by table: they may ask about the same records. What was released
for a group of a histogram answers the same group again, if it is as precise as what would be bought
now; for dp.half_width, if its interval is no wider. The most precise release is the answer.

A quantile may follow from answers to counts too (`knowledge/quantiles.py`). It is as precise as a
drawn one if the bound of the error of its rank is no larger.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.settings import Target
from tallyveil.gate.strategies.offer import Limits
from tallyveil.knowledge import (
    CountedQuantile,
    DrawnStatistic,
    Knowledge,
    StatisticHistory,
    counted_quantiles,
)
from tallyveil.mechanisms import AUTO, STATISTICS, Statistic, rank_error
from tallyveil.mechanisms.units import from_units
from tallyveil.rewriter import Workload
from tallyveil.workload.histogram import Histogram

__all__ = ["FoundStatistic", "StatisticOffer", "Statistics", "for_counts"]

_MORE: Final = 1 + Fraction(1, 10**9)
_SAME: Final = 1 + 1e-12  # spreads that differ by less are one, rounded twice
_SAME_LAW: Final = {"geometric": "laplace"}


_Known: TypeAlias = DrawnStatistic | CountedQuantile | None


class FoundStatistic(NamedTuple):
    """A histogram of a request, the mechanism and scale by which it would be bought, and what is
    known of each group."""

    histogram: Histogram
    wanted: Statistic
    scale: float
    known: Sequence[_Known]

    @property
    def known_groups(self) -> int:
        return sum(one is not None for one in self.known)

    def bounds(self, confidence: Fraction, *, counted: bool = False) -> set[int]:
        """The half-widths of the groups' numbers, or the bounds of the errors of their ranks: of
        those drawn, or of those ``counted``."""
        if counted:
            return {one.rank_error for one in self.known if isinstance(one, CountedQuantile)}
        laws = {(o.mechanism, o.scale) for o in self.known if isinstance(o, DrawnStatistic)}
        return {self.half(STATISTICS[name], scale, confidence) for name, scale in laws}

    def half(self, by: Statistic, scale: float, confidence: Fraction) -> int:
        """The half-width of the interval, or of a quantile the bound of the error of its rank."""
        law = by.law(scale)
        if law is None:
            return rank_error(self.histogram, scale, confidence)
        return law.half_width(confidence)


@dataclass(frozen=True)
class StatisticOffer:
    """The purchase of the statistics of a ``histogram``, with some of the groups asked."""

    charge: Charge
    histogram: Histogram
    raised_to_least_cost: bool = False

    @property
    def table(self) -> str:
        return self.charge.table

    @property
    def row_count(self) -> int:
        return sum(self.charge.heights)


def for_counts(request: Request, table: str) -> Request:
    """The request with the share of its cost that is for counts."""
    if table not in request.histograms:
        return request
    return replace(request, target=_part(request, table, len(request.workloads[table].columns)))


def _part(request: Request, table: str, columns: int = 1) -> Target:
    """The target of a statistic, or of ``columns`` of counts: their part of the cost."""
    counts, target = request.workloads.get(table), request.target
    every = len(request.histograms[table]) + (0 if counts is None else len(counts.columns))
    costs = (c if c is None else c * columns / every for c in (target.epsilon, target.rho))
    epsilon, rho = costs
    return replace(target, epsilon=epsilon, rho=rho)


@dataclass(frozen=True, eq=False)
class Statistics:
    """For the tables of one policy. Threads may share it."""

    limits: Mapping[str, Limits]
    history: Mapping[str, StatisticHistory]

    def extent(self, request: Request) -> list[int]:
        """How much is recorded about each table."""
        return [self.history[table].extent() for table in request.histograms]

    def find(
        self, request: Request, counts: Mapping[str, Knowledge], bought: Collection[int] = ()
    ) -> dict[str, list[FoundStatistic]]:
        """What is known of each statistic, by the charges ``bought`` where these are about it, and
        how it would be bought. ``counts`` is what is known of counts.

        Raises FeatureNotSupported if it cannot be answered with these settings or under this
        policy, and InvalidParameterValue for a target that the table's budget cannot pay.
        """
        found: dict[str, list[FoundStatistic]] = {}
        for table, histograms in request.histograms.items():
            share = _part(request, table)
            for histogram in histograms:
                wanted = self._wanted(request, table, histogram, share)
                known = list[_Known](self.history[table].find(histogram, bought))
                one = FoundStatistic(histogram, *wanted, known)
                found.setdefault(table, []).append(one)
                level, fresh = request.target.confidence, request.source == "fresh"
                counted = [] if fresh else counted_quantiles(counts[table], histogram, level)
                for group, other in enumerate(counted):
                    drawn = one._replace(known=[known[group]] if other else [])
                    if other and other.rank_error < min(drawn.bounds(level), default=math.inf):
                        known[group] = other
        return found

    def offers(
        self, request: Request, found: Mapping[str, Sequence[FoundStatistic]]
    ) -> Iterator[StatisticOffer]:
        """What must be bought."""
        for table, each in found.items() if request.source != "history" else ():
            for one in each:
                short = [self._is_short(request, one, known) for known in one.known]
                if any(short):
                    groups = np.flatnonzero(short).astype(np.int64)
                    yield self._offer(request, table, one, one.histogram.take(groups))

    def _offer(
        self, request: Request, table: str, one: FoundStatistic, part: Histogram
    ) -> StatisticOffer:
        account, name, scale = self.limits[table].account, one.wanted.name, one.scale
        about = account.relation, account.measure
        raised = from_units(one.wanted.loss(part, scale, *about).bound) < account.least_cost
        if raised:  # by a little more, since the scale is rounded up
            scale = one.wanted.scale_for(part, account.least_cost * _MORE, *about)
        workload = Workload(table, (part.column,))
        charge = Charge(workload, name, (scale,), request.sql, histogram=part)
        return StatisticOffer(charge, part, raised)

    def _is_short(self, request: Request, one: FoundStatistic, known: _Known) -> bool:
        if known is None or request.source == "fresh":
            return True
        target = request.target
        if isinstance(known, CountedQuantile):
            return known.rank_error > one.half(one.wanted, one.scale, target.confidence)
        if target.half_width is not None:
            by = STATISTICS[known.mechanism], known.scale
            return one.half(*by, target.confidence) > target.half_width
        return known.spread > one.wanted.spread(one.scale) * _SAME

    def _wanted(
        self, request: Request, table: str, histogram: Histogram, share: Target
    ) -> tuple[Statistic, float]:
        """The mechanism and its scale. Noise is chosen as for the histogram's own rows."""
        limits, picks = self.limits[table], histogram.picks
        asked = request.by_invariants or request.mechanism
        allowed = limits.choice.allowed(table) is None
        refused, hint = None, "Ask for counts: SELECT attribute, count(*) … GROUP BY attribute."
        if limits.controlled:
            refused = f'the inference control of table "{table}" examines counts and sums only'
        elif request.all_looks:
            refused = "dp.coverage = always is for counts and sums only"
            hint = "SET dp.coverage = once."
        elif request.by_invariants or (picks and asked != AUTO):
            what = "a quantile or mode takes the exponential mechanism"
            what = what if picks else "a distinct count takes independent noise"
            refused, hint = f"{what}, and dp.mechanism is {asked}", "SET dp.mechanism = auto."
        elif picks and not allowed:
            refused = f'the policy of table "{table}" does not allow the mechanism of quantiles'
        elif picks and request.target.half_width is not None:
            refused = "dp.half_width is for counts and sums: a quantile has no such interval"
            hint = "SET dp.epsilon or dp.rho to what the statement may cost."
        if refused is not None:
            raise FeatureNotSupported(refused, hint=hint)
        rows, relation = Workload(table, (histogram.column,)), limits.account.relation
        name = limits.choice.noise(rows, share, asked, additive=True).mechanism.name
        what = "units" if histogram.units else "distinct"
        alone = "quantile" if histogram.q is not None else "mode"
        name = alone if picks else f"{what}_{_SAME_LAW.get(name, name)}"
        if name not in STATISTICS:
            raise FeatureNotSupported(
                f"a distinct count takes other noise than {asked}", hint="SET dp.mechanism = auto."
            )
        statistic = STATISTICS[name]
        if share.half_width is not None and statistic.noise is not None:
            half = math.floor(share.half_width)
            return statistic, statistic.noise.scale_for_half_width(half, share.confidence)
        if share.epsilon is not None:
            return statistic, statistic.scale_for(histogram, share.epsilon, relation, "epsilon")
        return statistic, statistic.scale_for(histogram, share.rho or Fraction(0), relation, "rho")
