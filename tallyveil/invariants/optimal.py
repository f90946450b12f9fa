"""Integer rows that determine the rows asked with nearly the least total variance possible.

With Σ of least trace (`inference.estimates.least_trace`) and Σ⁻¹ = BBᵀ, the rows H = Bᵀ W with
independent noise of one σ determine W with errors of covariance σ²Σ. Some rows W_d of W
determine the others together with the exact rows. For these Σ_d = GGᵀ, and H = T W_d with T the
integers nearest to s G⁻¹. T is triangular with no 0 on its diagonal, so W is decoded from the
rounded H without bias, and H is charged. For s → ∞ it is as good as Σ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference.canonical import nearest_integers, pivoted
from tallyveil.inference.estimates.least_trace import correlated, least_trace
from tallyveil.invariants.centres import posed, translate_of
from tallyveil.invariants.span import Span
from tallyveil.invariants.translate import Translate
from tallyveil.workload.workload import Column, Factor

__all__ = ["Design", "design"]

_ROWS: Final = 512
_SCALE: Final = 4096.0  # of the least entry on the diagonal of T
_LARGEST: Final = 2.0**40
_DENOMINATOR: Final = 16  # of λ, which is large where T is
_FIT: Final = 1e-7


@dataclass(frozen=True, eq=False)
class Design:
    """``column`` has the rows H, charged as a ``translate``. ``deviations`` are those of the rows
    asked, in their lattice steps, if the noise on H has σ = 1. ``basis`` (k×d) gives the rows
    asked, in their own units, from d of them and the exact rows. No covariance of cost 1 has a
    trace below ``bound``."""

    column: Column
    translate: Translate
    deviations: FloatArray
    basis: FloatArray
    bound: float

    def projected(self, variances: FloatArray) -> FloatArray:
        """The variances after noise of these ``variances`` on the rows asked is made to agree with
        the exact rows: the diagonal of U (Uᵀ V⁻¹ U)⁻¹ Uᵀ."""
        noisy = self.basis.any(axis=1)
        basis, own = self.basis[noisy], variances[noisy]
        found = np.zeros(len(variances))
        found[noisy] = (basis.T * np.linalg.solve((basis.T / own) @ basis, basis.T)).sum(axis=0)
        return found


def design(
    columns: Sequence[Column],
    span: Span,
    numbers: IntArray,
    *,
    closed: bool,
    ellipsoids: bool = False,
) -> Design | None:
    """The design for all rows of the columns; None if they are too many, or none is noisy.
    ``numbers`` is as for `centres`. ``closed`` means that records are replaced, so a row that is
    equal on all cells costs nothing. ``ellipsoids`` uses Σ of SUBSPACE's Algorithms 2 and 3."""
    height = sum(column.height for column in columns)
    whole = span.written_out(columns) if height <= _ROWS else None
    found = None if whole is None else posed(Column((whole,)), span, numbers)
    if whole is None or found is None:
        return None
    declared, asked, names = found
    exact = np.vstack([declared, np.ones((int(closed), declared.shape[1]))])
    units = np.repeat([float(one.multiplier) for one in columns], [one.height for one in columns])
    rows = asked * units[:, None]
    shape, factors, bound = least_trace(rows, exact)
    if ellipsoids:
        shape, factors = correlated(rows, exact)
    some = np.sort(pivoted(shape, _FIT)[1])
    if not len(some):
        return None
    left = rows - factors @ exact
    others, *_ = np.linalg.lstsq(left[some].T, left.T, rcond=None)
    if np.abs(left - others.T @ left[some]).max() > _FIT * np.abs(left).max():
        return None
    root = np.linalg.cholesky(shape[np.ix_(some, some)])
    inverse = solve_triangular(root, np.diag(units[some]), lower=True)
    mixed = nearest_integers(inverse * (_SCALE / np.diag(inverse).min()))
    if np.abs(mixed).sum(axis=1).max() * float(whole.largest) >= _LARGEST:
        return None
    per_row = mixed @ (factors[some, : len(declared)] / units[some, None])
    of, places = np.nonzero(np.abs(per_row) > _FIT)
    called = np.concatenate([*names, np.zeros(0, np.int64)])
    translate = translate_of(of, called[places], per_row[of, places], _DENOMINATOR)
    if translate is None:
        return None
    decoded = (others.T * units[some]) @ np.linalg.inv(mixed) / units[:, None]
    deviations = np.sqrt((decoded**2).sum(axis=1))
    combined = sparse.csr_matrix(mixed.astype(np.int64)) @ whole.take(some).sparse()
    column = Column((Factor.of_sparse(whole.axes, whole.shape, combined),))
    return Design(column, translate, deviations, others.T, bound)
