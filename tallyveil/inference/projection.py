"""The nearest values that satisfy the relations between rows, and are not negative where asked.

    argmin Σ_i (x_i − v_i)² / V_i   over R x = b, and x_i ≥ 0 for counts,

which is x = v + V Rᵀμ, raised to 0 for counts, for the μ with R x = b: the gradient of a convex
function of μ, found by Newton's method. Without counts it is linear in μ, and one step finds it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu

from tallyveil import deadline
from tallyveil.inference.noise import FloatArray

__all__ = ["projected"]

_STEPS: Final = 100
_SHORTER: Final = 40  # times a step is halved
_OFF: Final = 1e-8  # of a relation
_DESCENT: Final = 1e-4
_RIDGE: Final = 1e-10  # of the largest pivot, since relations may follow from one another


def projected(
    relations: sparse.csr_matrix,
    totals: FloatArray,
    values: FloatArray,
    variances: FloatArray,
    counts: npt.NDArray[np.bool_] | None = None,
) -> FloatArray | None:
    """``relations`` (r×k) of ``totals`` (r), for ``values`` (k) of ``variances`` V. A value of
    variance 0 stays. None if nothing was found that satisfies the relations, or nothing does.
    """
    system = _System(relations.astype(np.float64), values, variances, counts)
    before = system.relations @ values - totals
    dual = np.zeros(len(totals))
    moved = system.moved(dual)
    off = before + system.relations @ moved
    for _ in range(_STEPS):
        deadline.check()
        if np.abs(off).max(initial=0) <= _OFF:
            return values + moved
        step = system.newton(moved, off)
        here, length = system.height(dual, moved) + before @ dual, 1.0
        for _ in range(_SHORTER):
            further = dual + length * step
            found = system.moved(further)
            left = before + system.relations @ found
            # Near the end the function no longer tells one value from another.
            lower = system.height(further, found) + before @ further
            if 2 * np.abs(left).max() <= np.abs(off).max():
                break
            if lower <= here + _DESCENT * length * (off @ step):
                break
            length /= 2
        dual, moved, off = further, found, left
    return None


class _System:
    """In deviations d = x − v, so that large counts lose no digits."""

    def __init__(
        self,
        relations: sparse.csr_matrix,
        values: FloatArray,
        variances: FloatArray,
        counts: npt.NDArray[np.bool_] | None,
    ) -> None:
        self.relations, self._variances = relations, variances
        at_least_0 = np.zeros(len(values), bool) if counts is None else counts & (variances > 0)
        self._least = np.where(at_least_0, -values, -np.inf)

    def moved(self, dual: FloatArray) -> FloatArray:
        """d = V Rᵀμ, and at least −v for counts."""
        found: FloatArray = np.maximum(self._variances * (self.relations.T @ dual), self._least)
        return found

    def height(self, dual: FloatArray, moved: FloatArray) -> float:
        """Σ d (Rᵀμ) − d² / 2V, which has the gradient R d."""
        some = self._variances > 0
        own, slope = moved[some], (self.relations.T @ dual)[some]
        return float((own * slope - own * own / (2 * self._variances[some])).sum())

    def newton(self, moved: FloatArray, off: FloatArray) -> FloatArray:
        """−(R V Rᵀ)⁻¹ (R x − b), over the values that are not at 0."""
        moving = np.where(moved > self._least, self._variances, 0.0)
        normal = (self.relations.multiply(moving) @ self.relations.T).tocsc()
        pivot = float(normal.diagonal().max(initial=0)) or 1.0
        step: FloatArray = -splu(normal + _RIDGE * pivot * sparse.eye_array(len(off))).solve(off)
        return step
