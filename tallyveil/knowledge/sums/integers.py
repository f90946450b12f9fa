"""The nearest integers that satisfy the relations between rows, by an integer program."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.solver_threads import aside

__all__ = ["nearest_integers"]

_ROWS: Final = 2_000
_NODES: Final = 1_000  # a limit of nodes, not of time: the same statement is answered alike
_SECONDS: Final = 2.0
_LIGHTEST: Final = 1e-4  # the smallest weight; the largest is 1


def nearest_integers(
    relations: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None = None,
    start: IntArray | None = None,
) -> list[int] | None:
    """The nearest integers that satisfy the relations, for cases where rounding finds none.

        argmin Σ_i |z_i − x_i| / √V_i   over integers z with R z = 0, and z_i ≥ 0 for counts.

    A three-way table with all two-way margins may have no such integers within 1 of x, so this is
    an integer program, whose search is limited by nodes. Values of variance 0 are integers and
    stay. None if no integers were found. The program is in z − ``start``, integers near the values,
    so that large values lose no digits.
    """
    number = len(values)
    if number > _ROWS:
        return None
    fixed = variances == 0
    if start is None:
        start = np.rint(values).astype(np.int64)
    off, values = relations @ start, values - start
    low = np.where(fixed, np.rint(values), -np.inf)
    if counts is not None:
        low = np.where(counts & ~fixed, -start.astype(np.float64), low)
    high = np.where(fixed, np.rint(values), np.inf)
    deviations = np.sqrt(np.where(fixed, np.inf, variances))
    least = deviations.min(initial=np.inf)
    # The solver treats weights far below the greatest one as 0.
    weights = np.where(fixed, 0.0, np.maximum(least / deviations, _LIGHTEST))
    one = sparse.eye_array(number)
    from scipy.optimize import Bounds, LinearConstraint, milp

    away = sparse.vstack([sparse.hstack([one, -one]), sparse.hstack([-one, -one])])
    none = sparse.csr_matrix(relations.shape)
    found = aside(
        lambda: milp(
            np.concatenate([np.zeros(number), weights]),
            integrality=np.concatenate([np.ones(number), np.zeros(number)]),
            bounds=Bounds(
                np.concatenate([low, np.zeros(number)]),
                np.concatenate([high, np.full(number, np.inf)]),
            ),
            constraints=[
                LinearConstraint(sparse.hstack([relations, none]).tocsr(), -off, -off),
                LinearConstraint(away.tocsr(), -np.inf, np.concatenate([values, -values])),
            ],
            options={"node_limit": _NODES, "time_limit": _SECONDS},
        )
    )
    if found.x is None:
        return None
    integers = start + np.rint(found.x[:number]).astype(np.int64)
    return None if (relations @ integers).any() else integers.tolist()
