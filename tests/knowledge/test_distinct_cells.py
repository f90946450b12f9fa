"""Rows over the cells that they distinguish have each column of the rows over all cells once."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tallyveil.knowledge.recorded.matrix import related
from tallyveil.knowledge.recorded.prepared import PreparedColumn
from tallyveil.workload.workload import Column, Factor

SIZES = {"a": 6, "b": 5, "c": 3, "d": 4}
KINDS = [
    [("a",)], [("a",), ("b",)], [("a", "b"), ("c",)], [("b", "c"), ("d",)], [("a", "b", "c")],
    [("d",), ("a",)], [],
]  # fmt: skip


def _factor(random: np.random.Generator, axes: tuple[str, ...], coefficients: list[int]) -> Factor:
    shape = tuple(SIZES[axis] for axis in axes)
    height = int(random.choice([0, 1, 1, 2, 3]))
    values = random.choice(np.array([0, *coefficients]), size=(height, int(np.prod(shape))))
    rows, cells = np.nonzero(values)
    return Factor(axes, shape, height, rows, cells, values[rows, cells])


def _column(random: np.random.Generator, others: list[int]) -> Column:
    """Of a random kind, sometimes only one row of the product."""
    kind = KINDS[random.integers(len(KINDS))]
    odd = int(random.integers(4))
    whole = Column(
        tuple(_factor(random, axes, others if n == odd else [2, 1]) for n, axes in enumerate(kind))
    )
    some = whole.height > 1 and random.integers(3) == 0
    return Column(whole.factors, selected=np.array([1])) if some else whole


@pytest.mark.parametrize("others", [[1], [1, 2, 3], [-1, 1], [1 << 40, 1 << 41, 1 << 42]])
def test_cells_that_are_equal_in_all_rows_are_merged(others: list[int]) -> None:
    """Against the rows written out over all cells of the attributes."""
    random = np.random.default_rng(0)
    for _ in range(20):
        columns = [_column(random, others) for _ in range(8)]
        prepared = [PreparedColumn.of(1, column) for column in columns]
        found = related(prepared[:2], range(2, len(columns)), prepared.__getitem__, 100_000)
        assert found is not None
        used = [columns[n] for n in found.used]
        for own, rows in ((used, found.history), (columns[:2], found.question)):
            assert rows.has_sorted_indices
            assert rows.shape[0] == sum(column.height for column in own)
        whole = np.vstack([_written_out(column) for column in (*used, *columns[:2])])
        merged = np.vstack([found.history.toarray(), found.question.toarray()])
        cells = [*map(tuple, merged.T)]
        assert len({*cells}) == len(cells)
        assert {*cells} == {*map(tuple, whole.T)}


def _written_out(column: Column) -> np.ndarray:
    """The column's rows over all cells of all attributes."""
    rows = np.ones((column.height, *SIZES.values()), dtype=np.int64)
    for factor, numbers in zip(column.factors, column.factor_rows(column.numbers), strict=True):
        own = factor.dense().reshape(factor.height, *factor.shape)[numbers]
        order = sorted(range(len(factor.axes)), key=lambda n: list(SIZES).index(factor.axes[n]))
        shape = [size if axis in factor.axes else 1 for axis, size in SIZES.items()]
        rows = rows * own.transpose(0, *(1 + n for n in order)).reshape(column.height, *shape)
    return rows.reshape(column.height, math.prod(SIZES.values()))
