"""What a look at a few places rules out lies outside the span of what is recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tallyveil.knowledge.state import State
from tallyveil.workload.workload import Column
from tests.knowledge.columns import SHAPE, any_column, release
from tests.pairs import one_in


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


@pytest.mark.parametrize("seed", one_in(4, range(40)))
def test_what_is_ruled_out_lies_outside_the_span(seed: int) -> None:
    random = np.random.default_rng(seed)
    state, exact = State(1), np.zeros((1, 60))
    if seed % 3 == 0:
        state.declare(Column(), (7,))
        exact = np.vstack([exact, written_out(Column())])
    rows = exact
    for number in range(12):
        questions = [any_column(random) for _ in range(1 + seed % 2)]
        asked = np.vstack([written_out(one) for one in questions])
        rank = np.linalg.matrix_rank
        apart = rank(np.vstack([rows, asked])) == rank(rows) + rank(asked)
        found = state.proves_undetermined(
            questions, state.relevance.spans(range(number), questions)
        )
        assert not found or apart
        some = [n for n in range(number) if random.random() < 0.5]
        if state.proves_undetermined(questions, state.relevance.spans(some, questions)):
            part = np.vstack([exact, *(written_out(state.answer(n).column) for n in some)])
            assert rank(np.vstack([part, asked])) == rank(part) + rank(asked)
        one = any_column(random)
        state.learn(release(number, one))
        rows = np.vstack([rows, written_out(one)])


def test_a_range_whose_corner_nobody_has_is_ruled_out_at_once() -> None:
    """Without a look at what the recorded columns span."""

    def box(low: int, high: int) -> Column:
        at = np.arange(low, high, dtype=np.int64)
        return Column.joint(("day",), (2000,), 1, np.zeros_like(at), at, np.ones_like(at))

    def ruled_out(questions: Sequence[Column], numbers: Sequence[int]) -> bool:
        return state.proves_undetermined(questions, state.relevance.spans(numbers, questions))

    state = State(1)
    for number in range(1500):
        state.learn(release(number, box(number, 2000)))
    assert ruled_out([box(3, 1700)], range(1500))
    assert not ruled_out([box(3, 1400)], range(1500))
    assert ruled_out([box(1700, 2000)], range(1500))
    assert ruled_out([box(1700, 2000), box(3, 1800)], range(1500))
    assert ruled_out([box(3, 1400)], [0, 1, 2, 4])


@pytest.mark.parametrize("seed", range(40))
def test_of_ranges_of_one_attribute_all_that_lies_outside_is_ruled_out(seed: int) -> None:
    """Be the question a range too, or a sum."""

    def line(coefficients: np.ndarray) -> Column:
        at = np.flatnonzero(coefficients)
        return Column.joint(("day",), (12,), 1, np.zeros_like(at), at, coefficients[at])

    def dense(low: int, high: int) -> np.ndarray:
        return np.where((np.arange(12) >= low) & (np.arange(12) < high), 1, 0)

    random = np.random.default_rng(seed)
    state, rows = State(1), np.zeros((1, 12), dtype=np.int64)
    for number in range(12):
        low, high = sorted(random.choice(13, 2, replace=False))
        asked = dense(low, high)
        if random.random() < 0.3:
            asked *= random.integers(-3, 4, 12)
        if asked.any():
            columns = [line(asked)]
            found = state.proves_undetermined(
                columns, state.relevance.spans(range(number), columns)
            )
            rank = np.linalg.matrix_rank
            assert found == (rank(np.vstack([rows, asked])) > rank(rows))
        low, high = sorted(random.choice(13, 2, replace=False))
        state.learn(release(number, line(dense(low, high))))
        rows = np.vstack([rows, dense(low, high)])


def test_a_range_that_others_do_not_connect_is_ruled_out_though_they_have_its_corners() -> None:
    def box(low: int, high: int, *, groups: bool) -> Column:
        at = np.arange(low, high, dtype=np.int64)
        days = Column.joint(("day",), (50,), 1, np.zeros_like(at), at, np.ones_like(at))
        of = np.arange(6, dtype=np.int64)
        own = of if groups else np.zeros_like(of)
        kinds = Column.joint(("kind",), (6,), 6 if groups else 1, own, of, np.ones_like(of))
        return Column((*days.factors, *kinds.factors))

    def question(low: int, high: int) -> Column:
        rows, ones = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
        kinds = Column.joint(("kind",), (6,), 1, rows, np.array([2, 3]), ones)
        return Column((*box(low, high, groups=False).factors[:1], *kinds.factors))

    state = State(1)
    for number, (low, high) in enumerate([(0, 10), (10, 20), (30, 40), (35, 40)]):
        state.learn(release(number, box(low, high, groups=True)))
    for low, high, apart in [(0, 20, False), (0, 40, True), (20, 30, True), (30, 35, False)]:
        asked = [question(low, high)]
        assert state.proves_undetermined(asked, state.relevance.spans(range(4), asked)) == apart
    both = [question(0, 40), question(20, 30)]
    assert not state.proves_undetermined(both, state.relevance.spans(range(4), both))
    both = [question(0, 40), question(10, 45)]
    assert state.proves_undetermined(both, state.relevance.spans(range(4), both))
