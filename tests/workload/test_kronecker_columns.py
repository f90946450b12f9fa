"""A product of factors is the matrix it stands for, whichever way it is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.workload.workload import Column, Factor, Workload
from tests import matrices

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}


def factor(axes: Sequence[str], dense: Any) -> Factor:
    shape = [SIZES[name] for name in axes]
    return matrices.factor(np.reshape(dense, (-1, math.prod(shape))), axes, shape)


def full(column: Column) -> np.ndarray:
    """Its rows over all cells of all axes, as tensors multiplied out by NumPy."""
    tensor, axes = np.ones(1, dtype=np.int64), []
    for f in column.factors:
        own = f.dense().reshape(f.height, *f.shape)
        tensor = np.multiply.outer(tensor, own)
        tensor = np.moveaxis(tensor, 1 + len(axes), 1)
        tensor = tensor.reshape(-1, *tensor.shape[2:])
        axes += f.axes
    order = [0] + [1 + axes.index(name) for name in SIZES if name in axes]
    tensor = np.transpose(tensor, order)
    tensor = tensor.reshape(len(tensor), *(SIZES[n] if n in axes else 1 for n in SIZES))
    whole = np.broadcast_to(tensor, (len(tensor), *SIZES.values()))
    return whole if column.selected is None else whole[column.selected]


values = st.sampled_from([0, 0, 0, 1, 1, 2, -1, 6, -4, 2**20])


@st.composite
def factors(draw: st.DrawFn, axes: Sequence[str]) -> Factor:
    cells = math.prod(SIZES[name] for name in axes)
    if draw(st.booleans()) and cells > 1:  # rows that are products themselves
        rows = []
        for _ in range(draw(st.integers(1, 3))):
            row = np.ones(1, dtype=np.int64)
            for name in axes:
                n = SIZES[name]
                side = draw(st.lists(st.sampled_from([0, 1, 1, -2]), min_size=n, max_size=n))
                row = np.multiply.outer(row, np.array(side)).ravel()
            rows.append(row)
        return factor(axes, rows)
    row_of = st.lists(values, min_size=cells, max_size=cells)
    return factor(axes, draw(st.lists(row_of, min_size=1, max_size=3)))


@st.composite
def columns(draw: st.DrawFn) -> Column:
    place = {name: draw(st.sampled_from([None, 0, 1, 2])) for name in SIZES}
    groups = [[name for name in SIZES if place[name] == g] for g in range(3)]
    return Column(tuple(draw(factors(axes)) for axes in groups if axes))


@st.composite
def parts(draw: st.DrawFn) -> Column:
    whole = draw(columns())
    rows = draw(st.sets(st.integers(0, whole.height - 1)))
    return whole.take(np.array(sorted(rows), dtype=np.int64))


def jointly(tensors: np.ndarray, axes: Sequence[str] = tuple(SIZES)) -> Column:
    return Column((factor(axes, tensors.reshape(len(tensors), -1)),))


@given(columns() | parts())
def test_the_same_row_has_the_same_key_however_it_is_written(column: Column) -> None:
    tensors = full(column)
    if len(tensors):
        assert jointly(tensors).row_names == column.row_names
        out = column.multiplied_out(10**6)
        assert out is not None
        assert Column((out,)).row_names == column.row_names


@given(columns(), columns())
def test_rows_that_are_no_multiples_of_each_other_have_different_keys(
    one: Column, other: Column
) -> None:
    known: dict[bytes, tuple[int, np.ndarray]] = {}
    for column in (one, other):
        for (key, content), row in zip(column.named_rows, full(column), strict=True):
            times, first = known.setdefault(key, (content, row))
            assert np.array_equal(times * row, content * first)


@given(columns(), st.sampled_from([-6, -1, 2, 5]))
def test_a_multiple_of_a_row_has_its_key(column: Column, times: int) -> None:
    tensors = full(column)
    keys, contents = jointly(times * tensors).row_names
    assert keys == column.row_keys
    plain = column.row_contents or (1,) * column.height
    expected = [times * c if row.any() else 1 for c, row in zip(plain, tensors, strict=True)]
    assert [*(contents or [1] * len(keys))] == expected


@given(columns(), st.data())
def test_taking_rows_takes_those_rows(column: Column, data: st.DataObject) -> None:
    for _ in range(2):  # some rows of some rows
        rows = sorted(data.draw(st.sets(st.integers(0, column.height - 1), min_size=1)))
        taken = column.take(np.array(rows, dtype=np.int64))
        assert taken.row_keys == tuple(column.row_keys[i] for i in rows)
        assert [*taken.named_rows] == [
            name for n, name in enumerate(column.named_rows) if n in rows
        ]
        assert np.array_equal(full(taken), full(column)[rows])
        assert taken.entries == sum(np.count_nonzero(t) for t in dense_rows(taken))
        column = taken


def dense_rows(column: Column) -> list[np.ndarray]:
    out = column.multiplied_out(10**6)
    assert out is not None
    matrix = np.zeros((out.height, out.size), dtype=np.int64)
    matrix[out.rows, out.cells] = out.coefficients
    return list(matrix)


def test_a_subset_that_is_a_product_stays_one() -> None:
    column = Column((factor("a", np.eye(2)), factor("b", np.eye(3))))
    assert column.take(np.array([1, 2, 4, 5])).selected is None
    assert column.take(np.array([0, 5])).selected is not None


def test_a_product_is_not_multiplied_out_beyond_the_limit() -> None:
    column = Column((factor("a", np.eye(2)), factor("b", np.eye(3))))
    assert column.multiplied_out(5) is None
    assert column.multiplied_out(6) is not None


def test_axes_that_say_nothing_are_not_in_the_key() -> None:
    row = [[[1, 1], [1, 1], [1, 1]]]
    assert Column((factor("bc", row),)).row_keys == Column().row_keys
    tied = [[[1, 0], [1, 0], [1, 0]]]
    assert Column((factor("bc", tied),)).row_keys == Column((factor("c", [1, 0]),)).row_keys


def test_extreme_coefficients_have_keys_of_their_own() -> None:
    rows = [
        [-(2**63), 1], [-(2**63), -1], [1, -(2**63)], [-1, -(2**63)], [2**63 - 1, 1],
        [-(2**63), -(2**63)], [1, 1], [-1, -1],
    ]  # fmt: skip
    column = Column((factor("a", rows),))
    assert len(set(column.named_rows)) == len(rows)
    assert len(set(column.row_keys)) == len(rows) - 2
    assert column.row_contents is not None
    assert column.row_contents[-3:] == (-(2**63), 1, -1)


def test_what_a_receipt_is_for_depends_on_contents() -> None:
    """Multiples of a row have one key, and not one price."""
    each = [[[1, 0]], [[2, 0]], [[-1, 0]], [[1, 0], [2, 0]], [[2, 0], [1, 0]]]
    keys = {Workload("t", (Column((factor("a", rows),)),)).key for rows in each}
    keys |= {Workload("t", tuple(Column((factor("a", row),)) for row in each[3])).key}
    assert len(keys) == len(each) + 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Column((factor("a", [1, 0]), factor("a", [1, 0]))), "no axis in common"),
        (lambda: Column(multiplier=Fraction(0)), "positive"),
        (lambda: Column((factor("a", [1, 0]),), selected=np.array([1])), "rows of the product"),
        (lambda: Column((factor("a", np.eye(2)),), selected=np.array([1, 0])), "ascending"),
        (lambda: Column((factor("a", np.eye(2)),), selected=np.array([-1, 0])), "rows of the"),
    ],
)
def test_nonsense_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_workloads_key_names_its_columns_apart() -> None:
    a, b = Column((factor("a", np.eye(2)),)), Column((factor("b", [1, 0, 0]),))
    keys = {Workload("t", columns).key for columns in ((a,), (b,), (a, b), (b, a), ())}
    assert len(keys) == 5
