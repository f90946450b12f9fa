"""Hierarchical intervals over an ordered attribute: any range is the sum of few of them.

Level l has the intervals of f^l consecutive values, from single values (l = 0) up to one interval
of all; f is the fanout. With h levels, a range is the sum of at most 2(f - 1) intervals of each
(the tree H of Hay, Rastogi, Miklau and Suciu, PVLDB 3(1), 2010, §4).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.policy import Attribute
from tallyveil.strategies.strategy import Strategy, Typical, check_size, marginal
from tallyveil.workload.workload import Column, Workload

__all__ = ["tree"]

_FANOUTS: Final = range(2, 17)
_SHARES: Final = (10, 4, 2)  # typical ranges: a tenth, a quarter, a half of the values


def tree(table: str, attribute: Attribute, fanout: int | None) -> Strategy:
    """Return the counts of all intervals; NULL and "other" are values outside the order.

    ``fanout`` defaults to the one from 2 to 16 that minimises (f - 1) · h³: if the levels share ε
    evenly, noise has a variance in h², and a range needs up to 2(f - 1) · h counts.

    Raises FeatureNotSupported for an attribute without an order, InvalidParameterValue for a
    fanout below 2, and StatementTooComplex.
    """
    if not attribute.ordered:
        raise FeatureNotSupported(
            f"{attribute.name} has no order, so it has no intervals to count",
            hint=f"Use --strategy identity --attributes {attribute.name}.",
        )
    values = _ordered(attribute)
    if fanout is None:
        fanout = min(_FANOUTS, key=lambda f: (f - 1) * _levels(values, f) ** 3)
    if not fanout >= 2:
        raise InvalidParameterValue(f"the fanout of a tree must be at least 2, not {fanout}")
    check_size([[attribute]], "Declare a coarser range, or bins.")
    columns = [marginal([attribute])]
    columns += (
        _intervals(attribute, values, fanout, level) for level in range(1, _levels(values, fanout))
    )
    words = f"warm-up of {table}: tree over {attribute.name} with fanout {fanout}"
    return Strategy(words, Workload(table, tuple(columns)), _typical(attribute, values, fanout))


def _ordered(attribute: Attribute) -> int:
    """Return how many cells are ordered values; they come first."""
    return attribute.size - len({attribute.null_cell, attribute.other_cell} - {None})


def _levels(values: int, fanout: int) -> int:
    levels, width = 1, 1
    while width < values:
        levels, width = levels + 1, width * fanout
    return levels


def _intervals(attribute: Attribute, values: int, fanout: int, level: int) -> Column:
    """Return the intervals of ``level``, without those that a lower level has."""
    width, below = fanout**level, fanout ** (level - 1)
    starts = [s for s in range(0, values, width) if min(s + width, values) - s > below]
    ends = [min(start + width, values) for start in starts]
    cells = [np.arange(s, e, dtype=np.int64) for s, e in zip(starts, ends, strict=True)]
    rows = np.repeat(np.arange(len(starts), dtype=np.int64), [len(own) for own in cells])
    every = np.concatenate(cells)
    return Column.joint(
        (attribute.name,), (attribute.size,), len(starts), rows, every, np.ones_like(every)
    )


def _typical(attribute: Attribute, values: int, fanout: int) -> tuple[Typical, ...]:
    """Return typical questions: one value, ranges of some lengths in the middle, and the total."""
    typical = [Typical(f"one value of {attribute.name}", {0: 1})]
    for share in _SHARES:
        length = values // share
        if length > 1:
            start = (values - length) // 2
            parts = _parts(start, start + length, values, fanout)
            typical.append(Typical(f"a range of {length} values of {attribute.name}", parts))
    every = Counter(_parts(0, values, values, fanout))
    every[0] += attribute.size - values
    return (*typical, Typical("the total", +every))


def _parts(start: int, end: int, values: int, fanout: int) -> dict[int, int]:
    """Return how many intervals of each level add up to start..end - 1, the longest that fit
    first."""
    parts: Counter[int] = Counter()
    while start < end:
        level = 0
        while True:
            width = fanout ** (level + 1)
            # The last interval of a level is cut off at the end of the values.
            if start % width or min(start + width, values) > end or fanout**level >= values - start:
                break
            level += 1
        parts[level] += 1
        start = min(start + fanout**level, values)
    return dict(parts)
