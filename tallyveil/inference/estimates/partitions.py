"""The best combinations where noisy rows add up to one exact row, by a formula.

Rows r_1 … r_m are disjoint, with noise of variances v_i, and e = Σ r_i is known exactly. Every
combination to r_i is r_i + t (e − Σ r_k), of variance (1 − t)² v_i + t² Σ_{k≠i} v_k, which is least
at t = v_i / Σ v_k. So the difference from the exact sum is divided by the rows' variances: this is
the projection onto the sum, SUBSPACE Cor. 11 in the metric of the variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference.laws.noises import Noises

__all__ = ["Partition"]

_MOST: Final = 32  # noisy rows: with more, the exact sum hardly improves any one


@dataclass(frozen=True, eq=False)
class Partition:
    """``owner`` is the noisy row of each cell; ``exact`` is the number of the exact row."""

    owner: IntArray
    sizes: IntArray
    exact: int
    noises: Noises

    @classmethod
    def of(cls, rows: sparse.csr_matrix, noises: Noises) -> Partition | None:
        """The partition, or None if ``rows`` (m×n) are not one."""
        m, n = rows.shape
        exact = np.flatnonzero(noises.variances == 0)
        if len(exact) != 1 or m < 2 or rows.nnz != 2 * n or (rows.data != 1).any():
            return None
        sizes, at = np.diff(rows.indptr), int(exact[0])
        noisy = np.repeat(np.arange(m), sizes) != at
        if sizes[at] != n or len(np.unique(rows.indices[noisy])) != n:
            return None
        owner = np.empty(n, dtype=np.int64)
        owner[rows.indices[noisy]] = np.repeat(np.arange(m), sizes)[noisy]
        return cls(owner, sizes.astype(np.int64), at, noises)

    def combinations(
        self, queries: sparse.csr_matrix
    ) -> Sequence[tuple[IntArray, FloatArray] | None] | None:
        """The rows and weights of each query's best combination: its own row, the others, and the
        exact one. Queries share one array of weights where all noises have one law. None if some
        query is not a noisy row. A list of None if there are so many rows that the variance would
        fall by less than 1/32."""
        ends = queries.indptr
        if (queries.data != 1).any() or (np.diff(ends) == 0).any():
            return None
        owners = self.owner[queries.indices]
        own = owners[ends[:-1]]
        lengths = np.diff(ends)
        if (owners != np.repeat(own, lengths)).any() or (lengths != self.sizes[own]).any():
            return None
        if len(self.sizes) > _MOST + 1:
            return [None] * len(own)
        noisy = np.delete(np.arange(len(self.sizes)), self.exact)
        places = np.searchsorted(noisy, own)
        shares = self.noises.variances[noisy] / self.noises.variances.sum()
        one_law = self.noises.take(noisy).alike
        shared = self._weights(float(shares[0])) if one_law else None
        return [
            (
                np.concatenate([noisy[[place]], np.delete(noisy, place), [self.exact]]),
                self._weights(float(shares[place])) if shared is None else shared,
            )
            for place in places.tolist()
        ]

    def _weights(self, share: float) -> FloatArray:
        weights = np.full(len(self.sizes), -share)
        weights[0], weights[-1] = 1 - share, share
        return weights
