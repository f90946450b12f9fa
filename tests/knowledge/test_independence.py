"""Rows are said to be independent only if they are, by their rank; and in the common case."""

from __future__ import annotations

import numpy as np
import pytest

from tallyveil.knowledge.sums.independence import independent
from tallyveil.workload.workload import Column
from tests.matrices import factor, over_all_cells

SIZES = {"g": 3, "x": 4, "y": 2}


@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_the_rank(seed: int) -> None:
    random = np.random.default_rng(seed)
    groups = factor(np.eye(3, dtype=int), ("g",))
    claimed = 0
    for _ in range(300):
        columns = []
        for _ in range(int(random.integers(1, 4))):
            factors = [] if random.random() < 0.1 else [groups]
            for axis in ("x", "y"):
                if random.random() < 0.6:
                    height = 1 if random.random() < 0.8 else 2
                    rows = random.integers(0, 3, (height, SIZES[axis]))
                    rows[:, 0] += rows.sum(axis=1) == 0
                    factors.append(factor(rows, (axis,)))
            columns.append(Column(tuple(factors)))
        rows = np.concatenate([over_all_cells(one, SIZES) for one in columns])
        if independent(columns):
            claimed += 1
            assert np.linalg.matrix_rank(rows) == np.count_nonzero(rows.any(axis=1))
    assert claimed > 60


def test_counts_and_sums_by_group_are_independent() -> None:
    groups = factor(np.eye(3, dtype=int), ("g",))
    count, total = Column((groups,)), Column((groups, factor([[0, 1, 2, 3]], ("x",))))
    assert independent([count, total])
    assert not independent([count, total, Column((groups, factor([[1, 2, 3, 4]], ("x",))))])
    assert not independent([count, Column(())])
    assert not independent([Column((factor([[1, 1, 0], [0, 1, 1]], ("g",)),))])
