"""Disjoint rows that are rounded so that they add up to exact ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from tallyveil.knowledge.sums.rounded_parts import rounded_in_parts


@pytest.mark.parametrize("seed", range(20))
def test_sums_are_exact_and_nothing_is_far_off(seed: int) -> None:
    """Each row, and each stretch of rows of a sum, is less than 1 off the projection."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, 30)
    rows = np.repeat(np.arange(30), sizes)
    groups = np.sort(random.integers(0, 5, 30))
    dense = (rows[None, :] == np.arange(30)[:, None]).astype(np.int64)
    exact = np.array([dense[groups == g].sum(axis=0) for g in range(4)])  # of the last none
    exact = exact[exact.any(axis=1)]
    values = np.concatenate([random.normal(100, 9, 30), random.integers(300, 900, len(exact))])
    variances = np.concatenate([random.uniform(1, 9, 30), np.zeros(len(exact))])
    order = random.permutation(30 + len(exact))
    matrix = sparse.csr_matrix(np.concatenate([dense, exact])[order])
    found = rounded_in_parts(matrix, values[order], variances[order])
    assert found is not None
    told = np.empty(len(order), dtype=np.int64)
    told[order] = found
    assert (told[30:] == values[30:]).all()

    for row, total in zip(exact, values[30:], strict=True):
        own = np.flatnonzero(dense @ row)
        assert told[own].sum() == total
        off = total - values[own].sum()
        projected = values[own] + off * variances[own] / variances[own].sum()
        placed = [n for n in order if n in own]
        drift = np.cumsum([told[n] - projected[own.tolist().index(n)] for n in placed])
        assert np.abs(drift).max() <= 0.5 + 1e-5
        assert np.abs(told[own] - projected).max() < 1 + 1e-5
    alone = np.setdiff1d(np.arange(30), np.flatnonzero(dense @ exact.sum(axis=0)))
    assert (told[alone] == np.rint(values[alone])).all()


def test_other_shapes_are_left_to_others() -> None:
    def rounded(*rows: list[int], exact: int = 1) -> list[int] | None:
        matrix = sparse.csr_matrix(np.array(rows))
        variances = np.ones(len(rows))
        variances[-exact:] = 0
        return rounded_in_parts(matrix, np.full(len(rows), 1.0), variances)

    assert rounded([1, 0], [0, 1], [1, 1]) is not None
    assert rounded([1, 1], [0, 1], [1, 1]) is None  # two rows have a cell
    assert rounded([1, 0, 0], [0, 1, 1], [1, 1, 0]) is None  # a row is half in the sum
    assert rounded([1, 0], [1, 1]) is None  # nobody has a cell of the sum
    assert rounded([2, 0], [0, 1], [1, 1]) is None
    assert rounded([1, 0], [0, 1], [1, 1], [1, 0], exact=2) is None


def test_large_counts_keep_their_digits() -> None:
    matrix = sparse.csr_matrix(np.vstack([np.eye(3, dtype=np.int64), np.ones((1, 3), np.int64)]))
    values = np.array([2.0**40 + 0.25, 2.0**40 + 0.5, 2.0**40 + 0.25, 3 * 2.0**40 + 1])
    found = rounded_in_parts(matrix, values, np.array([1.0, 1.0, 1.0, 0.0]))
    assert found is not None
    assert sum(found[:3]) == found[3] == 3 * 2**40 + 1
    assert max(abs(a - b) for a, b in zip(found[:3], values[:3], strict=True)) < 1
    assert math.isclose(found[0], 2**40, rel_tol=1e-9)


@pytest.mark.parametrize("sizes", [[2], [4], [2, 3, 4, 8]])
def test_the_opposite_noise_gives_the_opposite_errors(sizes: list[int]) -> None:
    """So that what is reported has no bias where the noise is symmetric: half of the differences of
    two groups are half-way between whole numbers."""
    random, height = np.random.default_rng(3), sum(sizes)
    of = np.repeat(np.arange(len(sizes)), sizes)
    exact = (of[None, :] == np.arange(len(sizes))[:, None]).astype(np.int64)
    matrix = sparse.csr_matrix(np.concatenate([np.eye(height, dtype=np.int64), exact]))
    variances = np.concatenate([np.ones(height), np.zeros(len(sizes))])
    errors = []
    for _ in range(50):
        truth, noise = random.integers(0, 9, height), random.integers(-9, 10, height)
        each = []
        for sign in (1, -1):
            values = np.concatenate([truth + sign * noise, exact @ truth]).astype(np.float64)
            found = rounded_in_parts(matrix, values, variances)
            assert found is not None
            assert (exact @ np.array(found[:height]) == exact @ truth).all()
            each.append(np.array(found[:height]) - truth)
        assert (each[0] == -each[1]).all()
        errors.append(each[0])
    assert np.abs(errors).max() > 3
