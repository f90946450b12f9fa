"""A quick proof that a history does not determine some rows of a question.

For a query q let r be its part that is orthogonal to all rows of the history H. If H r = 0 and
r ≠ 0, then A H · r = 0 for every A, but q · r = ‖r‖², so that no A has A H = q. However r is found,
both are checked. With rounding errors, what remains open is an A whose terms are more than 10⁹
times as large as q and cancel, which a solver would not accept either.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import linalg, sparse

from tallyveil.arrays import BoolArray, FloatArray
from tallyveil.blas import one_thread

__all__ = ["surely_undetermined"]

_WORK: Final = 2e7  # multiplications
_SAME: Final = 1e-12  # a row whose squared distance to the others is at most this depends on them
_LEFT: Final = 1e-3  # the least length of r, relative to q
_NONE: Final = 1e-12  # the largest cosine between r and a row of H that counts as 0


def surely_undetermined(history: sparse.csr_matrix, question: sparse.csr_matrix) -> BoolArray:
    """Which rows of the question (k×n) are proved not to be a combination of the rows of the
    history (m×n). Where that takes too much work, none is."""
    (m, n), k = history.shape, question.shape[0]
    if not m or m * n * (m + 2 * k) > _WORK:
        return np.zeros(k, dtype=np.bool_)
    rows, asked = _of_length_one(history), _of_length_one(question)
    with one_thread():
        factor, order, rank, _ = linalg.lapack.dpstrf(rows @ rows.T, tol=_SAME, lower=1)
        if not rank:
            return np.zeros(k, dtype=np.bool_)
        first = rows[order[:rank] - 1]
        basis = linalg.solve_triangular(factor[:rank, :rank], first, lower=True, check_finite=False)
        left = asked - (asked @ basis.T) @ basis
        left -= (left @ basis.T) @ basis
        lengths = np.sqrt((left**2).sum(axis=1))
        clear = lengths > _LEFT
        left[clear] /= lengths[clear, None]
        clear &= np.abs(left @ rows.T).max(axis=1) <= _NONE
    return np.asarray(clear, dtype=np.bool_)


def _of_length_one(matrix: sparse.csr_matrix) -> FloatArray:
    """The dense rows in units of their lengths; rows of zeros stay."""
    dense: FloatArray = matrix.toarray().astype(np.float64)
    dense /= np.maximum(np.sqrt((dense**2).sum(axis=1)), 1.0)[:, None]
    return dense
