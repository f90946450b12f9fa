"""The best linear unbiased estimate over a whole history (BAYES §3, MATH §4).

History: y = H x + noise, with x the unknown counts, H integer (m×n), and noise = M η with η
independent of known laws. Rows known exactly have no noise, and count as observations too. For a
query q: the coefficients A with A H = q and the least Var(A noise); then θ̂ = A y is unbiased
whatever x is. Such A exist iff q lies in the row space of H.

Some independent rows B of H are the basis, and every other row d is a combination t_d B, so that
n_d = (−t_d on B, 1 at d) gives n_d H = 0: a check of the answers against each other. With p the
coordinates of q, q = p B, all unbiased A are (p, 0) + u N, and the least variance has

    u = −(p, 0) Σ Nᵀ S⁻¹,   S = N Σ Nᵀ,   Σ = M Var(η) Mᵀ.

A new row appends one row to the factor of B Bᵀ or to that of S. No error of rounding in u biases
the estimate; it costs the estimate some precision, and the error's law is computed from A itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.checks import Checks
from tallyveil.inference.error_law import ErrorLaw
from tallyveil.inference.noise import FloatArray, Law, Noises
from tallyveil.inference.posterior import Posterior
from tallyveil.inference.row_space import RowSpace

__all__ = ["Estimate", "Estimator"]

Rows: TypeAlias = Any
"""What NumPy makes an array of, or a sparse matrix of SciPy."""

# A row this much more precise than the basis it is checked against goes into the basis instead.
_FAR_MORE_PRECISE: Final = 1e-8


@dataclass(frozen=True, eq=False)
class Estimate:
    """θ̂ = ``coefficients`` · y, over all rows in the order they were observed."""

    value: float
    coefficients: FloatArray
    error: ErrorLaw

    @property
    def variance(self) -> float:
        return self.error.variance

    @cached_property
    def posterior(self) -> Posterior:
        return Posterior(self.value, self.error)


class Estimator:
    """Estimates of queries over ``cells`` cells, or classes of cells that all rows treat alike.

    Not safe for use by several threads at once.
    """

    def __init__(self, cells: int) -> None:
        if not 0 < cells < 2**31:
            raise InvalidParameterValue(f"a number of cells is between 1 and 2^31, not {cells}")
        self.cells = cells
        self._rows: list[sparse.csr_matrix] = []
        self._values: list[FloatArray] = []
        self._noises: list[Noises] = []
        self._mixings: list[sparse.csr_matrix | None] = []
        self._restart()

    def __len__(self) -> int:
        """The number of rows observed."""
        return sum(len(values) for values in self._values)

    @property
    def rank(self) -> int:
        """The number of independent rows in use."""
        return self._space.rank

    def know(self, rows: Rows, values: npt.ArrayLike) -> None:
        """Take up rows whose answers are exact: invariants C x = c."""
        exact = np.atleast_1d(np.asarray(values, dtype=np.float64))
        self.observe(rows, exact, Noises.of(Law.LAPLACE, np.zeros(len(exact))))

    def observe(
        self,
        rows: Rows,
        values: npt.ArrayLike,
        noises: Noises,
        mixing: Rows | None = None,
    ) -> None:
        """Take up integer rows (k×n, dense or sparse) with their noisy answers.

        Row i's noise is N_i, or with a ``mixing`` M (k×l) Σ_j M_ij N_j: a release with
        covariance M Var(N) Mᵀ.

        Raises InvalidParameterValue if shapes do not fit, an entry is no integer below 2⁵³, or an
        answer is not finite. Then nothing was taken up.
        """
        matrix = self._integers(rows)
        answers = np.atleast_1d(np.array(values, dtype=np.float64))
        if answers.shape != (matrix.shape[0],) or not np.isfinite(answers).all():
            raise InvalidParameterValue("each row has one finite answer")
        mixed = None if mixing is None else sparse.csr_matrix(mixing, dtype=np.float64)
        expected = (matrix.shape[0], len(noises))
        if (mixed.shape if mixed is not None else (len(noises),) * 2) != expected:
            raise InvalidParameterValue("each row has one noise, or one row of the mixing")
        if mixed is not None and not np.isfinite(mixed.data).all():
            raise InvalidParameterValue("the mixing of noises is finite")
        start = len(self)
        self._rows.append(matrix)
        self._values.append(answers)
        self._noises.append(noises)
        self._mixings.append(mixed)
        self._checks.noise_changed(self._noises, self._mixings)
        self._take_up(start + np.argsort(self._checks.variances[start:], kind="stable"), start)

    def estimate(self, query: Rows) -> Estimate | None:
        """The best estimate of an integer query, or None if history does not determine it.

        Raises InvalidParameterValue unless it is one row of integers of length ``cells``.
        """
        row = self._integers(query)
        if row.shape[0] != 1:
            raise InvalidParameterValue("a query is one row")
        if self._stale:
            self._rebuild()
        found = self._space.coordinates(row.toarray()[0])
        if not found.usable:
            return None
        coefficients = self._checks.best(found.values, len(self))
        error = ErrorLaw(self._checks.on_noises(coefficients), self._checks.noises)
        value = float(coefficients @ np.concatenate(self._values)) if len(self) else 0.0
        return Estimate(value, coefficients, error)

    def _take_up(self, order: npt.NDArray[np.intp], start: int) -> None:
        """Rows ``order``, of the matrices from row ``start`` on, to basis or checks."""
        recent = self._rows[-1] if start else sparse.vstack(self._rows, format="csr")
        for number in order.tolist():
            row = recent[number - start].toarray()[0]
            found = self._space.coordinates(row)
            if self._space.take_up(row, found):
                self._checks.add_basis(number)
            elif found.usable:
                precision = self._checks.add_check(number, found.values)
                self._stale |= precision <= _FAR_MORE_PRECISE

    def _rebuild(self) -> None:
        """Start again with the most precise rows first, so that no check beats its basis."""
        self._restart()
        self._checks.noise_changed(self._noises, self._mixings)
        self._take_up(np.argsort(self._checks.variances, kind="stable"), 0)
        self._stale = False

    def _restart(self) -> None:
        self._space = RowSpace(self.cells)
        self._checks = Checks()
        self._stale = False

    def _integers(self, rows: Rows) -> sparse.csr_matrix:
        given = rows if sparse.issparse(rows) else np.atleast_2d(np.asarray(rows))
        matrix = sparse.csr_matrix(given, dtype=np.float64)
        if matrix.shape[1] != self.cells:
            raise InvalidParameterValue(
                f"a row has a coefficient for each of {self.cells} cells, not {matrix.shape[1]}"
            )
        data = matrix.data
        if not ((np.abs(data) < 2**53) & (data == np.rint(data))).all():
            raise InvalidParameterValue(
                "coefficients are integers below 2^53",
                hint="Scale the row and its answer to integers.",
            )
        return matrix
