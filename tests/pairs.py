"""Which of a test's cases the suite runs: of the combinations of several factors' values few, in
which any two values of two factors meet.

A mistake that one value or two values together bring about is met as by all combinations; one that
takes three is met where they happen to stand together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations, product
from typing import Any

import pytest

__all__ = ["alternately", "one_in", "pairs", "pairs_first"]


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


def pairs_first(*factors: Collection[Any]) -> list[Any]:
    """All combinations, as parameters of a test; the suite runs those of `pairs`."""
    chosen = pairs(*factors)
    return [_parameters(case, slow=case not in chosen) for case in product(*factors)]


def one_in(number: int, cases: Iterable[Any], first: int = 0) -> list[Any]:
    """All cases, as parameters of a test, a tuple for several; the suite runs one in so many."""
    return [
        _parameters(case if type(case) is tuple else (case,), slow=n % number != first)
        for n, case in enumerate(cases)
    ]


def alternately(*factors: Iterable[Any]) -> list[Any]:
    """All combinations, as parameters of a test; the suite runs every other one, as on a
    chessboard: each value with half of those of another factor, and of three factors any two."""
    return [
        _parameters(tuple(own for _, own in each), slow=sum(n for n, _ in each) % 2 == 1)
        for each in product(*map(enumerate, factors))
    ]


def _parameters(case: tuple[Any, ...], *, slow: bool) -> Any:
    return pytest.param(*case, marks=[pytest.mark.slow] if slow else [])
