"""The combinations of rows that are nearest to some queries, with dense matrices.

For a query q, find the w with w M nearest to q, and of these the one of least Σ w_i² v_i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import linalg

from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.blas import one_thread

__all__ = [
    "EXACT",
    "LARGEST",
    "Nearest",
    "best_weights",
    "by_products",
    "least_norm_work",
    "least_weighed",
    "without_dust",
]

EXACT: Final = 1e-11  # how far A H may differ from q, relative to the largest |q| and |A_i H_ij|
LARGEST: Final = 5e7  # work of the largest system that is solved
_NEAR: Final = 1e-13  # a difference from q that needs no correction, relative to the largest |q|
_DUST: Final = 1e-14  # of the largest share of the error; smaller shares are rounding errors
_NOTHING: Final = 1e-12
_MANY: Final = 2  # times as many cells as rows, at least, to solve by products of rows
_FAR: Final = 1e4  # ratio of standard deviations from which products are not used
_CLEAR: Final = 1e-4  # a row this far from the others, relative to itself, is independent
_SAME: Final = 1e-13  # one whose squared distance is at most this counts as dependent,
_SHOWN: Final = 1e-11  # if its products with random lines differ by at most this
_LINES: Final = 3
_ROUGH: Final = 1e-12  # dust by products
_DEPENDENT: Final = 1e-12  # a row this near to the others, relative to the longest, is one of them


@dataclass(frozen=True, eq=False)
class Nearest:
    """For each query the ``weights`` of the nearest combination, its error ``off`` on each cell,
    and whether it ``combine``s exactly to the query; ``shape`` is that of the system solved."""

    weights: FloatArray
    off: FloatArray
    combine: BoolArray
    shape: tuple[int, int]

    @classmethod
    def of(
        cls,
        weights: FloatArray,
        queries: npt.NDArray[Any],
        off: FloatArray,
        most: npt.NDArray[Any],
        shape: tuple[int, int],
    ) -> Nearest:
        """``most`` is each row's largest coefficient."""
        terms = (np.abs(weights) * most).max(axis=1)
        largest = np.maximum(np.abs(queries).max(axis=1), terms)
        return cls(weights, off, np.abs(off).max(axis=1) <= EXACT * largest, shape)

    @property
    def combinations(self) -> Sequence[FloatArray | None]:
        return [one if own else None for one, own in zip(self.weights, self.combine, strict=True)]


def best_weights(
    solve: Callable[[FloatArray, FloatArray, FloatArray], FloatArray | None],
    matrix: FloatArray,
    variances: FloatArray,
    targets: FloatArray,
    numbers: IntArray | int = 1,
) -> FloatArray | None:
    """For each target t (a row) the w with w M nearest to t of least Σ w_i² n_i v_i, found by
    ``solve`` and without dust. ``numbers`` n_i counts the copies of each row.

    Each row is scaled by a power of two near its largest coefficient. Otherwise rows of sums in
    fine units would be so long that shorter ones seemed to depend on them.
    """
    most = np.maximum(matrix.max(axis=1, initial=0.0), -matrix.min(axis=1, initial=0.0))
    units = np.ldexp(1.0, np.frexp(most)[1])
    spreads = _spreads(variances / units**2) * np.sqrt(numbers)
    found = solve(matrix / units[:, None], spreads, targets)
    if found is None:
        return None
    weights: FloatArray = without_dust(found, np.where(variances > 0, spreads, 0.0)) / units
    return weights


def _spreads(variances: FloatArray) -> FloatArray:
    """Standard deviations; those of exact answers are negligible beside the others."""
    result: FloatArray = np.sqrt(np.maximum(variances, _NOTHING * (variances.max() or 1.0)))
    return result


def without_dust(weights: FloatArray, spreads: FloatArray) -> FloatArray:
    """Weights, or rows of them, with rounding errors set to 0, which would only complicate the
    error's law. ``spreads`` is 0 for exact answers, which are compared by size."""
    shares, sizes = np.abs(weights) * spreads, np.abs(weights)
    exact = spreads == 0
    for measure, looked_at in ((shares, ~exact), (sizes, exact)):
        dust = measure <= _DUST * measure.max(axis=-1, keepdims=True, initial=0.0)
        weights = np.where(dust & looked_at, 0.0, weights)
    return weights


