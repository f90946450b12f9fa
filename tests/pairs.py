"""Few combinations of the values of several factors, in which any two values of two factors meet.

A mistake that one value or two values together bring about is met as by all combinations; one that
takes three is met where they happen to stand together.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations, product
from typing import Any

__all__ = ["pairs"]


def pairs(*factors: Collection[Any]) -> list[tuple[Any, ...]]:
    """Return combinations of one value of each factor, chosen greedily and always the same ones."""
    values = [list(each) for each in factors]
    rows = {row: set(_met(row)) for row in product(*(range(len(each)) for each in values))}
    missing, chosen = set().union(*rows.values()), []
    while missing:
        best = max(rows, key=lambda row: len(rows[row] & missing))
        missing -= rows.pop(best)
        chosen.append(best)
    return [tuple(own[n] for own, n in zip(values, row, strict=True)) for row in sorted(chosen)]


def _met(row: tuple[int, ...]) -> list[Any]:
    return list(combinations(enumerate(row), 2))
