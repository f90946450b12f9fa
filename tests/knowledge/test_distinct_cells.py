"""Rows looked up at the cells that differ equal the rows expanded over all cells."""

from __future__ import annotations

import numpy as np
import pytest

from tallyveil.knowledge.recorded import distinct_cells, matrix
from tallyveil.knowledge.recorded.matrix import Related, related
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
    """Of a random kind, with other coefficients than 0 and 1 in one factor at most."""
    kind = KINDS[random.integers(len(KINDS))]
    odd = int(random.integers(4))
    return Column(
        tuple(_factor(random, axes, others if n == odd else [1]) for n, axes in enumerate(kind))
    )


def _related(columns: list[Column]) -> Related:
    prepared = [PreparedColumn.of(column) for column in columns]
    found = related(prepared[:2], range(2, len(columns)), prepared.__getitem__, 100_000)
    assert found is not None
    return found


@pytest.mark.parametrize("others", [[1], [1, 2, 3], [-1, 1], [1 << 40, 1 << 41, 1 << 42]])
def test_the_same_cells_are_found_and_written_out(
    others: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        columns = [_column(random, others) for _ in range(8)]
        with monkeypatch.context() as patched:
            patched.setattr(matrix, "_distinct_cells", None)  # nothing is written out for it
            found = _related(columns)
        with monkeypatch.context() as patched:
            patched.setattr(distinct_cells.Products, "distinct_cells", lambda _: None)
            expected = _related(columns)
        with monkeypatch.context() as patched:
            patched.setattr(distinct_cells.Products, "at", lambda _, cells: None)
            looked_up = _related(columns)
        for one in (found, looked_up):
            assert one.used == expected.used
            for own, other in ((one.history, expected.history), (one.question, expected.question)):
                assert own.has_sorted_indices
                assert np.array_equal(own.toarray(), other.toarray())
                assert own.nnz == other.nnz


def test_rows_that_are_selected_and_two_factors_with_coefficients_are_written_out() -> None:
    random = np.random.default_rng(1)
    every = Column(tuple(_factor(random, axes, [1]) for axes in (("a",), ("b",))))
    some = Column(every.factors, selected=np.array([0], dtype=np.int64))
    tied = Column(tuple(_factor(random, axes, [2, 3]) for axes in (("a",), ("b",))))
    for own in (some, tied):
        found = _related([every, every, own])
        cells = np.vstack([found.history.toarray(), found.question.toarray()]).T
        assert len({*map(tuple, cells)}) == len(cells)