def least_norm_work(rows: int, cells: int) -> float:
    """About the number of multiplications of `least_weighed` for a matrix of this size."""
    return float(rows * cells * min(rows, cells))


def _least_norm(matrix: FloatArray, targets: FloatArray) -> FloatArray:
    """For each target t (a row) the shortest w with w M nearest to t."""
    with one_thread():
        solution: FloatArray = linalg.lstsq(
            matrix.T, targets.T, cond=_DEPENDENT, lapack_driver="gelsy", check_finite=False
        )[0].T
    return solution


def least_weighed(matrix: FloatArray, spreads: FloatArray, targets: FloatArray) -> FloatArray:
    """For each target t (a row) the w with the shortest ``spreads`` · w of w M nearest to t."""
    quick = by_products(matrix, spreads, targets)
    if quick is not None:
        return quick
    weights = _least_norm(matrix / spreads[:, None], targets) / spreads
    off = targets - weights @ matrix
    far = np.abs(off).max(axis=-1, initial=0.0) > _NEAR * np.abs(targets).max(axis=-1, initial=0.0)
    if far.any():
        # Where variances differ widely, rounding errors are corrected by the rows that do it best.
        weights[far] += _least_norm(matrix, off[far])
    return weights


def by_products(matrix: FloatArray, spreads: FloatArray, targets: FloatArray) -> FloatArray | None:
    """As `least_weighed`, but quicker. None if there are not many more cells than rows, spreads
    differ widely, or it is not clear which rows are independent."""
    with one_thread():
        return _by_products(matrix, spreads, targets)


def _by_products(matrix: FloatArray, spreads: FloatArray, targets: FloatArray) -> FloatArray | None:
    """By M Mᵀ = L Lᵀ (Cholesky). With the r independent rows first, M = L U for orthonormal rows U,
    so that w M is nearest to t where w L = t Uᵀ."""
    if matrix.shape[1] < _MANY * len(matrix) or spreads.max() > _FAR * spreads.min():
        return None
    products = matrix @ matrix.T
    lengths = np.sqrt(products.diagonal())
    if not lengths.all():
        return None
    scaled = products / np.outer(lengths, lengths)
    factor, order, rank, _ = linalg.lapack.dpstrf(scaled, tol=_SAME, lower=1)
    if not rank or factor.diagonal()[:rank].min() < _CLEAR:
        return None
    order = order.astype(np.int64) - 1
    lower = np.tril(factor)[:, :rank] * lengths[order, None]
    of = spreads[order]
    basis, triangle = linalg.qr(lower / of[:, None], mode="economic", check_finite=False)

    def along(some: FloatArray) -> FloatArray:
        own = (matrix @ some.T)[order[:rank]]
        found: FloatArray = linalg.solve_triangular(lower[:rank], own, lower=True)
        return found

    # Random lines of cells show whether a row only nearly depends on others. They test public
    # coefficients and are not noise; they are equal in all processes, so that estimates are too.
    lines = np.random.default_rng(0).normal(size=(_LINES, matrix.shape[1]))
    off = np.abs((matrix @ lines.T)[order] - lower @ along(lines)).max(axis=1)
    if (off > _SHOWN * lengths[order]).any():
        return None
    weights, left = np.zeros((len(targets), len(matrix))), targets
    for _ in range(2):  # the second round corrects the error that the first leaves
        weights[:, order] += (
            basis @ linalg.solve_triangular(triangle, along(left), trans=1)
        ).T / of
        left = targets - weights @ matrix
    shares = np.abs(weights) * spreads
    dust = np.where(shares <= _ROUGH * shares.max(axis=1, keepdims=True), weights, 0.0)
    most = EXACT / 10 * np.abs(targets).max(axis=1)
    result: FloatArray = weights - np.where(
        (np.abs(dust @ matrix).max(axis=1) <= most)[:, None], dust, 0.0
    )
    return result
