"""What a look at a few places rules out lies outside the span of what is recorded."""

from __future__ import annotations

import numpy as np
import pytest

from tallyveil.accountant import Answer
from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column, Factor

SHAPE = {"a": 4, "b": 5, "c": 3}


def factor(axes: tuple[str, ...], dense: np.ndarray) -> Factor:
    rows, cells = np.nonzero(dense)
    shape = tuple(SHAPE[axis] for axis in axes)
    ints = (array.astype(np.int64) for array in (rows, cells, dense[rows, cells]))
    return Factor(axes, shape, len(dense), *ints)


def ranged(axis: str, random: np.random.Generator) -> Factor:
    low, high = sorted(random.integers(0, SHAPE[axis], 2))
    places = np.arange(SHAPE[axis])
    return factor((axis,), ((places >= low) & (places <= high)).astype(np.int64)[None])


def any_column(random: np.random.Generator) -> Column:
    kind = random.integers(0, 7)
    if kind <= 2:
        some = [axis for axis in SHAPE if random.random() < 0.6]
        return Column(tuple(ranged(axis, random) for axis in some))
    if kind == 3:
        return Column((factor(("b",), np.eye(5, dtype=np.int64)), ranged("a", random)))
    if kind == 4:
        dense = random.integers(0, 2, (1, 12))
        dense[0, random.integers(0, 12)] = 1
        return Column((factor(("a", "c"), dense),))
    if kind == 5:
        return Column((factor(("a",), random.integers(1, 4, (1, 4))), ranged("c", random)))
    return Column((factor(("c",), np.array([[1, 0, 1]])), ranged("b", random)))


def written_out(column: Column) -> np.ndarray:
    """Its rows over all cells."""
    total = np.ones((column.product_height, 1, 1, 1), dtype=np.int64)
    own = column.factor_rows(column.numbers)
    for one, rows in zip(column.factors, own, strict=True):
        dense = np.zeros((one.height, one.size), dtype=np.int64)
        dense[one.rows, one.cells] = one.coefficients
        shape = [SHAPE[axis] if axis in one.axes else 1 for axis in SHAPE]
        total = total * dense[rows].reshape(-1, *shape)
    return np.broadcast_to(total, (len(total), *SHAPE.values())).reshape(len(total), -1)


@pytest.mark.parametrize("seed", range(80))
def test_what_is_ruled_out_lies_outside_the_span(seed: int) -> None:
    random = np.random.default_rng(seed)
    state, exact = State(), np.zeros((1, 60))
    if seed % 3 == 0:
        state.declare(Column(), (7,))
        exact = np.vstack([exact, written_out(Column())])
    rows = exact
    for number in range(12):
        questions = [any_column(random) for _ in range(1 + seed % 2)]
        asked = np.vstack([written_out(one) for one in questions])
        rank = np.linalg.matrix_rank
        apart = rank(np.vstack([rows, asked])) == rank(rows) + rank(asked)
        found = state.outside(questions, range(number))
        assert not found or apart
        some = [n for n in range(number) if random.random() < 0.5]
        if state.outside(questions, some):
            part = np.vstack([exact, *(written_out(state.answers[n].column) for n in some)])
            assert rank(np.vstack([part, asked])) == rank(part) + rank(asked)
        one = any_column(random)
        values = (0.0,) * one.height
        state.learn(Answer(number, "laplace", one, 5.0, values, "discrete_laplace"))
        rows = np.vstack([rows, written_out(one)])


def test_a_range_whose_corner_nobody_has_is_ruled_out_at_once() -> None:
    """Without a look at what the recorded columns span."""

    def box(low: int, high: int) -> Column:
        at = np.arange(low, high, dtype=np.int64)
        return Column.joint(("day",), (2000,), 1, np.zeros_like(at), at, np.ones_like(at))

    state = State()
    for number in range(1500):
        answer = Answer(number, "laplace", box(number, 2000), 5.0, (0.0,), "discrete_laplace")
        state.learn(answer)
    assert state.outside([box(3, 1700)], range(1500))
    assert not state.outside([box(3, 1400)], range(1500))
    assert state.outside([box(1700, 2000)], range(1500))
    assert state.outside([box(1700, 2000), box(3, 1800)], range(1500))
    assert state.outside([box(3, 1400)], [0, 1, 2, 4])
