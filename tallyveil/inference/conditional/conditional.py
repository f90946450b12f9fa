"""The law of independent noises given that they add up as the counts of a hierarchy do.

In an atom of a tree (`tree.Tree.atoms`) the noises u_i of the leaves are independent of law f, and
those of some inner counts v have laws g_v. The condition is that each u_v is the sum of the noises
inside it, and that the root is 0 if it is exact (INVARIANTS §5.1):

    P(u) ∝ ∏_leaves f(u_i) ∏_v g_v(Σ_{i in v} u_i).

Everything is computed on a circle of M integers, so large that no sum comes near its ends, from
f̂(θ) = E e^{iθu}, with θ in steps of 2π/M. A sum of n leaves has f̂ⁿ; weights a_i on the leaves make
it ∏ f̂(a_i t + θ), g_v convolves it with ĝ_v, and an exact root is the mean over θ. So φ is a mean
of products of positive numbers. Where only p leaves of one count have a weight, all the same one,
P(S = s) is proportional to P(p leaves sum to s) times P(all else sums to −s).

The independent noises dominate it (`weighted_draw`). Discrete Laplace noise mixes discrete
Gaussians, whose law on a sublattice has a smaller E e^{Σ a_i u_i} than on the whole lattice (Regev
& Stephens-Davidowitz 2017, "An Inequality for Gaussians on Lattices", Theorem 1.1). Conditioning on
the sums makes narrow Gaussians more likely, for which it is smaller too (Harris' inequality).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import Cache, cached_property
from tallyveil.inference.conditional.circle import (
    AT_ONCE,
    Complex,
    Jet,
    circle,
    jet_power,
    log_of,
    product,
    variance_of,
    with_noise,
)
from tallyveil.inference.conditional.tree import Node, Tree, first_alike
from tallyveil.inference.conditional.tree_sums import Levels, TreeSums, steps
from tallyveil.inference.conditional.weighted_draw import Weighted, WeightedGroups
from tallyveil.inference.laws.noise_law import NoiseLaw
from tallyveil.inference.laws.noises import JointNoise, Noises

__all__ = ["ConditionalLaw", "laws_of_atoms"]

_LARGE: Final = 20_000  # entries of all tables together
_DEAD: Final = -48.0  # the logarithm of a transform that is negligible

_numbers = itertools.count()

# A table too large to be cached beside others is cached until the next such one.
_ROOM: Final = 1 << 28
_SUMS: Final[Cache[TreeSums]] = Cache(4096, _ROOM, lambda _, sums: min(sums.nbytes, _ROOM))


class ConditionalLaw:
    """The law of an atom. ``parents[i]`` < i is the count around count i, −1 for the root 0;
    ``laws[i]`` is None for a count without noise of its own. A place is the number of a count; all
    leaves of one count share the place of the first. Within a process equal laws have one
    ``number``.

    Raises ValueError for leaves of several laws.
    """

    def __init__(self, parents: tuple[int, ...], laws: tuple[NoiseLaw | None, ...]) -> None:
        self.number = next(_numbers)
        inner = sorted({*parents[1:]})
        self._inside: dict[int, list[int]] = {v: [] for v in inner}
        self._leaves = dict.fromkeys(inner, 0)
        places, first = list(range(len(parents))), dict[int, int]()
        for number, parent in enumerate(parents[1:], 1):
            if number in self._leaves:
                self._inside[parent].append(number)
            else:
                self._leaves[parent] += 1
                places[number] = first.setdefault(parent, number)
        leaves = {law for number, law in enumerate(laws) if number not in self._leaves}
        law = leaves.pop() if len(leaves) == 1 else None
        if law is None:
            raise ValueError("the leaves of an atom have noise of one law")
        self.law, self._laws, self._parents = law, laws, parents
        self.places = np.array(places, dtype=np.int64)
        self.exact = laws[0] is not None and not laws[0].scale

    @cached_property
    def size(self) -> int:
        """M."""
        return circle(self.law, sum(self._leaves.values()))

    @cached_property
    def variances(self) -> FloatArray:
        """By place, variances of independent noises whose covariance, given the exact counts, is as
        near as possible to that of these. Weights of estimates are chosen by them. Leaves of which
        only the sum is exact have covariance c(I − J/n), as independent ones of variance c do."""
        own = self._alone.copy()
        if self._flat and self._leaves[0] > 1:
            own[1:] = self._spread
        return own

    @cached_property
    def _alone(self) -> FloatArray:
        """By count, the variance of its own noise if it were independent."""
        each = {law: 0.0 if law is None else law.variance for law in set(self._laws)}
        return np.array([each[law] for law in self._laws])

    @cached_property
    def _spread(self) -> float:
        n = self._leaves[0]
        return variance_of(self.masses(0, 1)) * n / (n - 1)

    def scaled(self, factor: float) -> ConditionalLaw:
        """The law of noises that are ``factor`` times as wide."""
        wider = {law: law and type(law)(law.scale * factor) for law in set(self._laws)}
        return _law(self._parents, tuple(wider[law] for law in self._laws))

    def single(self, place: int) -> Noises:
        """The noise in one place, by itself."""
        own = self._laws[place] or type(self.law)(0.0)
        here = np.array([place])
        together = JointNoise(np.zeros(1, dtype=np.int64), here, {0: self})
        return replace(Noises.of(type(own), own.scale), together=together)

    @cached_property
    def marginals(self) -> IntArray:
        """For each count the first place whose noise has the same marginal law."""
        return self.places[first_alike(self._parents, self._laws)]

    def functional(self, places: IntArray, weights: FloatArray) -> Weighted:
        """Σ weights · noises, over distinct noises at these places."""
        added = dict.fromkeys(self._inside, 0.0)
        own: dict[int, list[tuple[float, int]]] = {v: [] for v in self._inside}
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            if place in added:
                added[place] += weight
            else:
                own[self._parents[place]].append((weight, 1))
        for v, parent in zip(self._inside, (self._parents[v] for v in self._inside), strict=True):
            added[v] += added.get(parent, 0.0)
            more = [(weight + added[v], count) for weight, count in own[v]]
            own[v] = [*more, (added[v], self._leaves[v] - len(more))]
        bound = float(weights**2 @ self._alone[places])
        return Weighted.of(self, own, bound)

    @property
    def large(self) -> bool:
        """Whether it has so many levels that most sums get only bounds."""
        return not self._flat and self.size * len(self._leaves) > _LARGE

    def whole_or_part(self, groups: WeightedGroups) -> tuple[int, int] | None:
        """The count v and the number p if the groups are p leaves directly inside v, or for p = 0
        all leaves anywhere inside v; None otherwise."""
        if len(groups) == 1:
            [(v, own)] = groups.items()
            if len(own) == 1:
                return v, own[0][1]
        for v in self._inside:
            counts = {w: self._leaves[w] for w in self._within(v) if self._leaves[w]}
            if counts == {w: sum(count for _, count in own) for w, own in groups.items()}:
                return v, 0
        return None

    def _within(self, v: int) -> list[int]:
        found = [v]
        for one in found:
            found += self._inside[one]
        return found

    @property
    def _sums(self) -> TreeSums:
        def made() -> TreeSums:
            levels = Levels(self._inside, self._leaves, self._laws, self.exact)
            return TreeSums(self.law, levels, self.size)

        return _SUMS.get(self.number, made)

    def masses(self, v: int, leaves: int) -> FloatArray:
        """P(S = s), s = 0, 1, …, for the sum S of this number of leaves directly inside count v, or
        for 0 of all leaves inside it."""
        return self._sums.masses(v, leaves)

    def log_phi(self, groups: WeightedGroups, points: FloatArray) -> FloatArray:
        """ln φ of Σ a_i u_i at ``points``."""
        at_once = max(1, AT_ONCE // (self.work(groups) if self._flat else self.size))
        found = [np.zeros(0)]
        total = self._mean(groups, np.zeros(1))[0]
        for start in range(0, len(points), at_once):
            deadline.check()
            found.append(self._mean(groups, points[start : start + at_once]) / total)
        return log_of(np.concatenate(found))

    @cached_property
    def _flat(self) -> bool:
        """Whether it has only leaves, whose sum is exact."""
        return self.exact and len(self._leaves) == 1

    def work(self, groups: WeightedGroups) -> int:
        """About the number of operations of `log_phi` for each point."""
        if self._flat:
            left = self._leaves[0] - sum(count for _, count in groups.get(0, ()))
            return len(self._angles(left)) * (len(groups.get(0, ())) + 1) * 8
        factors = sum(len(own) + 1 for own in groups.values()) + len(self._leaves)
        return self.size * factors * 16

    def _angles(self, leaves: int) -> FloatArray:
        """The θ at which the transform of a sum of this number of leaves is not negligible."""
        angles = 2 * math.pi / self.size * np.arange(self.size, dtype=np.float64)
        return angles[leaves * np.log(np.maximum(self._phi(angles), 1e-300)) > _DEAD]

    def _mean_of_flat(self, groups: WeightedGroups, points: FloatArray) -> FloatArray:
        left = self._leaves[0] - sum(count for _, count in groups.get(0, ()))
        angles = self._angles(left)
        here = self._phi(angles) ** left
        for weight, count in groups.get(0, ()):
            here = here * self._phi(weight * points[:, None] + angles) ** count
        result: FloatArray = np.broadcast_to(here, (len(points), len(angles))).sum(axis=1)
        return result / self.size

    def _mean(self, groups: WeightedGroups, points: FloatArray) -> FloatArray:
        if self._flat:
            return self._mean_of_flat(groups, points)
        angles = 2 * math.pi / self.size * np.arange(self.size, dtype=np.float64)
        found: dict[int, Complex] = {}
        for v in reversed(self._inside):
            left = self._leaves[v]
            here = np.ones((len(points), self.size), dtype=np.complex128)
            for weight, count in groups.get(v, ()):
                left -= count
                here = here * self._phi(weight * points[:, None] + angles) ** count
            here = here * self._phi(angles) ** left
            for child in self._inside[v]:
                here = here * found.pop(child)
            own = self._sums.own_of(v)
            found[v] = here if own is None or not v else np.fft.fft(np.fft.ifft(here) * own)
        return self._at_root(found[0])

    def _phi(self, angles: FloatArray) -> FloatArray:
        around = np.abs((angles + math.pi) % (2 * math.pi) - math.pi)
        return self.law.phi(around.ravel()).reshape(angles.shape)

    def variance(self, groups: WeightedGroups) -> float:
        """E (Σ a_i u_i)², from the first two derivatives by t of each sum's transform."""
        if self._flat and self._leaves[0] > 1:
            sums = [sum(a**k * count for a, count in groups.get(0, ())) for k in (1, 2)]
            return max(0.0, self._spread * (sums[1] - sums[0] ** 2 / self._leaves[0]))
        line, found = steps(self.size), dict[int, Jet]()
        law = np.exp(self.law.log_mass(line))
        leaf = [np.fft.fft((1j * line) ** k * law) for k in range(3)]
        for v in reversed(self._inside):
            left = self._leaves[v] - sum(count for _, count in groups.get(v, ()))
            here = jet_power((leaf[0], 0 * leaf[1], 0 * leaf[2]), left)
            for a, count in groups.get(v, ()):
                here = product(here, jet_power((leaf[0], a * leaf[1], a * a * leaf[2]), count))
            for child in self._inside[v]:
                here = product(here, found.pop(child))
            own = self._sums.own_of(v)
            if own is not None and v:
                here = with_noise(here, own)
            found[v] = here
        at = [self._at_root(one) for one in found[0]]
        return max(0.0, -float(at[2] / at[0]))

    def _at_root(self, sums: Complex) -> FloatArray:
        """Sum over θ, the last axis, given the root: 0 if it is exact, else with its own noise."""
        own = self._sums.own_of(0)
        if self.exact:
            return np.real(sums.mean(axis=-1))
        return np.real(sums[..., 0] if own is None else (np.fft.ifft(sums) * own).sum(axis=-1))


def laws_of_atoms(tree: Tree) -> list[tuple[Node, ConditionalLaw, dict[int, int]]]:
    """For each atom of several counts: its root, its law, and the place of each count in it."""
    found = []
    for root in deadline.stoppable(tree.atoms, 50):
        if root.children:
            nodes, parents = [root], [-1]
            for number, node in enumerate(nodes):
                nodes.extend(node.children)
                parents.extend([number] * len(node.children))
            law = _law(tuple(parents), tuple(node.law for node in nodes))
            places = {node.number: int(law.places[n]) for n, node in enumerate(nodes)}
            found.append((root, law, places))
    return found


_LAWS: Final[Cache[ConditionalLaw]] = Cache(1024, 1 << 27, lambda _, law: _COUNT * len(law.places))
_COUNT: Final = 500  # bytes


def _law(parents: tuple[int, ...], laws: tuple[NoiseLaw | None, ...]) -> ConditionalLaw:
    return _LAWS.get((parents, laws), lambda: ConditionalLaw(parents, laws))
