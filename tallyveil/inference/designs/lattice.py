"""The lattice of groupings: marginals, CUBE and ROLLUP.

Axis a has blocks of sizes 1 = s_0 | s_1 | … | s_h = n_a, and a grouping has a block size on each
axis. With Avg_s = block averages, each level ℓ = (s on each axis) has the detail projector

    P_ℓ = ⊗_a (Avg_s − Avg_s⁺),     s⁺ the next larger size on the axis (Avg_n at the end).

For the groupings asked, of weights c_B, let G = Σ c_B BᵀB, load t_ℓ = tr(G P_ℓ), and share
d_ℓ = (P_ℓ)_jj of any cell j. Precision X = Σ λ_ℓ P_ℓ gives the total Σ t_ℓ/λ_ℓ.

- *Contrasts* have any λ ≥ 0 and cost Σ λ_ℓ d_ℓ/2 in ρ. The best is λ_ℓ ∝ √(t_ℓ/d_ℓ), with the total
  (Σ √(t_ℓ d_ℓ))²/2 at ρ = 1 (ResidualPlanner: Xiao, He, Zhang & Kifer, NeurIPS 2023).
- A *union* of groupings, of weights w_k, has λ = M w with M_ℓk = s_k [s_k ≤ s_ℓ on every axis], s_k
  the cells of a block of k. It costs Σ √(2 w_k) in ε and Σ w_k/2 in ρ. Fixed coefficients of the
  estimates give grouping k the share e_k/w_k of the error, e_k = w_k² (Mᵀ t/λ²)_k. Then the cost is
  best divided as w_k ∝ e_k^⅔ (ε) or √e_k (ρ). Both steps in turn can only lower the total.

``targets`` V bound the variances of rows: c_B ← max(1, c_B Var_B/V_B), the multipliers of these
bounds. For the least variance of the worst row, c_B ← c_B Var_B. Otherwise c_B are ``weights``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property

__all__ = ["Design", "Lattice", "Sizes"]

Measure: TypeAlias = Literal["epsilon", "rho"]

Sizes: TypeAlias = tuple[int, ...]
"""By axis the number of cells in a block of a grouping."""

_STEPS: Final = 400
_ROUNDS: Final = 100  # updates of the weights of rows
_MET: Final = 1.002  # times a bound is still met
_NOTHING: Final = 1e-12  # of the largest load: rounding
_STILL: Final = 1e-12  # changes of all shares: no more will follow
_GONE: Final = 1e-9  # of the cost: the iteration has dropped the grouping
_HEAVIEST: Final = 1e9  # weight of rows, where their bound cannot be met
_LEAST: Final = 1e-4  # of the cost: a share below it is left out
_START: Final = 0.02  # of each other grouping, where one is put first
_BITS: Final = 16  # so that what is bought does not depend on the last digits
_BETTER: Final = 1 - 1e-3  # of the total of an earlier start is clearly better


@dataclass(frozen=True, eq=False)
class Design:
    """The ``precisions`` (λ of a level, or w of a grouping) of what is bought, by its sizes;
    ``variances`` of the rows of each grouping asked, when the cost is 1."""

    precisions: dict[Sizes, float]
    variances: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Lattice:
    """``chains`` has the block sizes of each axis, from 1 to all of its cells; ``asked`` are the
    groupings asked, each once; ``weights`` are those of their rows in the total, 1 if left out."""

    chains: tuple[Sizes, ...]
    asked: tuple[Sizes, ...]
    weights: tuple[float, ...] = ()

    @cached_property
    def levels(self) -> list[Sizes]:
        return [*itertools.product(*self.chains)]

    @cached_property
    def heights(self) -> FloatArray:
        """The number of rows of each grouping asked."""
        sizes = [chain[-1] for chain in self.chains]
        return np.array(
            [math.prod(n // w for n, w in zip(sizes, own, strict=True)) for own in self.asked],
            dtype=np.float64,
        )

    @cached_property
    def times(self) -> FloatArray:
        """By grouping asked, what the variance of its rows is multiplied by in the total."""
        return self.heights * (self.weights or 1.0)

    @cached_property
    def shares(self) -> FloatArray:
        """d_ℓ."""
        each = [_details([1 / s for s in chain]) for chain in self.chains]
        return np.array([math.prod(own) for own in itertools.product(*each)])

    @cached_property
    def loads(self) -> FloatArray:
        """By grouping asked and level, q P_ℓ qᵀ of each of its rows q."""
        found = []
        for own in self.asked:
            each = [
                _details([float(w if s <= w else w * w / s) for s in chain])
                for w, chain in zip(own, self.chains, strict=True)
            ]
            found.append([math.prod(one) for one in itertools.product(*each)])
        return np.array(found)

    @cached_property
    def matrix(self) -> FloatArray:
        """M."""
        levels = np.array(self.levels)
        within = (levels[None, :, :] <= levels[:, None, :]).all(axis=2)
        found: FloatArray = within * levels.prod(axis=1).astype(np.float64)[None, :]
        return found

    def contrasts(self, objective: str, targets: Sequence[float] | None = None) -> Design:
        """The best λ in ρ, at ρ = 1."""
        weights = np.ones(len(self.asked))
        for _ in range(_ROUNDS if targets is not None or objective == "worst" else 1):
            ratios = np.sqrt(self._load(weights) / self.shares)
            found = 2 * ratios / (ratios @ self.shares)
            weights = self._weighed(weights, self._variances(found), objective, targets)
        found = _rounded(found)
        return self._design(found, found)

    def union(
        self, measure: Measure, objective: str, targets: Sequence[float] | None = None
    ) -> Design:
        """The best w that the iteration finds, at ε = 1 or ρ = 1: from equal weights, and from each
        grouping first, since in ε there are several optima."""
        power, number = 3 if measure == "epsilon" else 2, len(self.levels)
        starts = [np.full(number, 1.0)]
        if power == 3:
            starts += [np.where(np.arange(number) == k, 1.0, _START) for k in range(number)]
        shares = np.array(starts)
        shares /= shares.sum(axis=1, keepdims=True)
        weights = np.ones((len(shares), len(self.asked)))
        for _ in range(_STEPS):
            deadline.check()
            w = _precision(shares, power)
            inverse = _inverse(w @ self.matrix.T)
            errors = (w**2 * ((self._load(weights) * inverse**2) @ self.matrix)) ** (1 / power)
            before, shares = shares, errors / errors.sum(axis=1, keepdims=True)
            shares = np.where(shares < _GONE, 0.0, shares)
            weights = self._weighed(weights, inverse @ self.loads.T, objective, targets)
            if np.abs(shares - before).max() < _STILL:
                break
        shares = np.where(shares < _LEAST, 0.0, shares)
        shares = np.array([_rounded(own / own.sum()) for own in shares])
        shares /= shares.sum(axis=1, keepdims=True)
        best, least = 0, math.inf
        for place, own in enumerate(
            self._variances(self.matrix @ w) for w in _precision(shares, power)
        ):
            met = targets is None or (own <= np.array(targets) * _MET).all()
            error = float(own.max() if objective == "worst" else self.times @ own)
            if met and error < least * _BETTER:
                best, least = place, error
        w = _precision(shares[best], power)
        return self._design(w, self.matrix @ w)

    def directly(self, measure: Measure, number: int) -> tuple[float, ...]:
        """The variances of rows if the first ``number`` groupings asked are bought as asked."""
        own = np.array([float(size in self.asked[:number]) for size in self.levels]) / number
        w = _precision(own, 3 if measure == "epsilon" else 2)
        return tuple(self._variances(self.matrix @ w).tolist())

    def by_union(self, weights: Sequence[float]) -> FloatArray:
        """The variances of rows of each grouping asked, from a union of these weights by level."""
        return self._variances(self.matrix @ np.array(weights))

    def bound(self, measure: Measure) -> float:
        """No total is less: ‖W‖_*²/(2n) in ρ, four times that in ε (Li & Miklau 2013)."""
        least = float(np.sqrt(self._load(np.ones(len(self.asked))) * self.shares).sum() ** 2 / 2)
        return 4 * least if measure == "epsilon" else least

    def _weighed(
        self,
        weights: FloatArray,
        variances: FloatArray,
        objective: str,
        targets: Sequence[float] | None,
    ) -> FloatArray:
        if objective == "worst":
            weights = weights * variances
            weights = weights / weights.max(axis=-1, keepdims=True)
        elif targets is not None:
            weights = np.clip(weights * variances / np.array(targets), 1.0, _HEAVIEST)
        return weights

    def _load(self, weights: FloatArray) -> FloatArray:
        loads = (weights * self.times) @ self.loads
        found: FloatArray = np.where(
            loads > _NOTHING * loads.max(axis=-1, keepdims=True), loads, 0.0
        )
        return found

    def _variances(self, precisions: FloatArray) -> FloatArray:
        """Of a row of each grouping asked; infinite where a level it needs is not bought."""
        loads = np.where(self.loads > _NOTHING * self.loads.max(), self.loads, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.where(loads > 0, loads / precisions, 0.0)
        found: FloatArray = each.sum(axis=1)
        return found

    def _design(self, bought: FloatArray, precisions: FloatArray) -> Design:
        own = {size: one for size, one in zip(self.levels, bought.tolist(), strict=True) if one}
        return Design(own, tuple(self._variances(precisions).tolist()))


def _details(values: Sequence[float]) -> list[float]:
    """Each value less the next one."""
    return [a - b for a, b in itertools.pairwise((*values, 0.0))]


def _precision(shares: FloatArray, power: int) -> FloatArray:
    """w of groupings that have these shares of the cost 1: u²/2 in ε, 2u in ρ."""
    found: FloatArray = shares**2 / 2 if power == 3 else 2 * shares
    return found


def _inverse(values: FloatArray) -> FloatArray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


def _rounded(values: FloatArray) -> FloatArray:
    parts, powers = np.frexp(values)
    found: FloatArray = np.ldexp(np.rint(np.ldexp(parts, _BITS)), powers - _BITS)
    return found
