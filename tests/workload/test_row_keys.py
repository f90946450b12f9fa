"""The names of the rows of products, beside those made one by one."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tallyveil.workload.row_keys import row_key
from tallyveil.workload.workload import Column, Factor
from tests.pairs import one_in

SHAPE = {"a": 3, "b": 2, "c": 2, "d": 3}


def random_factor(axes: tuple[str, ...], random: np.random.Generator) -> Factor:
    shape = tuple(SHAPE[axis] for axis in axes)
    dense = random.integers(-1, 2, (3, int(np.prod(shape)))) * random.integers(1, 4, (3, 1))
    rows, cells = np.nonzero(dense)
    at = rows.astype(np.int64), cells.astype(np.int64)
    return Factor(axes, shape, 3, *at, dense[rows, cells].astype(np.int64))


@pytest.mark.parametrize("seed", one_in(3, range(60)))
def test_rows_of_a_product_have_the_names_of_the_rows_written_out(seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds = [("a", "c"), ("b", "d")], [("a",), ("b",), ("c", "d")], [("d",), ("a", "b")], [("b",)]
    for axes in kinds:
        column = Column(tuple(random_factor(own, random) for own in axes))
        written = column.multiplied_out(10_000)
        assert written is not None
        expected = tuple(row_key((part,)) for part in written.listed().parts)
        assert column.row_keys == expected
        some = np.flatnonzero(random.random(column.height) < 0.5)
        assert Column(column.factors, selected=some).row_keys == tuple(
            expected[row] for row in some.tolist()
        )
        contents = [s or 1 for s, _ in written.listed().parts]
        assert [content for _, content in column.named_rows] == contents


def test_rows_have_their_own_names_over_very_many_cells() -> None:
    """Those of a few rows are more than an int64 can tell apart."""
    random, shape = np.random.default_rng(0), (2**21, 2**20, 2**21)
    sides = [np.sort(random.integers(0, size, (6, 3)), axis=1) for size in shape]
    strides = np.array([2**41, 2**21, 1])
    cells = [
        (a[:, None, None] * strides[0] + b[:, None] * strides[1] + c).ravel()
        for a, b, c in zip(*sides, strict=True)
    ]
    rows = np.repeat(np.arange(6), 27)
    coefficients = np.ones(6 * 27, dtype=np.int64)
    coefficients[27 * 4 :] = random.integers(1, 5, 2 * 27)  # rows that are no products
    together = Factor(("a", "b", "c"), shape, 6, rows, np.concatenate(cells), coefficients)
    apart = [together.take(np.array([row])) for row in range(6)]
    assert together.listed().parts == tuple(one.listed().parts[0] for one in apart)
    assert [len(parts) for _, parts in together.listed().parts] == [3, 3, 3, 3, 1, 1]


def test_the_names_of_many_rows_are_quick() -> None:
    """About 2 µs a row; 10 µs and more where each is put together from its parts."""

    def every(axis: str, size: int) -> Factor:
        at = np.arange(size, dtype=np.int64)
        return Factor((axis,), (size,), size, at, at, np.ones_like(at))

    column = Column((every("a", 260), every("b", 250)))
    start = time.process_time()
    keys = column.row_keys
    taken = time.process_time() - start
    assert len(set(keys)) == 65_000
    parts = [factor.listed().parts for factor in column.factors]
    start = time.process_time()
    for row in range(250):
        row_key([parts[0][0], parts[1][row]])
    assert taken < 260 * (time.process_time() - start)
