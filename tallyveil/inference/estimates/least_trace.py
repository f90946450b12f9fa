"""Noise covariances for several rows at a given cost: the one of least trace, and SUBSPACE's.

    min tr Σ   over Σ and Λ, with (a_j − Λc_j)ᵀ Σ⁻¹ (a_j − Λc_j) ≤ 1 for every cell j,

where a_j and c_j are the columns of the rows asked and of rows that are exact. Noise of covariance
Σ/2ρ then costs each cell ρ at most, charged as a translate by Λ. It is convex, and its dual is

    max (tr M^½)²   over weights p ≥ 0 of the cells, Σp = 1,
    M = APAᵀ − APCᵀ (CPCᵀ)⁺ CPAᵀ,   Λ = APCᵀ (CPCᵀ)⁺,

found by p ← p √q, q_j = r_jᵀ M^−½ r_j / tr M^½ of the residuals r_j = a_j − Λc_j. At every step
Σ = max_j q_j · tr M^½ · M^½ is feasible, so that it is within max_j q_j of the least.

The correlated noise of SUBSPACE (Algorithms 2 and 3) is for reproduction. It finds the ellipsoid of
least volume around all ±a_j, the columns of A, splits off the shorter half of its axes, and repeats
with the columns projected on the other axes. With U_i the axes of part i of m, and r_i the greatest
‖U_iᵀ a_j‖, Σ = m Σ_i r_i² U_i U_iᵀ costs a_jᵀ Σ⁻¹ a_j ≤ 1. Axes of equal length are chosen by a
rule (`canonical.orthonormal`), which the papers leave open. It is always worse than the least
trace, and for GROUP BY worse than noise of one σ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.inference.canonical import first_largest, first_least, orthonormal

__all__ = ["correlated", "least_trace"]

_STEPS: Final = 500
_TINY: Final = 1e-9  # of the largest length
_NO_ROOT: Final = 1e-6  # of the largest root: rounding leaves 1e-8 of a root that is 0
_LEAST: Final = 1e-6  # of all weight: so that Λ is determined on cells without weight, too
_DEPENDENT: Final = 1e-12  # of the largest: below it an exact row follows from others

_ELLIPSOID_STEPS: Final = 20_000
_CLOSE: Final = 1e-4
_ALIKE: Final = 1e-3  # axes differ by less if they are equal and the ellipsoid is this close
_AGAIN: Final = 50  # steps between two factorisations


class LeastTrace(NamedTuple):
    """``covariance`` Σ (k×k) and ``factors`` Λ (k×r). No covariance has a trace below ``bound``."""

    covariance: FloatArray
    factors: FloatArray
    bound: float


def least_trace(rows: FloatArray, exact: FloatArray, within: float = 1.01) -> LeastTrace:
    """Σ and Λ for ``rows`` A (k×n) and ``exact`` rows C (r×n), within a factor ``within`` of the
    least trace."""
    p = np.full(rows.shape[1], 1 / rows.shape[1])
    for _ in range(_STEPS):
        deadline.check()
        weighted = exact * p
        inverse = np.linalg.pinv(weighted @ exact.T, _DEPENDENT, hermitian=True)
        factors = rows @ weighted.T @ inverse
        left = rows - factors @ exact
        values, vectors = np.linalg.eigh((left * p) @ left.T)
        roots = np.sqrt(np.clip(values, 0, None))
        keep = roots > _NO_ROOT * roots.max(initial=0)
        if not keep.any():
            return LeastTrace(np.zeros((len(rows), len(rows))), factors, 0.0)
        roots, vectors = roots[keep], vectors[:, keep]
        share = ((vectors.T @ left) ** 2 / roots[:, None]).sum(axis=0) / roots.sum()
        if share.max() <= within:
            break
        p = np.maximum(p * np.sqrt(share), _LEAST / len(p))
        p /= p.sum()
    whole = (vectors * roots) @ vectors.T * (roots.sum() * share.max())
    return LeastTrace(whole, factors, float(roots.sum() ** 2))


def correlated(rows: FloatArray, exact: FloatArray) -> tuple[FloatArray, FloatArray]:
    """SUBSPACE's Σ (k×k) and Λ (k×r) for ``rows`` A (k×n), without the combinations of them that
    ``exact`` rows C (r×n) determine."""
    _, sizes, free = np.linalg.svd(exact)
    rank = int((sizes > _TINY * sizes.max(initial=0)).sum())
    axes, lengths, _ = np.linalg.svd(rows @ free[rank:].T, full_matrices=False)
    basis = axes[:, lengths > _TINY * lengths.max(initial=0)]
    inside = basis @ (basis.T @ rows)
    factors: FloatArray = (rows - inside) @ np.linalg.pinv(exact)
    parts = list(_parts(basis, rows))
    covariance = np.zeros((len(rows), len(rows)))
    for own in parts:
        reach = float(((own.T @ rows) ** 2).sum(axis=0).max())
        covariance += len(parts) * reach * own @ own.T
    return covariance, factors


def _parts(basis: FloatArray, rows: FloatArray) -> Iterator[FloatArray]:
    """The axes of each part, for the columns of ``rows`` projected on this ``basis``."""
    while basis.shape[1] > 1:
        values, vectors = np.linalg.eigh(_moments(basis.T @ rows))
        ends = np.flatnonzero(np.diff(values) > _ALIKE * values[1:]) + 1
        alike = np.split(basis @ vectors, ends, axis=1)
        axes = np.hstack([orthonormal(own) for own in alike])
        half = -(-len(values) // 2)
        yield axes[:, :half]
        basis = axes[:, half:]
    if basis.shape[1]:
        yield basis


def _moments(columns: FloatArray) -> FloatArray:
    """M = Σ p_j a_j a_jᵀ for the D-optimal design p, for which dM gives the ellipsoid."""
    size, number = columns.shape
    p = np.full(number, 1 / number)
    for step in range(_ELLIPSOID_STEPS):
        if not step % _AGAIN:
            deadline.check()
            moments = (columns * p) @ columns.T
            inverse = np.linalg.inv(moments)
            far = np.einsum("ij,ij->j", columns, inverse @ columns)
        most, least = first_largest(far), first_least(np.where(p > 0, far, np.inf))
        up, down = far[most] / size - 1, 1 - far[least] / size
        if max(up, down) <= _CLOSE:
            break
        at = (most, least)[first_largest(np.array([max(up, 0), down]))]
        beta = (far[at] - size) / (size * (far[at] - 1)) if far[at] > 1 else -np.inf
        beta = max(beta, -p[at] / (1 - p[at]))
        own = inverse @ columns[:, at]
        scale = beta / (1 - beta + beta * far[at])
        inverse = (inverse - scale * np.outer(own, own)) / (1 - beta)
        far = (far - scale * (own @ columns) ** 2) / (1 - beta)
        p *= 1 - beta
        p[at] += beta
    found: FloatArray = (columns * p) @ columns.T
    return found
