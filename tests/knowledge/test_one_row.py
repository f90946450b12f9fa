"""Columns that are left out have no weight in the best combination of all columns."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tallyveil.knowledge.recorded.one_row import along_one_row
from tallyveil.workload.workload import Column, Factor
from tests.matrices import factor, over_all_cells
from tests.pairs import one_in

SIZES = {"a": 3, "b": 2, "c": 3}


def some_rows(random: np.random.Generator, axis: str) -> Factor:
    """One or two rows over an axis; some constant, some equal to others' rows."""
    size = SIZES[axis]
    rows = [[1] * size, [1] + [0] * (size - 1), [2] + [0] * (size - 1), [0, 1] + [1] * (size - 2)]
    height = int(random.choice([1, 1, 1, 2]))
    chosen = random.choice(len(rows), height, replace=False)
    return factor([rows[n] for n in chosen], (axis,))


def column(random: np.random.Generator) -> Column:
    axes = [axis for axis in SIZES if random.random() < 0.45]
    return Column(tuple(some_rows(random, axis) for axis in axes))


def variances(question: np.ndarray, rows: list[np.ndarray], spread: list[float]) -> np.ndarray:
    """The least variance of each row of the question, infinite for those not determined."""
    every = np.concatenate([np.zeros((0, question.shape[1])), *rows])
    each = np.repeat(spread, [len(own) for own in rows])
    scaled = every / np.sqrt(each)[:, None]
    inverse = np.linalg.pinv(scaled.T @ scaled)
    found = np.einsum("ij,jk,ik->i", question, inverse, question)
    missed = question - question @ np.linalg.pinv(every) @ every if len(every) else question
    found[np.abs(missed).max(axis=1) > 1e-9] = np.inf
    return found


@pytest.mark.parametrize("seed", one_in(2, range(2)))
def test_columns_that_are_left_out_have_no_weight(seed: int) -> None:
    random = np.random.default_rng(seed)
    applied = dropped = 0
    for _ in range(600):
        questions = [column(random) for _ in range(int(random.choice([1, 1, 2])))]
        recorded = [column(random) for _ in range(5)]
        spread = random.uniform(1, 9, len(recorded)).tolist()

        def mentioning(axis: str, recorded: list[Column] = recorded) -> list[int]:
            return [n for n, one in enumerate(recorded) if axis in one.axes]

        helpful = along_one_row(questions, mentioning, recorded.__getitem__)
        if helpful is None:
            continue
        applied += 1
        dropped += len(recorded) - len(helpful)
        rows = [over_all_cells(one, SIZES) for one in recorded]
        asked = np.concatenate([over_all_cells(one, SIZES) for one in questions])
        every = variances(asked, rows, spread)
        own = variances(asked, [rows[n] for n in helpful], [spread[n] for n in helpful])
        assert own == pytest.approx(every, rel=1e-6)
    assert applied > 30
    assert dropped > 60


def test_the_question_must_tell_values_apart() -> None:
    """Along an attribute on which it is constant, sums of columns that mention it may help."""
    ones = Factor(("b",), (2,), 1, *(np.array(n, dtype=np.int64) for n in ([0, 0], [0, 1], [1, 1])))
    assert along_one_row([Column((ones,))], lambda axis: [], [].__getitem__) is None


def test_too_many_columns_tell_nothing() -> None:
    random = np.random.default_rng(5)
    for _ in itertools.repeat(None, 20):
        assert along_one_row([column(random)], lambda axis: None, [].__getitem__) is None
    assert along_one_row([], lambda axis: [], [].__getitem__) is None


def test_a_question_of_a_constant_row_is_left_alone() -> None:
    """A factor may have no attributes: a multiple of the number of records."""
    twice = Factor((), (), 1, *(np.array(n, dtype=np.int64) for n in ([0], [0], [2])))
    assert along_one_row([Column((twice,))], lambda axis: [], [].__getitem__) is None
