"""From floats to integer weights: exactly stochastic, and as close as the floats are."""

from __future__ import annotations

import math

import numpy as np

from tallyveil.mechanisms.matrix.program import Floats, Layout

__all__ = ["integer_columns"]

# Floats have 53 bits, and the least entries are far below 1.
_TOTAL_BITS = 96


def integer_columns(plan: Layout, probabilities: Floats) -> list[list[int]]:
    """weights[j][i] by truth j, each column adding up to 2⁹⁶; shared variables stay shared.

    Every entry is cut off to a multiple of 2⁻⁹⁶. What a column then lacks of 1 is spread evenly
    over its entries off the diagonal, each of which (or it and its mirror image) is in no other
    column. Diagonal entries are even, so that where all others come in pairs the rest does too.
    """
    total = 1 << _TOTAL_BITS
    weights = [int(math.ldexp(float(p), _TOTAL_BITS)) for p in probabilities]
    for variable in np.unique(np.diag(plan.variable)).tolist():
        weights[variable] -= weights[variable] % 2
    for j in plan.columns:
        column = plan.variable[:, j]
        lack = total - sum(weights[variable] for variable in column.tolist())
        free, times = np.unique(np.delete(column, j), return_counts=True)
        share, rest = divmod(lack // int(times[0]), len(free))
        for place, variable in enumerate(free.tolist()):
            weights[variable] += share + (place < rest)
    return [[weights[variable] for variable in column] for column in plan.variable.T.tolist()]
