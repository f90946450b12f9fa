"""Best linear unbiased estimates of many queries at once, by one decomposition (BAYES §3).

History: y = H x + noise, independent noise of variance v_i on row i, Σ = diag(v). With
Σ^−½ H = U S Vᵀ, S of the r singular values that are not negligible: a query q in the row space,
q = q V Vᵀ, has the estimate A y with A = q V S⁻¹ Uᵀ Σ^−½, and its variance is |q V S⁻¹|².

Where cells are many more than rows, H R replaces H and q R replaces q, with a random R (n×k) of
some more columns than H has rows. Almost surely the same combinations are 0 in both, and A
depends on nothing else.

`combinations` computes weights to the last digits, for answers. `Fit` computes the variances of
thousands of queries at once, to about eight digits, for questions about precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray
from tallyveil.blas import one_thread
from tallyveil.inference.laws.noises import Noises
from tallyveil.solver_threads import in_solver_thread

__all__ = ["Fit"]

_RANK: Final = 1e-10  # a singular value this small beside the largest counts as 0
_DETERMINED: Final = 1e-7  # share of a query's squared length that may lie outside the row space
_NEARLY_EXACT: Final = 1e-9  # the variance of exact answers here, as a share of the least
_DIGITS: Final = 1e8  # of weights, relative to the largest
_MORE: Final = 64  # columns of R beyond the rows of H
_PLACES: Final = 4
_LONG: Final = 200_000  # entries: a decomposition of more would delay a cancel for too long
_COARSE: Final = 16  # steps of a weight, of the power of two below the largest


@dataclass(frozen=True, eq=False)
class Fit:
    """``left`` is S⁻¹ Uᵀ Σ^−½ (r×m), ``right`` is V (n×r), ``inverse`` the diagonal of S⁻¹; with
    ``mix`` R, V is k×r."""

    left: FloatArray
    right: FloatArray
    inverse: FloatArray
    mix: sparse.csr_matrix | None = None

    @classmethod
    def of(cls, rows: sparse.csr_matrix, noises: Noises, seed: int) -> Fit:
        """The decomposition for ``rows`` H (m×n) of integers, with one noise each, of scale 0 for
        exact answers. R is drawn from the ``seed``, which authors of SQL must not know.

        Raises numpy.linalg.LinAlgError if it does not converge, and whatever `deadline.check`
        raises.
        """
        height, cells = rows.shape
        if not rows.nnz:
            return cls(np.zeros((0, height)), np.zeros((cells, 0)), np.zeros(0))
        variances = noises.variances
        least = variances[variances > 0].min(initial=np.inf)
        floor = _NEARLY_EXACT * (least if math.isfinite(least) else 1.0)
        roots = 1 / np.sqrt(np.maximum(variances, floor))
        mix = _mix(cells, height + _MORE, seed) if cells > height + _MORE else None
        dense = (rows if mix is None else rows @ mix).toarray()
        weighed = dense * roots[:, None]
        u, s, vt = (
            in_solver_thread(partial(_svd, weighed)) if weighed.size > _LONG else _svd(weighed)
        )
        rank = int((s > _RANK * s[0]).sum())
        inverse = 1 / s[:rank]
        return cls(inverse[:, None] * (u[:, :rank].T * roots), vt[:rank].T, inverse, mix)

    def variances(self, queries: sparse.csr_matrix) -> FloatArray:
        """The variances of the estimates of queries (k×n); infinite for those not determined."""
        queries = self._mixed(queries)
        along = queries @ self.right
        length = np.asarray(queries.multiply(queries).sum(axis=1)).ravel()
        outside = length - (along**2).sum(axis=1)
        own = ((along * self.inverse) ** 2).sum(axis=1)
        return np.where(outside <= _DETERMINED * length, own, np.inf)

    def weights(self, query: sparse.csr_matrix) -> FloatArray:
        """A for one query (1×n) that the rows determine; those below 1e-8 of the largest are 0."""
        weights = self._weights(query)
        largest = float(format(np.abs(weights).max(initial=0), ".11g"))
        result: FloatArray = np.rint(weights / (largest or 1.0) * _DIGITS) / _DIGITS * largest
        return result

    def lesser_weights(self, query: sparse.csr_matrix) -> FloatArray:
        """|`weights`| rounded down to a few values, which many queries share.

        Intervals with these are no wider: the sum of independent, symmetric and unimodal noises is
        more peaked the smaller the weight on any of them (Birnbaum 1948, "On Random Variables with
        Comparable Peakedness"). For laws on points this holds up to about one point.
        """
        weights = np.abs(self._weights(query))
        largest = float(weights.max(initial=0))
        if not largest > 0:
            return weights
        unit = 2.0 ** math.floor(math.log2(largest)) / _COARSE
        result: FloatArray = np.floor(weights / unit * (1 + 1e-9)) * unit
        return result

    def _weights(self, query: sparse.csr_matrix) -> FloatArray:
        weights: FloatArray = (self._mixed(query) @ self.right @ self.left).ravel()
        return weights

    def _mixed(self, queries: sparse.csr_matrix) -> sparse.csr_matrix:
        return queries if self.mix is None else queries @ self.mix


def _svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    with one_thread():
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    return u, s, vt


def _mix(cells: int, columns: int, seed: int) -> sparse.csr_matrix:
    """R, with normal numbers in a few places of each row."""
    random = np.random.default_rng(seed)
    places = random.integers(0, columns, (cells, _PLACES))
    values = random.standard_normal((cells, _PLACES))
    rows = np.repeat(np.arange(cells), _PLACES)
    return sparse.csr_matrix((values.ravel(), (rows, places.ravel())), shape=(cells, columns))
