"""What is reported of a statement's rows adds up, and lies near what is known of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from tallyveil.knowledge.sums import rounding
from tallyveil.knowledge.sums.relations import relations
from tallyveil.knowledge.sums.rounding import jointly_rounded

CELLS = np.eye(6, dtype=np.int64)
TOTAL = np.ones((1, 6), dtype=np.int64)
HALVES = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
THIRDS = np.array([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]])


def rounded(rows: np.ndarray, values: np.ndarray, variances: np.ndarray) -> list[int] | None:
    found = jointly_rounded(sparse.csr_matrix(rows), values, variances)
    assert found is None or found.agree
    return None if found is None else list(found.values)


@pytest.mark.parametrize(
    "rows",
    [
        np.vstack([CELLS, TOTAL]),
        np.vstack([TOTAL, HALVES]),
        np.vstack([HALVES, CELLS, TOTAL]),
        np.vstack([HALVES, CELLS, TOTAL, THIRDS]),
        np.vstack([HALVES, TOTAL, THIRDS]),
        np.vstack([HALVES, THIRDS, 3 * TOTAL]),
        np.vstack([CELLS, [[0, 1, 2, 3, 4, 5]]]),
        np.vstack([CELLS[:2], CELLS[:1] + CELLS[1:2], CELLS[4:]]),
        np.vstack([HALVES, TOTAL, CELLS[:1]]),
        np.vstack([HALVES, TOTAL, CELLS[:1], THIRDS[1:], CELLS[5:]]),
    ],
)
def test_sums_are_the_sums_of_their_parts(rows: np.ndarray) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        values = rows @ random.uniform(-20, 20, 6)
        found = rounded(rows, values, np.ones(len(rows)))
        assert found is not None
        # Every linear relation between the rows holds of what is reported.
        reported = np.array(found)
        cells = np.linalg.lstsq(rows.astype(float), reported, rcond=None)[0]
        assert np.abs(rows @ cells - reported).max() < 1e-9
        slack = 1 if rows.max() == 1 else 16
        assert np.abs(reported - values).max() < slack + 1


def test_groups_are_rounded_to_an_exact_total_that_smaller_rows_add_up_to_as_well() -> None:
    """And rows of another column, which are no part of it, come first."""
    random = np.random.default_rng(0)
    groups = np.kron(np.eye(3, dtype=np.int64), [[1, 1]])
    rows = np.vstack([groups[:, [0, 2, 4, 1, 3, 5]], [[1, 1, 0, 0, 0, 0]], groups, TOTAL])
    columns = np.array([0, 0, 0, 1, 2, 2, 2, 3])
    variances = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    for _ in range(20):
        cells = random.uniform(0, 20, 6)
        values = rows @ cells
        exact = np.rint(values[4:7])
        values[4:] = [*exact, exact.sum()]
        found = jointly_rounded(sparse.csr_matrix(rows), values, variances, None, columns)
        assert found is not None
        assert found.agree
        assert sum(found.values[:3]) == exact.sum()


@pytest.mark.parametrize("seed", range(20))
def test_one_total_over_any_number_of_groups_is_off_by_less_than_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    groups = int(random.integers(2, 300))
    rows = np.vstack([np.eye(groups, dtype=np.int64), np.ones((1, groups), dtype=np.int64)])
    values = rows @ random.uniform(-5, 5, groups)
    found = rounded(rows, values, np.ones(len(rows)))
    assert found is not None
    assert sum(found[:-1]) == found[-1]
    assert np.abs(np.array(found) - values).max() < 1


def test_values_that_do_not_add_up_move_the_less_the_better_they_are_known() -> None:
    rows = np.vstack([CELLS[:2], CELLS[:1] + CELLS[1:2]])
    assert rounded(rows, np.array([10.0, 10.0, 40.0]), np.array([1.0, 1.0, 98.0])) == [10, 10, 20]
    assert rounded(rows, np.array([10.0, 10.0, 40.0]), np.array([1.0, 9.0, 0.0])) == [12, 28, 40]


@pytest.mark.parametrize("seed", range(10))
def test_what_is_exact_stays(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = np.vstack([CELLS, TOTAL])
    values = np.append(random.uniform(0, 9, 6), 31.0)
    found = rounded(rows, values, np.append(random.uniform(1, 5, 6), 0.0))
    assert found is not None
    assert found[-1] == 31 == sum(found[:-1])


def test_multiples_that_come_before_their_rows_take_no_integer_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a sum of d beside a count, both grouped by d."""
    monkeypatch.setattr(rounding, "nearest_integers", None)
    rows = np.vstack([np.diag(np.arange(6)), CELLS])
    for values in np.random.default_rng(0).uniform(-20, 20, (20, 12)):
        found = rounded(rows, values, np.repeat([9.0, 1.0], 6))
        assert found is not None
        assert found[1:6] == [d * found[6 + d] for d in range(1, 6)]


