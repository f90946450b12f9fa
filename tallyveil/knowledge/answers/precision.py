"""How precisely a table's counts would be known after a purchase.

The law of an estimate's error does not depend on the answers, so it is computed without drawing
noise: each row's estimate is the best linear unbiased combination of the recorded answers and those
that would be bought (BAYES §3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.cache import cached_property
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import Fit, Noises
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights

__all__ = ["Precision", "Preview", "row_bytes", "too_complex"]

_HEIGHT: Final = 1_500  # rows, fresh and recorded
_TOGETHER: Final = 1_000  # queries between two checks of the deadline


@dataclass(frozen=True, eq=False)
class Preview:
    """``rows`` (m×n) over classes of cells: recorded rows with their ``values`` and ``noises``, and
    ``fresh`` rows with the noise they would get. ``queries`` (k×n) are the counts to check.
    """

    rows: sparse.csr_matrix
    origin: IntArray
    """The charge's column of each fresh row; −1 for recorded rows."""
    values: FloatArray
    noises: Noises
    queries: sparse.csr_matrix
    seed: int
    """As for `Fit.of`."""
    before: Callable[[], Precision]
    """Compute what the recorded rows determine; cached."""

    @property
    def fresh(self) -> BoolArray:
        found: BoolArray = self.origin >= 0
        return found

    @cached_property
    def steps(self) -> IntArray:
        """For each query, the most by which one record changes it."""
        found: IntArray = abs(self.queries).max(axis=1).toarray().ravel().astype(np.int64)
        return found

    @cached_property
    def counts(self) -> BoolArray:
        """Which queries are counts: each record in the group changes them by the same amount."""
        low, high = (
            self.queries.min(axis=1, explicit=True).toarray().ravel(),
            self.queries.max(axis=1, explicit=True).toarray().ravel(),
        )
        found: BoolArray = (low == high) & (low > 0)
        return found

    def take(self, which: Sequence[int] | IntArray) -> Preview:
        """Return the preview of these queries only."""
        return replace(self, queries=self.queries[np.asarray(which, dtype=np.int64)])

    def wider(self, factor: float) -> Preview:
        """Return the preview with the scales of fresh noise multiplied by ``factor``."""
        scales = np.where(self.fresh, self.noises.scales * factor, self.noises.scales)
        return replace(self, noises=Noises(self.noises.laws, scales))

    def least_variances(self) -> FloatArray:
        """Quick lower bounds of the variances of the queries' estimates after the purchase.

        For A H = q and each cell j, by Cauchy and Schwarz (A H)_j² = (Σ_i A_i H_ij)²
        ≤ Σ_i A_i² v_i · Σ_i H_ij²/v_i. So the variance is at least max_j q_j² / Σ_i H_ij²/v_i.
        """
        with np.errstate(divide="ignore"):
            each = 1 / self.noises.variances
        precision = np.zeros(self.rows.shape[1])
        spread = np.repeat(each, np.diff(self.rows.indptr))
        np.add.at(precision, self.rows.indices, self.rows.data.astype(np.float64) ** 2 * spread)
        found = np.zeros(self.queries.shape[0])
        of = np.repeat(np.arange(len(found)), np.diff(self.queries.indptr))
        squares = self.queries.data.astype(np.float64) ** 2
        np.maximum.at(found, of, squares / precision[self.queries.indices])
        return found

    def after(self) -> Precision:
        """What would be known after the purchase, which determines each query."""
        return Precision.of(self.rows, self.values, self.noises, self.seed)

    def alone(self) -> list[Estimate | None]:
        """For each query that is a fresh row, its least noisy answer by itself; otherwise None."""
        bought: dict[bytes, int] = {}
        keys = row_bytes(self.rows)
        for row in np.flatnonzero(self.fresh).tolist():
            best = bought.setdefault(keys[row], row)
            if self.noises.scales[row] < self.noises.scales[best]:
                bought[keys[row]] = row
        rows = [bought.get(key) for key in row_bytes(self.queries)]
        one = np.ones(1)
        return [
            None if row is None else _estimated(self.values, self.noises, np.array([row]), one)
            for row in rows
        ]

    def asked(self) -> Preview:
        """Return the preview whose queries are the fresh rows themselves."""
        return replace(self, queries=self.rows[np.flatnonzero(self.fresh)])


@dataclass(frozen=True, eq=False)
class Precision:
    """Estimates of queries from rows with these values and noises."""

    values: FloatArray
    noises: Noises
    fit: Fit

    @classmethod
    def of(
        cls, rows: sparse.csr_matrix, values: FloatArray, noises: Noises, seed: int
    ) -> Precision:
        """Fit the rows. Raises StatementTooComplex if there are too many."""
        if rows.shape[0] > _HEIGHT:
            raise too_complex()
        deadline.check()
        try:
            return cls(values, noises, Fit.of(rows, noises, seed))
        except np.linalg.LinAlgError:
            raise too_complex() from None

    def variances(self, queries: sparse.csr_matrix) -> FloatArray:
        """The variance of each query's estimate, infinite if the rows do not determine it."""
        found = [np.zeros(0)]
        for start in range(0, queries.shape[0], _TOGETHER):
            deadline.check()
            found.append(self.fit.variances(queries[start : start + _TOGETHER]))
        return np.concatenate(found)

    def of_query(self, query: sparse.csr_matrix) -> Estimate:
        """The best estimate of one query, which the rows must determine."""
        return self._with(self.fit.weights(query))

    def narrower(self, query: sparse.csr_matrix) -> Estimate:
        """An estimate whose interval is no wider than the best estimate's, and quicker to find."""
        return self._with(self.fit.lesser_weights(query))

    def _with(self, weights: FloatArray) -> Estimate:
        kept = np.flatnonzero(weights)
        return _estimated(self.values, self.noises, kept, weights[kept])


def _estimated(values: FloatArray, noises: Noises, rows: IntArray, weights: FloatArray) -> Estimate:
    """The estimate with these weights on these rows' answers."""
    return Estimate(float(weights @ values[rows]), rows, NoiseWeights(weights, noises.take(rows)))


def row_bytes(rows: sparse.csr_matrix) -> list[bytes]:
    """A key for each row, equal for equal rows. Each row's cells must be in order."""
    cells, coefficients = rows.indices.astype("<i8"), rows.data.astype("<i8")
    return [
        cells[a:b].tobytes() + coefficients[a:b].tobytes()
        for a, b in pairwise(rows.indptr.tolist())
    ]


def too_complex() -> StatementTooComplex:
    return StatementTooComplex(
        "this statement is too complex for the table's inference control to check what it would"
        " reveal",
        hint="Ask for fewer groups at once, or SET dp.source = history.",
    )
