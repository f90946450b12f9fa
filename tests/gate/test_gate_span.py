"""Whether history may determine a question, beside the rank of what is written out."""

from __future__ import annotations

import numpy as np
import pytest

from tallyveil.knowledge.rank import Span
from tallyveil.workload.workload import Column, Factor

SHAPE = {"a": 4, "b": 5, "c": 3}


def factor(axes: tuple[str, ...], dense: np.ndarray) -> Factor:
    rows, cells = np.nonzero(dense)
    shape = tuple(SHAPE[axis] for axis in axes)
    return Factor(
        axes, shape, len(dense), rows.astype(np.int64), cells.astype(np.int64), dense[rows, cells]
    )


def random_factor(axes: tuple[str, ...], height: int, random: np.random.Generator) -> Factor:
    size = int(np.prod([SHAPE[axis] for axis in axes]))
    touched = random.integers(0, 2, (height, size))
    touched[np.arange(height), random.integers(0, size, height)] = 1
    return factor(axes, touched * random.integers(1, 4, (1, size)))


def written_out(column: Column) -> np.ndarray:
    """Its rows over all cells."""
    total = np.ones((1, 1), dtype=np.int64)
    axes: list[str] = []
    for one in column.factors:
        dense = np.zeros((one.height, one.size), dtype=np.int64)
        dense[one.rows, one.cells] = one.coefficients
        total = np.kron(total, dense)
        axes += one.axes
    missing = [axis for axis in SHAPE if axis not in axes]
    total = np.kron(total, np.ones((1, int(np.prod([SHAPE[axis] for axis in missing])))))
    full = total.reshape(-1, *(SHAPE[axis] for axis in [*axes, *missing]))
    places = [1 + [*axes, *missing].index(axis) for axis in SHAPE]
    return full.transpose(0, *places).reshape(len(full), -1)


def random_column(random: np.random.Generator) -> Column:
    kind = random.integers(0, 4)
    if kind == 0:
        return Column((random_factor(("a",), 1, random), random_factor(("b",), 1, random)))
    if kind == 1:
        return Column((random_factor(("a", "b"), 1, random),))
    if kind == 2:
        return Column((factor(("b",), np.eye(5, dtype=np.int64)), random_factor(("a",), 1, random)))
    return Column((random_factor(("a", "c"), 2, random),))


@pytest.mark.parametrize("seed", range(60))
def test_what_is_ruled_out_lies_outside_the_span(seed: int) -> None:
    """Neither a row nor a combination of rows lies inside: the ranks add up."""
    random = np.random.default_rng(seed)
    span, rows = Span(), np.zeros((0, 60))
    ruled_out = 0
    for _ in range(8):
        question = random_column(random)
        asked = written_out(question)
        rank = np.linalg.matrix_rank
        apart = rank(np.vstack([rows, asked])) == rank(rows) + len(asked) if len(rows) else True
        found = span.may_determine([question])
        if found is False:
            assert apart
            ruled_out += 1
        if question.height == 1:
            assert (found is False) is bool(apart)
        span.add(question)
        rows = np.vstack([rows, asked])
    assert ruled_out


def test_a_combination_of_many_rows_is_not_ruled_out() -> None:
    """With more rows than are looked at, it is not known."""
    span = Span()
    shape = (700,)
    for day in range(700):
        at = np.array([day], dtype=np.int64)
        span.add(Column.joint(("day",), shape, 1, np.zeros_like(at), at, np.ones_like(at)))
        if day == 364:
            assert span.may_determine([year(0, 365)]) is True
            assert span.may_determine([year(0, 366)]) is False
    assert span.may_determine([year(0, 365)]) is None


def year(start: int, stop: int) -> Column:
    days = np.arange(start, stop, dtype=np.int64)
    return Column.joint(("day",), (700,), 1, np.zeros_like(days), days, np.ones_like(days))


def test_rows_that_are_nearly_dependent_are_not_ruled_out() -> None:
    span = Span()
    cells = np.arange(2, dtype=np.int64)

    def pair(x: int, y: int) -> Column:
        return Column.joint(("day",), (2,), 1, np.zeros_like(cells), cells, np.array([x, y]))

    span.add(pair(1, 2**18))
    assert span.may_determine([pair(1, 1)]) is False
    span.add(pair(2, 2**19 + 1))
    assert span.may_determine([pair(1, 1)]) is not False


@pytest.mark.parametrize("size", [1, 3000])
def test_an_attribute_that_is_not_mentioned_is_one_over_all_values(size: int) -> None:
    """Also where it has more values than are told apart."""
    every = np.arange(size, dtype=np.int64)
    whole = Column.joint(("a",), (size,), 1, np.zeros_like(every), every, np.ones_like(every))
    span = Span()
    span.add(whole)
    assert span.may_determine([Column()]) is True
