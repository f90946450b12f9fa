"""The nearest values that satisfy the relations between rows, and are not negative where asked.

    argmin Σ_i (x_i − v_i)² / V_i   over R x = b, and x_i ≥ 0 for counts,

which is x = v + V Rᵀμ, raised to 0 for counts, for the μ with R x = b: the gradient of a convex
function of μ, found by Newton's method. Without counts it is linear in μ, so that R V Rᵀ is
factored once, and a second step corrects the rounding errors in R x − b. R V Rᵀ is diagonal where
no two relations share a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import splu

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray

__all__ = ["projected"]

_STEPS: Final = 100
_SHORTER: Final = 40  # times that a step is halved at most
_OFF: Final = 1e-8  # the error that a relation may have, in units of `_unit`
_REACH: Final = 20  # bits by which values are moved in such units, at most at first
_DESCENT: Final = 1e-4
_RIDGE: Final = 1e-10  # of the largest pivot, since relations may follow from one another
_REFINED: Final = 20
_DENSE: Final = 2_000  # the most relations solved as a dense system
_SHARED: Final = 20  # relations that each shares a value with, on average, if there are more
_FILLED: Final = 50  # and if at least one in this number of pairs shares a value


def projected(
    relations: sparse.csr_matrix,
    totals: FloatArray,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None = None,
) -> FloatArray | None:
    """``relations`` (r×k) of ``totals`` (r), for ``values`` (k) of ``variances`` V. A value of
    variance 0 stays. None if no solution of the relations was found, or none exists, or too many of
    them share values.
    """
    relations = relations.astype(np.float64, copy=False)
    unit = _unit(relations, totals, values, counts)
    if unit != 1:
        totals, values, variances = totals / unit, values / unit, variances / unit**2
    found = (
        _linear(relations, totals, values, variances)
        if counts is None
        else _at_least_0(relations, totals, values, variances, counts)
    )
    return None if found is None else found * unit


def _unit(
    relations: sparse.csr_matrix, totals: FloatArray, values: FloatArray, counts: BoolArray | None
) -> float:
    """A power of 2, greater than 1 where values are moved so far that doubles cannot be precise to
    `_OFF`."""
    start = values if counts is None else np.where(counts, np.maximum(values, 0), values)
    off = float(np.abs(totals - relations @ start).max(initial=0))
    return math.ldexp(1, max(0, math.frexp(off)[1] - _REACH)) if math.isfinite(off) else 1.0


def _at_least_0(
    relations: sparse.csr_matrix,
    totals: FloatArray,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray,
) -> FloatArray | None:
    """As `projected`, with counts, none of which becomes negative."""
    system = _System(relations, values, variances, counts)
    before = system.relations @ values - totals
    dual = np.zeros(len(totals))
    moved = system.moved(dual)
    off = before + system.relations @ moved
    for _ in range(_STEPS):
        deadline.check()
        if np.abs(off).max(initial=0) <= _OFF:
            return values + moved
        step = system.newton(moved, off)
        if step is None:
            return None
        here, length = system.height(dual, moved) + before @ dual, 1.0
        for _ in range(_SHORTER):
            further = dual + length * step
            found = system.moved(further)
            left = before + system.relations @ found
            # Near the end, values of the function differ by less than rounding.
            lower = system.height(further, found) + before @ further
            if 2 * np.abs(left).max() <= np.abs(off).max():
                break
            if lower <= here + _DESCENT * length * (off @ step):
                break
            length /= 2
        dual, moved, off = further, found, left
    return None


def _linear(
    relations: sparse.csr_matrix, totals: FloatArray, values: FloatArray, variances: FloatArray
) -> FloatArray | None:
    """As `projected`, without counts."""
    solve = _solver(relations, variances)
    if solve is None:
        return None
    before = totals - relations @ values
    off, moved = before, np.zeros(len(values))
    for _ in range(_REFINED):
        deadline.check()
        if np.abs(off).max(initial=0) <= _OFF:
            return values + moved
        moved += variances * (relations.T @ solve(off))
        off = before - relations @ moved
    return None


def _solver(
    relations: sparse.csr_matrix, variances: FloatArray
) -> Callable[[FloatArray], FloatArray] | None:
    """A function that multiplies by about (R V Rᵀ)⁻¹; None as `_factored`."""
    if np.bincount(relations.indices, minlength=1).max() <= 1:
        pivots = relations.power(2) @ variances
        noisy = pivots >= np.finfo(np.float64).tiny
        inverse = np.divide(1, pivots, out=np.zeros(len(pivots)), where=noisy)
        return partial(np.multiply, inverse)
    return _factored((relations.multiply(variances).tocsr() @ relations.T).tocsc())


def _factored(normal: sparse.csc_matrix) -> Callable[[FloatArray], FloatArray] | None:
    """A function that multiplies by about the inverse; None if the matrix is large and relations
    share values with many others: a cube of three keys and 4,851 groups took minutes."""
    number = normal.shape[0]
    ridge = _RIDGE * (float(normal.diagonal().max(initial=0)) or 1.0)
    normal = normal + ridge * sparse.eye_array(number)
    if number > _DENSE and normal.nnz > _SHARED * number:
        return None
    if number <= _DENSE and normal.nnz * _FILLED > number**2:
        with suppress(np.linalg.LinAlgError):
            return partial(cho_solve, cho_factor(normal.toarray()))
    factored: Callable[[FloatArray], FloatArray] = splu(normal.tocsc()).solve
    return factored


class _System:
    """The problem in deviations d = x − v, so that large counts lose no digits."""

    def __init__(
        self,
        relations: sparse.csr_matrix,
        values: FloatArray,
        variances: FloatArray,
        counts: BoolArray,
    ) -> None:
        self.relations, self._variances = relations, variances
        self._least = np.where(counts & (variances > 0), -values, -np.inf)

    def moved(self, dual: FloatArray) -> FloatArray:
        """d = V Rᵀμ, and at least −v for counts."""
        found: FloatArray = np.maximum(self._variances * (self.relations.T @ dual), self._least)
        return found

    def height(self, dual: FloatArray, moved: FloatArray) -> float:
        """Σ d (Rᵀμ) − d² / 2V, whose gradient is R d."""
        some = self._variances > 0
        own, slope = moved[some], (self.relations.T @ dual)[some]
        return float((own * slope - own * own / (2 * self._variances[some])).sum())

    def newton(self, moved: FloatArray, off: FloatArray) -> FloatArray | None:
        """−(R V Rᵀ)⁻¹ (R x − b), over the values that are not at 0; None as `_factored`."""
        moving = np.where(moved > self._least, self._variances, 0.0)
        normal = (self.relations.multiply(moving) @ self.relations.T).tocsc()
        solve = _factored(normal)
        return None if solve is None else -solve(off)
