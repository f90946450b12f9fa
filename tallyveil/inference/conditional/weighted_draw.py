"""Weighted sums of noises that were drawn under the condition that they add up.

Their joint law is symmetric about 0. `noises.Noises` also gives each noise an independent law N_i,
and these *dominate*: for all weights a

    E e^{Σ a_i u_i} ≤ Π E e^{a_i N_i},

so that tail bounds may treat the noises as independent. Variances, intervals and probabilities are
those of the joint law itself.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property
from tallyveil.inference.conditional.circle import cosines, log_of, variance_of
from tallyveil.inference.laws.weighted_noise import sum_bound

if TYPE_CHECKING:
    from tallyveil.inference.conditional.conditional import ConditionalLaw

__all__ = ["Weighted", "WeightedGroups"]

_ALIKE: Final = 1e-10  # weights that differ by less, of the largest, differ by rounding errors

WeightedGroups: TypeAlias = Mapping[int, Sequence[tuple[float, int]]]
"""For each count the weights of the leaves directly inside it, and how many leaves have each."""


@dataclass(frozen=True, eq=False)
class Weighted:
    """X = Σ a_i u_i with the ``groups`` of weights of the leaves, without those of weight 0; its φ
    is not negative. ``bound`` is the variance of the independent noises that dominate it, which is
    no less than its own. ``slack`` bounds the part left out of X, except with probability 1e-20.
    """

    law: ConditionalLaw
    groups: WeightedGroups
    bound: float
    slack: float = 0.0

    @classmethod
    def of(cls, law: ConditionalLaw, groups: WeightedGroups, bound: float) -> Weighted:
        """Make weights that differ only by rounding errors equal. Where all leaves add up to 0,
        subtract the most frequent weight from all."""
        every = [one for own in groups.values() for one in own if one[1]]
        room = _ALIKE * max((abs(a) for a, _ in every), default=0.0)
        nearest, head = {0.0: 0.0}, -math.inf
        for a in sorted({a for a, _ in every}):
            head = 0.0 if abs(a) <= room else head if a - head <= room else a
            nearest[a] = head
        off = [abs(a - nearest[a]) for a, count in every if a != nearest[a] for _ in range(count)]
        counts = Counter[float]()
        for a, count in every:
            counts[nearest[a]] += count
        usual = counts.most_common(1)[0][0] if law.exact and counts else 0.0
        moved = {}
        for v, own in groups.items():
            own_counts = Counter[float]()
            for a, count in own:
                own_counts[nearest.get(a, a) - usual] += count
            kept = [(a, count) for a, count in sorted(own_counts.items()) if a and count]
            if kept:
                moved[v] = kept
        return cls(law, moved, bound, sum_bound(np.array(off) * law.law.scale, 1e-20))

    @cached_property
    def variance(self) -> float:
        """Var X, or for a large law the ``bound`` where the sum has no table."""
        known = self.masses() if self.groups else (0.0, np.ones(1))
        if known is not None:
            return known[0] ** 2 * variance_of(known[1])
        return self.bound if self.law.large else self.law.variance(self.groups)

    @cached_property
    def _leaves(self) -> Mapping[float, int]:
        """The number of leaves by the absolute value of their weight."""
        found = Counter[float]()
        for a, count in itertools.chain.from_iterable(self.groups.values()):
            found[abs(a)] += count
        return found

    @property
    def steps(self) -> FloatArray:
        """X is a sum of whole multiples of these; empty if X is 0."""
        return np.array(list(self._leaves))

    @property
    def scales(self) -> FloatArray:
        """For each step at least the scale of a noise as wide as the sum of its leaves."""
        return self.law.law.scale * np.array(list(self._leaves.values()))

    def in_units(self, step: float) -> Weighted:
        """X/step, whose steps are integers; rounding errors are removed."""
        groups = {
            v: [(float(round(a / step)), count) for a, count in own]
            for v, own in self.groups.items()
        }
        return Weighted(self.law, groups, self.bound / step**2)

    @cached_property
    def work(self) -> int:
        """About the number of operations of `log_phi` for each point."""
        if not self.groups:
            return 0
        known = self.masses()
        return self.law.work(self.groups) if known is None else 8 * len(known[1])

    def masses(self) -> tuple[float, FloatArray] | None:
        """A step g and P(X = kg), k = 0, 1, …, to within 1e-13; None where X is on no such lattice,
        or only `log_phi` can be computed."""
        found = self.law.whole_or_part(self.groups) if len(self.steps) == 1 else None
        signs = {a > 0 for own in self.groups.values() for a, _ in own}
        if found is None or len(signs) > 1:
            return None
        return float(self.steps[0]), self.law.masses(*found)

    def log_phi(self, points: FloatArray) -> FloatArray:
        """ln E e^{itX} at t = ``points``, −∞ where that is negligible; φ is within 1e-13."""
        if not self.groups:
            return np.zeros(len(points))
        known = self.masses()
        if known is None:
            return self.law.log_phi(self.groups, points)
        return log_of(cosines(known[1], known[0] * points))
