"""The correlated Gaussian noise of SUBSPACE (Algorithms 2 and 3), for reproduction.

Of the columns a_j of A the ellipsoid of least volume around all ±a_j is found, the half of its
axes that are shorter are split off, and the rest is looked at again, projected on the others. With
U_i the axes of part i of m, and r_i the greatest ‖U_iᵀ a_j‖, Σ = m Σ_i r_i² U_i U_iᵀ costs
a_jᵀ Σ⁻¹ a_j ≤ 1. Where the ellipsoid is a ball, which axes are split off is arbitrary. It is worse
than `least_trace` always, and for GROUP BY than noise of one σ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.inference.noise import FloatArray

__all__ = ["correlated"]

_STEPS: Final = 20_000
_CLOSE: Final = 1e-4
_AGAIN: Final = 50  # steps between two factorisations
_TINY: Final = 1e-9


def correlated(rows: FloatArray, exact: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Σ (k×k) and Λ (k×r), for ``rows`` A (k×n) of which what ``exact`` ones C (r×n) determine of
    their combinations is taken out."""
    _, sizes, free = np.linalg.svd(exact)
    rank = int((sizes > _TINY * sizes.max(initial=0)).sum())
    axes, lengths, _ = np.linalg.svd(rows @ free[rank:].T, full_matrices=False)
    basis = axes[:, lengths > _TINY * lengths.max(initial=0)]
    inside = basis @ (basis.T @ rows)
    factors: FloatArray = (rows - inside) @ np.linalg.pinv(exact)
    parts = list(_parts(basis, basis.T @ rows))
    covariance = np.zeros((len(rows), len(rows)))
    for own in parts:
        reach = float(((own.T @ rows) ** 2).sum(axis=0).max())
        covariance += len(parts) * reach * own @ own.T
    return covariance, factors


def _parts(basis: FloatArray, columns: FloatArray) -> Iterator[FloatArray]:
    """The axes of each part, of ``columns`` in this ``basis``."""
    while basis.shape[1] > 1:
        values, vectors = np.linalg.eigh(_moments(columns))
        half = -(-len(values) // 2)
        yield basis @ vectors[:, :half]
        basis, columns = basis @ vectors[:, half:], vectors[:, half:].T @ columns
    if basis.shape[1]:
        yield basis


def _moments(columns: FloatArray) -> FloatArray:
    """M = Σ p_j a_j a_jᵀ of the weights p for which dM is the ellipsoid, a D-optimal design."""
    size, number = columns.shape
    p = np.full(number, 1 / number)
    for step in range(_STEPS):
        if not step % _AGAIN:
            deadline.check()
            moments = (columns * p) @ columns.T
            inverse = np.linalg.inv(moments)
            far = np.einsum("ij,ij->j", columns, inverse @ columns)
        most, least = int(far.argmax()), int(np.where(p > 0, far, np.inf).argmin())
        up, down = far[most] / size - 1, 1 - far[least] / size
        if max(up, down) <= _CLOSE:
            break
        at = most if up >= down else least
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
