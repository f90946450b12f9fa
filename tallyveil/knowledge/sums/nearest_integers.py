"""The nearest integers that satisfy the relations between rows, by an integer program."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.solver_threads import in_solver_thread

__all__ = ["nearest_integers"]

_ROWS: Final = 2_000
_SIZE: Final = 2_750  # of a program, the sum of |R|: about five seconds at most
_FACTOR: Final = 8  # larger factors count as this one
_NODES: Final = 1_000
_WORK: Final = 1e8  # nodes times the square of the size: about two seconds
_GAP: Final = 0.02
_LIGHTEST: Final = 1e-4  # the smallest weight; the largest is 1


def nearest_integers(
    relations: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None = None,
    start: IntArray | None = None,
    totals: IntArray | int = 0,
) -> list[int] | None:
    """The nearest integers that satisfy the relations, for cases where rounding finds none.

        argmin Σ_i |z_i − x_i| / √V_i   over integers z with R z = b, and z_i ≥ 0 for counts.

    b are the ``totals``.

    A three-way table with all two-way margins may have no such integers within 1 of x, so this is
    an integer program. Its search ends within 2 % of the least sum, or at a number of nodes. The
    clock does not limit it, so the same statement is answered alike. Values of variance 0 are
    integers and stay. None if no integers were found, or the program is too large. The program is
    in z − ``start``, integers near the values, so that large values lose no digits.

    |z − x| is bounded by three lines: its two sides, and the chord from ⌊x⌋ to ⌈x⌉. The chord holds
    for integers only. Without it z = x would be the best z that need not be an integer, which says
    nothing about integers.
    """
    number = len(values)
    size = int(np.minimum(np.abs(relations.data), _FACTOR).sum())
    if number > _ROWS or size > _SIZE:
        return None
    fixed = variances == 0
    if start is None:
        start = np.rint(values).astype(np.int64)
    off, values = relations @ start - totals, values - start
    low = np.where(fixed, np.rint(values), -np.inf)
    if counts is not None:
        low = np.where(counts & ~fixed, -start.astype(np.float64), low)
    high = np.where(fixed, np.rint(values), np.inf)
    nodes = min(_NODES, max(1, int(_WORK / max(1, size) ** 2)))
    moved = _solved(relations, values, off, _weights(variances), (low, high), nodes)
    if moved is None:
        return None
    integers = start + moved
    return None if (relations @ integers != totals).any() else integers.tolist()


def _weights(variances: FloatArray) -> FloatArray:
    """1 / √V over the largest of these; 0 where V = 0."""
    fixed = variances == 0
    deviations = np.sqrt(np.where(fixed, np.inf, variances))
    least = deviations.min(initial=np.inf)
    # The solver treats weights far below the greatest one as 0.
    return np.where(fixed, 0.0, np.maximum(least / deviations, _LIGHTEST))


def _solved(
    relations: sparse.csr_matrix,
    values: FloatArray,
    off: FloatArray | IntArray,
    weights: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    nodes: int,
) -> IntArray | None:
    """argmin Σ_i w_i d_i over integers z within their ``ends`` with R z = −off, and d_i at least
    each of the three lines that bound |z_i − x_i|. None if none were found at so many nodes.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    number = len(values)
    away, most = _distances(values)
    zeros, none = np.zeros(number), sparse.csr_matrix(relations.shape)
    found = in_solver_thread(
        lambda: milp(
            np.concatenate([zeros, weights]),
            integrality=np.concatenate([np.ones(number), zeros]),
            bounds=Bounds(
                np.concatenate([ends[0], zeros]),
                np.concatenate([ends[1], np.full(number, np.inf)]),
            ),
            constraints=[
                LinearConstraint(sparse.hstack([relations, none]).tocsr(), -off, -off),
                LinearConstraint(away, -np.inf, most),
            ],
            options={"node_limit": nodes, "mip_rel_gap": _GAP},
        )
    )
    return None if found.x is None else np.rint(found.x[:number]).astype(np.int64)


def _distances(values: FloatArray) -> tuple[sparse.csr_matrix, FloatArray]:
    """A and b of the lines A (z, d) ≤ b that bound d = |z − x|: its two sides, and the chord from
    ⌊x⌋ to ⌈x⌉."""
    one, below = sparse.eye_array(len(values)), np.floor(values)
    slopes = 1 - 2 * (values - below)
    lines = [one, -one, sparse.diags_array(slopes)]
    away = sparse.vstack([sparse.hstack([line, -one]) for line in lines])
    return away.tocsr(), np.concatenate([values, -values, slopes * below - (values - below)])
