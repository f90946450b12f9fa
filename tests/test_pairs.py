"""Combinations of which there are few, that leave no pair of values out."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.pairs import pairs


@pytest.mark.parametrize("sizes", [(2, 2, 2), (12, 2, 2), (3, 3, 2, 2), (7, 5), (1, 4, 3), (4,)])
def test_any_two_values_of_two_factors_meet(sizes: tuple[int, ...]) -> None:
    factors = [[f"{n}{value}" for value in range(size)] for n, size in enumerate(sizes)]
    chosen = pairs(*factors)
    for one, other in combinations(range(len(sizes)), 2):
        met = {(row[one], row[other]) for row in chosen}
        assert len(met) == sizes[one] * sizes[other]
    largest = sorted(sizes)[-2:]
    assert len(chosen) <= largest[0] * largest[-1] * 1.5
