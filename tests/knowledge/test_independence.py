"""Rows are said to be independent only if they are, by their rank; and in the common case."""

from __future__ import annotations

import numpy as np
import pytest

from tallyveil.knowledge.sums.independence import independent
from tallyveil.workload.workload import Column, Factor

SIZES = {"g": 3, "x": 4, "y": 2}


def factor(axis: str, rows: list[list[int]]) -> Factor:
    entries = [(r, c, v) for r, own in enumerate(rows) for c, v in enumerate(own) if v]
    arrays = (np.array(one, dtype=np.int64) for one in zip(*entries, strict=True))
    return Factor((axis,), (SIZES[axis],), len(rows), *arrays)


def dense(column: Column) -> np.ndarray:
    found = np.ones((1, 1))
    by_axis = {own.axes[0]: own for own in column.factors}
    for axis, size in SIZES.items():
        own = np.ones((1, size))
        if axis in by_axis:
            own = np.zeros((by_axis[axis].height, size))
            own[by_axis[axis].rows, by_axis[axis].cells] = by_axis[axis].coefficients
        found = np.kron(found, own)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_the_rank(seed: int) -> None:
    random = np.random.default_rng(seed)
    groups = factor("g", np.eye(3, dtype=int).tolist())
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
                    factors.append(factor(axis, rows.tolist()))
            columns.append(Column(tuple(factors)))
        rows = np.concatenate([dense(one) for one in columns])
        if independent(columns):
            claimed += 1
            assert np.linalg.matrix_rank(rows) == np.count_nonzero(rows.any(axis=1))
    assert claimed > 60


def test_counts_and_sums_by_group_are_independent() -> None:
    groups = factor("g", np.eye(3, dtype=int).tolist())
    count, total = Column((groups,)), Column((groups, factor("x", [[0, 1, 2, 3]])))
    assert independent([count, total])
    assert not independent([count, total, Column((groups, factor("x", [[1, 2, 3, 4]])))])
    assert not independent([count, Column(())])
    assert not independent([Column((factor("g", [[1, 1, 0], [0, 1, 1]]),))])
