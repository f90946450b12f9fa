"""Rows for Laplace noise: the cells, and a few sums of them, in the best proportions.

    A = (I; B) S⁻¹,  B ≥ 0 (p×n),  S = diag(s),  s = 1 + Bᵀ1,

so that each cell's column has the L1 norm 1. With G = Wᵀ diag(c) W the total squared error of the
rows W, weighted by c, at ε = 1 is

    2 tr(C M),  C = S G S,  M = (I + BᵀB)⁻¹ = I − BᵀH,  H = (I + BBᵀ)⁻¹ B,
    ∂/∂B_ij = 4 [((G∘M) s)_j − (H C M)_ij]

(OPT_0 of HDMM: McKenna, Miklau, Hay & Machanavajjhala 2018, "Optimizing error of high-dimensional
statistical queries under differential privacy"). L-BFGS-B starts from blocks of cells and has a
fixed number of steps. A is rounded to integers whose columns all have the L1 norm 2¹², and errors
are those of these integers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.blas import one_thread
from tallyveil.inference.canonical import nearest_integers
from tallyveil.inference.designs.root import LARGEST, variances

__all__ = ["p_identity"]

_STEPS: Final = 90
_ROUNDS: Final = 4  # updates of the weights of rows
_MEMORY: Final = 10


def p_identity(rows: FloatArray, c: FloatArray | float = 1.0, *, worst: bool = False) -> IntArray:
    """A ((n+p)×n), integers, for the total of ``rows`` (m×n) of weights ``c``. ``worst``: for the
    least variance of the worst row instead: c_i ← c_i Var_i, some times."""
    sums = _blocks(rows.shape[1])
    with one_thread():
        for _ in range(_ROUNDS if worst else 0):
            sums = _best((rows.T * c) @ rows, sums)
            own = variances(rows, _integers(sums))
            c = c * own / own.max()
        return _integers(_best((rows.T * c) @ rows, sums))


def _blocks(size: int) -> FloatArray:
    """B to begin with: ½ on blocks of 16 cells and, of many, of 64."""
    widths = [min(16, size)] + ([64] if size >= 128 else [])
    parts = [np.arange(size) // width == n for width in widths for n in range(-(-size // width))]
    return np.array(parts) / 2


def _best(gram: FloatArray, start: FloatArray) -> FloatArray:
    from scipy.optimize import fmin_l_bfgs_b

    diagonal = gram.diagonal()
    shape, unit = start.shape, 1 / diagonal.sum()

    def total(flat: FloatArray) -> tuple[float, FloatArray]:
        deadline.check()
        b = flat.reshape(shape)
        s = 1 + b.sum(axis=0)
        h = np.linalg.solve(np.eye(len(b)) + b @ b.T, b)
        # H C = H S G S, and (G∘M) s = diag(G) s − Σ_k B_k ∘ (H S G)_k
        gh = (h * s) @ gram
        each = diagonal * s - (b * gh).sum(axis=0)
        hc = gh * s
        gradient = 2 * (each[None, :] - (hc - (hc @ b.T) @ h))
        return unit * float(s @ each), (unit * gradient).ravel()

    bounds = [(0, None)] * start.size
    found, *_ = fmin_l_bfgs_b(total, start.ravel(), bounds=bounds, m=_MEMORY, maxiter=_STEPS)
    best: FloatArray = found.reshape(shape)
    return best


def _integers(sums: FloatArray) -> IntArray:
    """A in units of 2⁻¹²: the cells' own rows take what the rounded sums leave."""
    scaled = nearest_integers(sums / (1 + sums.sum(axis=0)) * LARGEST).astype(np.int64)
    scaled = scaled[scaled.any(axis=1)]
    own = LARGEST - scaled.sum(axis=0)
    return np.concatenate([np.diag(np.maximum(own, 1)), scaled])
