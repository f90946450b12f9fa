"""All relations between rows, against elimination in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from tallyveil.knowledge.sums.free_rows import rounded_freely
from tallyveil.knowledge.sums.relations import OTHERS, PUBLIC, relations
from tallyveil.knowledge.sums.rounding import jointly_rounded
from tests.pairs import one_in

CELLS = 8


def rank(rows: np.ndarray) -> int:
    left, found = [[Fraction(int(n)) for n in row] for row in rows], 0
    for place in range(rows.shape[1]):
        pivot = next((row for row in left[found:] if row[place]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        left.insert(found, pivot)
        for n in range(found + 1, len(left)):
            factor = left[n][place] / pivot[place]
            left[n] = [a - factor * b for a, b in zip(left[n], pivot, strict=True)]
        found += 1
    return found


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of some cells, and sums of two columns over them."""
    draw = np.random.default_rng(seed)
    summed = np.vstack([np.ones((2, CELLS), int), draw.choice([0, 1, 2, -3], (2, CELLS))])
    asked, exact = (
        draw.integers(0, 2, (height, CELLS)) * draw.choice(summed, height)
        for height in (draw.integers(1, 12), 3)
    )
    asked = asked[asked.any(axis=1)]
    return asked, exact[: draw.integers(0, 3)], draw.integers(0, 100, CELLS)


@pytest.mark.parametrize("seed", range(60))
def test_every_relation_follows_from_those_found(seed: int) -> None:
    """There are as many as there are rows, less what their rank grows by over the exact rows'."""
    asked, exact, truth = drawn(seed)
    found = relations(
        sparse.csr_matrix(asked), sparse.csr_matrix(exact), (exact @ truth).astype(float)
    )
    assert found is not None
    assert len(found.totals) == len(asked) - rank(np.vstack([exact, asked])) + rank(exact)
    assert rank(found.matrix.toarray()) == len(found.totals)
    assert not found.broken((asked @ truth).tolist())
    for number, row in enumerate(found.dependent.tolist()):
        assert np.flatnonzero(found.matrix.toarray()[:, row]).tolist() == [number]


@pytest.mark.parametrize("seed", one_in(3, range(60)))
def test_values_are_rounded_so_that_all_relations_hold(seed: int) -> None:
    asked, exact, truth = drawn(seed)
    values = asked @ (truth + np.random.default_rng(seed).normal(0, 5, CELLS))
    matrix, public = sparse.csr_matrix(asked), sparse.csr_matrix(exact)
    found = relations(matrix, public, (exact @ truth).astype(float))
    assert found is not None
    rounded = jointly_rounded(matrix, values, np.ones(len(asked)), related=found)
    if not len(found.totals):
        assert rounded is None
        return
    assert rounded is not None
    assert rounded.agree
    assert not found.broken(rounded.values)


def test_to_what_rows_do_not_add_up_is_told_apart() -> None:
    asked = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0]])
    exact = np.array([[1, 1, 1, 1]])
    found = relations(sparse.csr_matrix(asked), sparse.csr_matrix(exact), np.array([9.0]))
    assert found is not None
    assert not found.broken([5, 4, 9, 2, 3])
    assert found.broken([5, 5, 10, 2, 3]) == {OTHERS, PUBLIC}
    alone = relations(sparse.csr_matrix(asked), sparse.csr_matrix(exact[:0]), np.zeros(0))
    assert alone is not None
    assert not alone.broken([5, 5, 10, 2, 3])
    assert alone.broken([5, 4, 9, 2, 2]) == {OTHERS}


def test_a_row_that_is_a_fraction_of_others_is_whole() -> None:
    """2 n + s = 101, so that s is odd; 3 · (2 m) = 2 · (3 m)."""
    asked = np.array([[1, 1, 1, 0], [-2, -1, 0, 0], [0, 0, 0, 2], [0, 0, 0, 3]])
    exact = np.array([[0, 1, 2, 0]])
    found = relations(sparse.csr_matrix(asked), sparse.csr_matrix(exact), np.array([101.0]))
    assert found is not None
    for values in np.random.default_rng(0).uniform(-50, 50, (50, 2)):
        n, m = values
        rounded = rounded_freely(found, np.array([n, 101 - 2 * n, 2 * m, 3 * m]))
        assert rounded is not None
        assert 2 * rounded[0] + rounded[1] == 101
        assert 3 * rounded[2] == 2 * rounded[3]
        assert abs(rounded[0] - n) <= 0.5 + 1e-9
        assert abs(rounded[2] - 2 * m) <= 1 + 1e-9
