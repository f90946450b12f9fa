"""Round the rows of which all others are sums, one after the other, near their values.

Each free row is rounded up or down, whichever leaves the least squares of the errors so far of the
row and of the rows that depend on it (`relations`). Where a dependent row is a fraction of a sum,
the last of its free rows is rounded such that the fraction is whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.knowledge.sums.relations import Relations

__all__ = ["rounded_freely"]

_UNIT: Final = 64  # a dependent row that is a finer fraction of a sum is not searched for


def rounded_freely(related: Relations, values: FloatArray) -> list[int] | None:
    """An integer for each row such that all relations hold; None if none were found."""
    matrix, number = related.matrix, len(values)
    # Relation r: units[r] · z_dependent = totals[r] − Σ_i factors · z_i over free rows i.
    units, left = [1] * len(related.dependent), related.totals.tolist()
    parts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    missing = [0] * len(units)
    coo = matrix.tocoo()
    dependent = related.dependent.tolist()
    entries = zip(coo.row.tolist(), coo.col.tolist(), coo.data.tolist(), strict=True)
    for relation, row, factor in entries:
        if row == dependent[relation]:
            units[relation] = factor
        else:
            parts[row].append((relation, factor))
            missing[relation] += 1
    exact = values.tolist()
    found = [0] * number
    off = [0.0] * len(units)  # of the dependent rows
    free = np.delete(np.arange(number), related.dependent).tolist()
    for row in deadline.stoppable(free):
        low, own = math.floor(exact[row]), parts[row]
        last = [(n, factor) for n, factor in own if missing[n] == 1 and units[n] > 1]
        reach = math.lcm(*(units[n] for n, _ in last))
        if reach > _UNIT:
            return None
        best, least = None, math.inf
        for value in range(low + 1 - reach, low + 1 + reach):
            if any((left[n] - factor * value) % units[n] for n, factor in last):
                continue
            moved = value - exact[row]
            cost = moved**2 + sum((off[n] - f / units[n] * moved) ** 2 for n, f in own)
            if cost < least:
                best, least = value, cost
        if best is None:
            return None
        found[row] = best
        for n, factor in own:
            left[n] -= factor * best
            off[n] -= factor / units[n] * (best - exact[row])
            missing[n] -= 1
    for relation, row in enumerate(dependent):
        found[row], rest = divmod(left[relation], units[relation])
        if rest:
            return None
    return found
