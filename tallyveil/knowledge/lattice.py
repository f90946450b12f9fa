"""The nearest integers that satisfy the relations between rows, where rounding does not find any.

    argmin Σ_i |z_i − x_i| / √V_i   over integers z with R z = 0, and z_i ≥ 0 for counts.

Of three-way tables with all two-way margins there need not be any within 1 of x, so it is an
integer program, and a search that is cut off after so many nodes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.inference.noise import FloatArray
from tallyveil.solver_threads import aside

__all__ = ["nearest_integers"]

_ROWS: Final = 2_000
_NODES: Final = 1_000  # and not seconds, so that the same statement is answered alike
_SECONDS: Final = 2.0


def nearest_integers(
    relations: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: npt.NDArray[np.bool_] | None = None,
) -> list[int] | None:
    """What is of variance 0 is an integer and stays; None if no integers were found."""
    number = len(values)
    if number > _ROWS:
        return None
    fixed = variances == 0
    low = np.where(fixed, np.rint(values), -np.inf)
    if counts is not None:
        low = np.where(counts & ~fixed, 0.0, low)
    high = np.where(fixed, np.rint(values), np.inf)
    weights = 1 / np.sqrt(np.where(fixed, 1.0, variances))
    one = sparse.eye_array(number)
    from scipy.optimize import Bounds, LinearConstraint, milp

    off = sparse.vstack([sparse.hstack([one, -one]), sparse.hstack([-one, -one])])
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
                LinearConstraint(sparse.hstack([relations, none]).tocsr(), 0, 0),
                LinearConstraint(off.tocsr(), -np.inf, np.concatenate([values, -values])),
            ],
            options={"node_limit": _NODES, "time_limit": _SECONDS},
        )
    )
    if found.x is None:
        return None
    told = np.rint(found.x[:number])
    return None if (relations @ told).any() else [int(value) for value in told.tolist()]