def test_rows_without_a_sum_are_left_alone() -> None:
    assert rounded(CELLS, np.linspace(0, 1, 6), np.ones(6)) is None
    overlapping = np.array([[1, 1, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0]])
    assert rounded(overlapping, np.array([0.4, 0.6]), np.ones(2)) is None
    assert rounded(np.zeros((2, 6), dtype=np.int64), np.zeros(2), np.ones(2)) is None


@pytest.mark.parametrize("bits", [49, 52, 56, 58])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_large_values_that_do_not_add_up_are_moved_as_small_ones_are(
    bits: int, exact: bool, nonnegative: bool
) -> None:
    """By as many deviations, though doubles have no fractions of them; of a table with both margins
    as well."""
    random = np.random.default_rng(bits)
    for rows in (np.vstack([HALVES, CELLS, TOTAL, THIRDS]), np.vstack([CELLS, HALVES, THIRDS])):
        cells = random.integers(0, 2**bits, 6)
        cells[0] = 0
        truth = rows @ cells
        variances = 4.0 ** (bits - 12) * random.uniform(1, 9, len(rows))
        if exact and bits < 52:
            variances[rows.sum(axis=1) > 1] = 0
        values = truth + np.rint(random.normal(0, np.sqrt(variances)))
        counts = np.full(len(rows), nonnegative)
        found = jointly_rounded(sparse.csr_matrix(rows), values, variances, counts)
        assert found is not None
        assert found.agree
        reported = np.array(found.values)
        solved = reported[(rows.sum(axis=1) == 1).nonzero()[0]]
        assert (rows @ solved == reported).all()
        assert (reported[variances == 0] == truth[variances == 0]).all()
        assert not nonnegative or reported.min() >= 0
        noisy = variances > 0
        assert (np.abs(reported - truth)[noisy] <= 8 * np.sqrt(variances[noisy])).all()


def test_whole_numbers_that_doubles_cannot_hold_are_left_alone() -> None:
    """Beside noise that is less than what would be lost."""
    rows = sparse.csr_matrix(np.vstack([CELLS, TOTAL]))
    values = np.append(np.full(6, 2.0**55), 6 * 2.0**55)
    for deviation in (0.0, 1.0):
        found = jointly_rounded(rows, values, np.full(7, deviation))
        assert found is not None
        assert not found.values
        assert not found.agree


SHAPE = (3, 4, 3)


def of_all_marginals(weights: np.ndarray) -> np.ndarray:
    """Counts and sums of ``weights``, one for each cell."""
    cells = np.arange(36).reshape(SHAPE)
    every = [
        np.isin(cells.ravel(), cells[np.ix_(*axes)])
        for kept in itertools.product([True, False], repeat=3)
        for axes in itertools.product(
            *(
                [[n] for n in range(size)] if own else [[*range(size)]]
                for own, size in zip(kept, SHAPE, strict=True)
            )
        )
    ]
    counted = np.array(every, dtype=np.int64)
    summed = counted * np.broadcast_to(weights, SHAPE).ravel()
    return np.concatenate([counted, summed[summed.any(axis=1)]])


@pytest.mark.parametrize("seed", [280, 435, 550, 659, 1049, 1084])
def test_counts_are_the_same_whatever_the_last_digits_of_values(seed: int) -> None:
    rows = of_all_marginals(np.arange(4)[:, None])
    draws = np.random.default_rng(seed)
    spread = draws.choice([400.0, 380.0, 90.0], 36)
    noisy = draws.integers(0, 6, 36) + np.round(draws.laplace(0, 30, 36))
    values = rows @ (noisy + (draws.random(36) if seed % 2 else 0))
    variances = rows.astype(float) ** 2 @ spread
    counts, matrix = np.ones(len(rows), dtype=bool), sparse.csr_matrix(rows)
    one = jointly_rounded(matrix, values, variances, counts)
    other = jointly_rounded(matrix, values * (1 + 3e-15), variances * (1 + 1e-15), counts)
    assert one is not None
    assert other is not None
    assert one.agree
    assert one.values == other.values


@pytest.mark.parametrize("seed", [23, pytest.param(25, marks=pytest.mark.slow)])
def test_rows_in_all_relations_are_the_same_whatever_the_last_digits(seed: int) -> None:
    """An integer program decides of them, and its search follows every digit of its weights."""
    rows = of_all_marginals(np.arange(3)[:, None, None] + np.arange(4)[:, None])
    draws = np.random.default_rng(seed)
    spread = draws.choice([400.0, 380.0, 90.0], 36)
    noisy = 80 + np.round(draws.laplace(0, 30, 36)) + draws.random(36)
    values, variances = rows @ noisy, rows.astype(float) ** 2 @ spread
    matrix, none = sparse.csr_matrix(rows), sparse.csr_matrix((0, 36), dtype=np.int64)
    related = relations(matrix, none, np.zeros(0))
    last = 1 + 1e-15 * draws.normal(size=len(rows))
    one = jointly_rounded(matrix, values, variances, related=related)
    other = jointly_rounded(matrix, values * (1 + 3e-15), variances * last, related=related)
    assert one is not None
    assert other is not None
    assert one.agree
    assert one.values == other.values
