"""How precisely a table's counts would be known if something were bought.

The law of an estimate's error does not depend on the answers, so nothing has to be drawn to find it
out: each row's estimate is the best linear unbiased combination of what was recorded and what would
be bought (BAYES §3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import Fit, Noises
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights

__all__ = ["Precision", "Preview", "row_bytes", "stretches", "too_complex"]

_HEIGHT: Final = 1_500  # rows to be bought, and recorded ones
_TOGETHER: Final = 1_000


@dataclass(frozen=True, eq=False)
class Preview:
    """``rows`` (m×n) over classes of cells: recorded ones with their ``values`` and ``noises``, and
    the ``fresh`` ones, with the noise they would get. ``queries`` (k×n) is what is looked at.
    """

    rows: sparse.csr_matrix
    origin: IntArray
    """Of which column of the charge a row is to be bought; −1 for recorded ones."""
    values: FloatArray
    noises: Noises
    queries: sparse.csr_matrix
    before: Callable[[], Precision]
    """What is known from what was recorded; worked out once."""

    @property
    def fresh(self) -> BoolArray:
        found: BoolArray = self.origin >= 0
        return found

    @cached_property
    def steps(self) -> IntArray:
        """Of each query by how much one record moves it at most."""
        found: IntArray = abs(self.queries).max(axis=1).toarray().ravel().astype(np.int64)
        return found

    @cached_property
    def counts(self) -> BoolArray:
        """Which queries are counts, each record in the group moving them alike."""
        low, high = (
            self.queries.min(axis=1, explicit=True).toarray().ravel(),
            self.queries.max(axis=1, explicit=True).toarray().ravel(),
        )
        found: BoolArray = (low == high) & (low > 0)
        return found

    def take(self, which: Sequence[int] | IntArray) -> Preview:
        """Of some queries only."""
        return replace(self, queries=self.queries[np.asarray(which, dtype=np.int64)])

    def wider(self, factor: float) -> Preview:
        """With so much wider noise on what is bought."""
        scales = np.where(self.fresh, self.noises.scales * factor, self.noises.scales)
        return replace(self, noises=Noises(self.noises.laws, scales))

    def least_variances(self) -> FloatArray:
        """No more than the variances of the queries' estimates once it is bought, and quick.

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
        """What would be known once it is bought: something of each query."""
        return Precision.of(self.rows, self.values, self.noises)

    def alone(self) -> list[Estimate | None]:
        """For each query that is a row to be bought that answer by itself, with the least noise."""
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
        """What is to be bought is what is looked at, row by row."""
        return replace(self, queries=self.rows[np.flatnonzero(self.fresh)])


@dataclass(frozen=True, eq=False)
class Precision:
    """Estimates of queries from some rows, with their values and noises."""

    values: FloatArray
    noises: Noises
    fit: Fit

    @classmethod
    def of(cls, rows: sparse.csr_matrix, values: FloatArray, noises: Noises) -> Precision:
        """Raises StatementTooComplex where there are too many."""
        if rows.shape[0] > _HEIGHT:
            raise too_complex()
        deadline.check()
        try:
            return cls(values, noises, Fit.of(rows, noises))
        except np.linalg.LinAlgError:
            raise too_complex() from None

    def variances(self, queries: sparse.csr_matrix) -> FloatArray:
        """Infinite where the rows do not determine a query."""
        found = [np.zeros(0)]
        for start in range(0, queries.shape[0], _TOGETHER):
            deadline.check()
            found.append(self.fit.variances(queries[start : start + _TOGETHER]))
        return np.concatenate(found)

    def of_query(self, query: sparse.csr_matrix) -> Estimate:
        """Of one that the rows determine."""
        return self._with(self.fit.weights(query))

    def narrower(self, query: sparse.csr_matrix) -> Estimate:
        """With an interval that is no wider than that of the estimate, and quicker to find."""
        return self._with(self.fit.lesser_weights(query))

    def _with(self, weights: FloatArray) -> Estimate:
        kept = np.flatnonzero(weights)
        return _estimated(self.values, self.noises, kept, weights[kept])


def _estimated(values: FloatArray, noises: Noises, rows: IntArray, weights: FloatArray) -> Estimate:
    """With these weights on these rows' answers."""
    return Estimate(float(weights @ values[rows]), rows, NoiseWeights(weights, noises.take(rows)))


def row_bytes(rows: sparse.csr_matrix) -> list[bytes]:
    """Equal for equal rows, whose cells are in order."""
    cells, coefficients = rows.indices.astype("<i8"), rows.data.astype("<i8")
    return [cells[a:b].tobytes() + coefficients[a:b].tobytes() for a, b in stretches(rows)]


def stretches(rows: sparse.csr_matrix) -> list[tuple[int, int]]:
    return list(zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True))


def too_complex() -> StatementTooComplex:
    return StatementTooComplex(
        "there is too much to look at to see what this would tell, as the table's inference"
        " control asks for",
        hint="Ask for fewer groups at once, or SET dp.source = history.",
    )
