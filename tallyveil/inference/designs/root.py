"""The best rows for Gaussian noise of one scale, as a root of the workload's Gram matrix.

For rows W over n cells let G = Wᵀ diag(c) W. Of precisions X with X_jj = 1 (noise of σ² = 1/2ρ on
rows A with AᵀA = X), the one of least tr(G X⁻¹) is the limit of

    M = D_p^½ G D_p^½,  S = M^½,  X ∝ D_p^−½ S D_p^−½ with its diagonal made 1,  p ← diag(S)/tr S

from uniform p (Denisov, McMahan, Rush, Smith & Thakurta 2022, "Improved Differential Privacy for
SGD via Optimal Private Linear Operators on Adaptive Streams"). Step 1 is the normalised root:
within 5 % of the SVD bound for prefixes. A = S^½ D, D the diagonal matrix that normalises.

A is rounded to integers, of which the largest has 12 bits, and errors are those of these integers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.blas import one_thread
from tallyveil.inference.canonical import nearest_integers

__all__ = ["LARGEST", "root", "variances"]

LARGEST: Final = 1 << 12
_QUICK: Final = 128  # cells up to which there are several steps
_STEPS: Final = 3
_ROUNDS: Final = 12  # updates of the weights of rows
_SINGULAR: Final = 1e-9  # of the largest eigenvalue: rows leave some sum of cells open
_BESIDE: Final = 1e-3  # weight of the cells themselves then, of the mean of the diagonal


def root(rows: FloatArray, weights: FloatArray | float = 1.0, *, worst: bool = False) -> IntArray:
    """A (n×n), integers, for the total with these ``weights`` c. ``worst``: for the least variance
    of the worst row instead: c_i ← c_i Var_i."""
    with one_thread():
        for _ in range(_ROUNDS if worst else 0):
            own = variances(rows, _root((rows.T * weights) @ rows))
            weights = weights * own / own.max()
        return _root((rows.T * weights) @ rows)


def variances(rows: FloatArray, bought: IntArray) -> FloatArray:
    """Of ``rows`` (m×n) estimated from ``bought`` rows of variance 1, all of which have full rank
    over the cells: q (AᵀA)⁻¹ qᵀ."""
    values = bought.astype(np.float64)
    factor = np.linalg.cholesky(values.T @ values)
    half = np.linalg.solve(factor, rows.T)
    found: FloatArray = (half**2).sum(axis=0)
    return found


def _root(gram: FloatArray) -> IntArray:
    size = len(gram)
    values = np.linalg.eigvalsh(gram)
    if values[0] <= _SINGULAR * values[-1]:
        gram = gram + np.eye(size) * _BESIDE * gram.diagonal().mean()
    p = np.full(size, 1 / size)
    for _ in range(_STEPS if size <= _QUICK else 1):
        deadline.check()
        half = np.sqrt(p)
        values, vectors = np.linalg.eigh(gram * np.outer(half, half))
        values = np.sqrt(np.clip(values, 0, None))
        diagonal = (vectors**2 * values).sum(axis=1)
        found = (vectors * np.sqrt(values)) @ vectors.T / np.sqrt(diagonal)
        p = diagonal / diagonal.sum()
    return nearest_integers(found * (LARGEST / np.abs(found).max())).astype(np.int64)
