"""The covariance of least trace with which several rows can be told at a cost.

    min tr Σ   over Σ and Λ, with (a_j − Λc_j)ᵀ Σ⁻¹ (a_j − Λc_j) ≤ 1 for every cell j,

where a_j and c_j are the columns of the rows asked and of rows that are exact. Noise of covariance
Σ/2ρ then costs each cell ρ at most, charged as a translate by Λ. It is convex, and its dual is

    max (tr M^½)²   over weights p ≥ 0 of the cells, Σp = 1,
    M = APAᵀ − APCᵀ (CPCᵀ)⁺ CPAᵀ,   Λ = APCᵀ (CPCᵀ)⁺,

found by p ← p √q, q_j = r_jᵀ M^−½ r_j / tr M^½ of the residuals r_j = a_j − Λc_j. At every step
Σ = max_j q_j · tr M^½ · M^½ is feasible, so that it is within max_j q_j of the least.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from tallyveil import deadline
from tallyveil.inference.noise import FloatArray

__all__ = ["LeastTrace", "least_trace"]

_STEPS: Final = 500
_TINY: Final = 1e-9  # of the largest root


class LeastTrace(NamedTuple):
    """``covariance`` Σ (k×k) and ``factors`` Λ (k×r); ``bound``: no covariance has a lesser
    trace."""

    covariance: FloatArray
    factors: FloatArray
    bound: float

    @property
    def trace(self) -> float:
        return float(np.trace(self.covariance))


def least_trace(rows: FloatArray, exact: FloatArray, within: float = 1.01) -> LeastTrace:
    """For ``rows`` A (k×n) and ``exact`` ones C (r×n), up to a factor ``within``."""
    p = np.full(rows.shape[1], 1 / rows.shape[1])
    for _ in range(_STEPS):
        deadline.check()
        weighted = exact * p
        factors = rows @ weighted.T @ np.linalg.pinv(weighted @ exact.T, hermitian=True)
        left = rows - factors @ exact
        values, vectors = np.linalg.eigh((left * p) @ left.T)
        roots = np.sqrt(np.clip(values, 0, None))
        keep = roots > _TINY * roots.max(initial=0)
        if not keep.any():
            return LeastTrace(np.zeros((len(rows), len(rows))), factors, 0.0)
        roots, vectors = roots[keep], vectors[:, keep]
        share = ((vectors.T @ left) ** 2 / roots[:, None]).sum(axis=0) / roots.sum()
        if share.max() <= within:
            break
        p = p * np.sqrt(share)
        p /= p.sum()
    whole = (vectors * roots) @ vectors.T * (roots.sum() * share.max())
    return LeastTrace(whole, factors, float(roots.sum() ** 2))
