"""The combinations of rows of least variance that are nearest to some queries, by dense matrices.

For a query q: the w with w M nearest to q, and of these the one of least Σ w_i² v_i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import linalg

from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.inference.roots import one_thread

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

EXACT: Final = 1e-11  # what A H may differ from q, relative to the largest |q| and |A_i H_ij|
LARGEST: Final = 5e7  # system that is solved, by the work it makes
_NEAR: Final = 1e-13  # a difference from q that needs no correction, relative to the largest |q|
_DUST: Final = 1e-14  # of the largest share of the error; what is less is left by rounding
_NOTHING: Final = 1e-12
_MANY: Final = 2  # times as many cells as rows, for what is solved by products of rows
_FAR: Final = 1e4  # from each other, of standard deviations: those are not
_CLEAR: Final = 1e-4  # a row this far from the others, relative to itself, is independent
_SAME: Final = 1e-13  # one whose squared distance is no more is taken to be one of them,
_SHOWN: Final = 1e-11  # if its products with random lines show no more
_LINES: Final = 3
_ROUGH: Final = 1e-12  # dust by products
_DEPENDENT: Final = 1e-12  # a row this near to the others, relative to the longest, is one of them


@dataclass(frozen=True, eq=False)
class Nearest:
    """Of some queries the ``weights`` of the nearest combinations, what these are ``off`` by on
    each cell, and which of them ``combine`` to the query; found by a system of this ``shape``."""

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
    """For each target t (a row) the w with w M nearest to t of least Σ w_i² n_i v_i, without dust,
    as ``solve`` finds it; there are ``numbers`` n_i of each row.

    Each row is taken in units of about its largest coefficient, which is a power of two: rows of
    sums in fine units would else be so long beside others that these seemed to depend on them.
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
    """Standard deviations; exact answers are given one that is nothing beside the others."""
    result: FloatArray = np.sqrt(np.maximum(variances, _NOTHING * (variances.max() or 1.0)))
    return result


def without_dust(weights: FloatArray, spreads: FloatArray) -> FloatArray:
    """Weights, or rows of them, without what rounding leaves of rows that have no part: it would
    only burden the error's law. ``spreads`` is 0 for exact answers, which burden nothing."""
    shares, sizes = np.abs(weights) * spreads, np.abs(weights)
    exact = spreads == 0
    for measure, looked_at in ((shares, ~exact), (sizes, exact)):
        dust = measure <= _DUST * measure.max(axis=-1, keepdims=True, initial=0.0)
        weights = np.where(dust & looked_at, 0.0, weights)
    return weights


def least_norm_work(rows: int, cells: int) -> float:
    """About the multiplications that `least_weighed` makes for a matrix of this size."""
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
        # Where variances lie far apart, rounding is corrected by whichever rows do it best.
        weights[far] += _least_norm(matrix, off[far])
    return weights


def by_products(matrix: FloatArray, spreads: FloatArray, targets: FloatArray) -> FloatArray | None:
    """As `least_weighed` and quicker, or None: where cells are not many more than rows, spreads lie
    far apart, or it is not clear which rows are independent."""
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

    # Rows that all but depend on others differ from what these say of some lines of cells. These
    # lines test public coefficients, and are no noise: the same in all processes, as estimates are.
    lines = np.random.default_rng(0).normal(size=(_LINES, matrix.shape[1]))
    off = np.abs((matrix @ lines.T)[order] - lower @ along(lines)).max(axis=1)
    if (off > _SHOWN * lengths[order]).any():
        return None
    weights, left = np.zeros((len(targets), len(matrix))), targets
    for _ in range(2):  # what the first leaves is corrected by the second
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
