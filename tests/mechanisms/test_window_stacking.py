"""What a unit with records on several days of a window loses, by brute force over its records."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from tallyveil.mechanisms.adjacency import Adjacency, Neighbours, Window
from tallyveil.mechanisms.losses.privacy_loss import privacy_loss
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.noise.calibrate import scale_loss, scales_for
from tallyveil.mechanisms.units import from_units
from tallyveil.workload.factor import Factor
from tallyveil.workload.workload import Column, Workload

DAYS, KINDS = 4, 2


def _column(matrix: np.ndarray) -> Column:
    rows, cells = matrix.nonzero()
    factor = Factor(
        ("day", "kind"), (DAYS, KINDS), len(matrix), rows, cells, matrix[rows, cells].astype(int)
    )
    return Column((factor,))


def _largest(
    matrices: list[np.ndarray],
    rates: list[Fraction],
    neighbours: Neighbours,
    a_day: int,
    window: int,
    p: int,
) -> Fraction:
    """The largest Σ_i rate_i |Σ_l d_il|^p of a unit with so many records a day in a window."""
    rows = np.vstack([*matrices])
    costs = [rate for one, rate in zip(matrices, rates, strict=True) for _ in one]
    nothing = np.zeros((len(rows), 1), dtype=np.int64)
    moved = set()
    for first in range(DAYS - window + 1):
        each_day = []
        for n in range(first, first + window):
            own = np.hstack([rows[:, n * KINDS : (n + 1) * KINDS], nothing])
            choices = combinations_with_replacement(range(KINDS + 1), a_day)
            each_day.append([own[:, list(chosen)].sum(axis=1) for chosen in choices])
        moved |= {tuple(np.sum(records, axis=0)) for records in product(*each_day)}
    ends = list(moved)
    others = [(0,) * len(rows)] if neighbours == "add_remove" else ends
    return max(
        sum((cost * abs(int(x) - int(y)) ** p for cost, x, y in zip(costs, a, b, strict=True)))
        for a in ends
        for b in others
    )


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
@pytest.mark.parametrize("seed", range(6))
def test_no_unit_loses_more_than_is_charged(
    seed: int, measure: Measure, neighbours: Neighbours
) -> None:
    """Of random releases: rows of one day, of some days and of all."""
    random = np.random.default_rng([seed, 71])
    a_day, window = (1, 2) if neighbours == "replace" else (1 + seed % 2, 2 + seed % 2)
    relation = Adjacency(neighbours, a_day * window, False, Window("day", window))
    matrices, rates = [], []
    for _ in range(3):
        rows = random.integers(-1, 3, (3, DAYS, KINDS))
        rows[:, random.permutation(DAYS)[: random.integers(DAYS)]] = 0
        matrices.append(rows.reshape(3, -1))
        rates.append(Fraction(int(random.integers(1, 50)), 100))
    loss = privacy_loss([_column(one) for one in matrices], rates, relation, measure)
    true = _largest(matrices, rates, neighbours, a_day, window, power(measure))
    assert true <= from_units(loss.bound)


@pytest.mark.parametrize(("measure", "times"), [("epsilon", 6), ("rho", 12)])
def test_counts_of_single_days_are_charged_what_a_unit_loses(measure: Measure, times: int) -> None:
    """Two rows a day in three days: 6 in ε, and 2² · 3 instead of 6² in ρ; both are reached."""
    relation = Adjacency("add_remove", 6, False, Window("day", 3))
    days = np.kron(np.eye(DAYS, dtype=np.int64), np.ones((1, KINDS), dtype=np.int64))
    rate = Fraction(1, 8)
    loss = privacy_loss([_column(days)], [rate], relation, measure)
    assert from_units(loss.bound) == times * rate
    assert _largest([days], [rate], "add_remove", 2, 3, power(measure)) == times * rate


def test_totals_are_charged_for_all_rows_of_the_window() -> None:
    """A row of two days: 2² · 3 · 2; of all days, however named, 6²."""
    relation = Adjacency("add_remove", 6, False, Window("day", 3))
    two = np.array([[1, 1, 1, 1, 0, 0, 0, 0]])
    for matrix, times in ((two, 24), (np.ones((1, 8), dtype=np.int64), 36)):
        loss = privacy_loss([_column(matrix)], [Fraction(1, 8)], relation, "rho")
        assert from_units(loss.bound) == Fraction(times, 8)
    kinds = Column((Factor.identity(("kind",), (KINDS,)),))
    loss = privacy_loss([kinds], [Fraction(1, 8)], relation, "rho")
    assert from_units(loss.bound) == Fraction(36, 8)


def test_noise_that_depends_on_several_outputs_is_charged_for_all_rows_of_the_window() -> None:
    relation = Adjacency("add_remove", 6, False, Window("day", 3))
    days = _column(np.kron(np.eye(DAYS, dtype=np.int64), np.ones((1, KINDS), dtype=np.int64)))
    assert relation.stacking(days, "rho") == 12
    assert relation.stacked.stacking(days, "rho") == 36


def test_scales_make_each_column_cost_the_same() -> None:
    """Days and their total: σ² in proportion to what each loses by itself, and the cost is met."""
    relation = Adjacency("add_remove", 3, False, Window("day", 3))
    days = np.kron(np.eye(DAYS, dtype=np.int64), np.ones((1, KINDS), dtype=np.int64))
    table = Workload("visits", (_column(days), _column(np.ones((1, 8), dtype=np.int64))))
    scales = scales_for(table, Fraction(1, 2), relation, "rho")
    assert (scales[1] / scales[0]) ** 2 == pytest.approx(3)
    bound = from_units(scale_loss(table, scales, relation, "rho").bound)
    assert Fraction(1, 2) - Fraction(1, 10**9) <= bound <= Fraction(1, 2)


def test_a_unit_has_the_same_number_of_rows_each_day() -> None:
    with pytest.raises(ValueError, match="each day"):
        Adjacency("add_remove", 5, False, Window("day", 3))
