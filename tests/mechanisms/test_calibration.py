"""Scales that cost what was asked for, and not more, by going through all cells."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue, StatementTooComplex
from tallyveil.mechanisms import Adjacency, Neighbours, mechanism, sensitivity
from tallyveil.mechanisms.losses import cell_loss, loss_tensor
from tallyveil.mechanisms.losses.cell_loss import CellLoss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.noise.calibrate import scale_loss
from tallyveil.mechanisms.units import units
from tallyveil.workload.workload import Workload
from tests.matrices import column

LAPLACE = mechanism("laplace")
ADD_REMOVE = Adjacency("add_remove")


def workload(*dense: list[list[int]]) -> Workload:
    return Workload("t", tuple(map(column, dense)))


rows = st.lists(st.sampled_from([0, 0, 1, 2, -5, 7]), min_size=3, max_size=3)
workloads = st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=3).map(
    lambda columns: workload(*columns)
)
relations = st.builds(
    Adjacency, st.sampled_from(["add_remove", "replace"]), st.integers(1, 4), st.booleans()
)
epsilons = st.decimals("0.000001", "50", places=6).map(Fraction)


def exact_cost(w: Workload, scales: tuple[float, ...], relation: Adjacency) -> Fraction:
    """The largest exact loss over all cells, or pairs of cells and outside."""

    def loss(j: int, k: int | None) -> Fraction:
        total = Fraction(0)
        for c, b in zip(w.columns, scales, strict=True):
            full = np.pad(c.factors[0].dense(), ((0, 0), (0, 1)))
            move = full[:, j] - (full[:, k] if k is not None else 0)
            total += Fraction(int(np.abs(move).sum())) / Fraction(b) if b else 0
        return relation.max_rows * total

    size = w.columns[0].size
    if relation.neighbours == "add_remove":
        return max(loss(j, None) for j in range(size))
    among = range(size if relation.closed else size + 1)
    return max(loss(j, k) for j, k in itertools.product(among, among))


@given(workloads, relations, epsilons)
def test_the_cost_is_what_was_asked_and_never_more(
    w: Workload, relation: Adjacency, epsilon: Fraction
) -> None:
    scales = LAPLACE.scales_for(w, epsilon, relation, "epsilon")
    cost = exact_cost(w, scales, relation)
    assert cost <= epsilon
    assert LAPLACE.loss(w, scales, relation, "epsilon").bound == math.ceil(cost * 10**12)
    if any(scales):
        assert cost >= epsilon * (1 - Fraction(1, 10**11)) - Fraction(1, 10**12)


@given(workloads, relations, epsilons, st.lists(st.floats(0.01, 100), min_size=3, max_size=3))
def test_scales_in_given_proportions_cost_what_was_asked(
    w: Workload, relation: Adjacency, epsilon: Fraction, like: list[float]
) -> None:
    like = like[: len(w.columns)]
    scales = LAPLACE.scales_for(w, epsilon, relation, "epsilon", like)
    cost = exact_cost(w, scales, relation)
    assert cost <= epsilon
    ratios = [scale / one for scale, one in zip(scales, like, strict=True) if scale]
    assert len(ratios) == sum(sensitivity(c, relation, "epsilon") > 0 for c in w.columns)
    if ratios:
        assert max(ratios) <= min(ratios) * (1 + 1e-12)
        assert cost >= epsilon * (1 - Fraction(1, 10**10)) - Fraction(1, 10**11)


@pytest.mark.parametrize(
    ("measure", "size"),
    [("epsilon", 1), ("epsilon", 10**6), ("epsilon", 10**11), ("rho", 1), ("rho", 10**8)],
)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("share", [0.01, 1.0, 100.0])
def test_scales_of_numbers_of_any_size_are_in_given_proportions(
    measure: Measure, size: int, neighbours: Neighbours, share: float
) -> None:
    w = workload([[size, 0, -size]], [[0, 3 * size, size]])
    relation = Adjacency(neighbours)
    like = [size, 3 * size * share]
    noise = mechanism("laplace" if measure == "epsilon" else "gaussian")
    scales = noise.scales_for(w, "0.05", relation, measure, like)
    assert scales[0] / like[0] == pytest.approx(scales[1] / like[1], rel=1e-9)
    cost, asked = scale_loss(w, scales, relation, measure).bound, units(Fraction("0.05"))
    assert asked * (1 - 1e-9) <= cost <= asked


@given(workloads, relations)
def test_only_what_no_record_moves_is_exact(w: Workload, relation: Adjacency) -> None:
    scales = LAPLACE.scales_for(w, "0.5", relation, "epsilon")
    for c, scale in zip(w.columns, scales, strict=True):
        assert (scale == 0) == (sensitivity(c, relation, "epsilon") == 0)


@pytest.mark.parametrize(
    ("dense", "neighbours", "complete", "expected"),
    [
        ([[1, 1, 1]], "add_remove", True, 1),
        ([[1, 1, 1]], "replace", True, 0),
        ([[1, 1, 1]], "replace", False, 1),
        ([[2, 1, 0]], "add_remove", True, 2),
        ([[2, 1, 1]], "replace", True, 1),
        ([[2, -1, 0]], "replace", True, 3),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], "add_remove", True, 1),
        ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], "replace", True, 2),
        ([[1, 1, 0], [1, 0, 1]], "add_remove", True, 2),
        ([[0, 0, 0]], "add_remove", True, 0),
    ],
)
def test_sensitivity(
    dense: list[list[int]], neighbours: Neighbours, complete: bool, expected: int
) -> None:
    assert sensitivity(column(dense), Adjacency(neighbours, 1, complete), "epsilon") == expected
    assert sensitivity(column(dense), Adjacency(neighbours, 7, False), "epsilon") == sensitivity(
        column(dense), Adjacency(neighbours, 1, False), "epsilon"
    )


def test_disjoint_columns_share_and_overlapping_ones_divide() -> None:
    assert LAPLACE.scales_for(workload([[1, 0]], [[0, 1]]), 0.05, ADD_REMOVE, "epsilon") == (20, 20)
    assert LAPLACE.scales_for(workload([[1, 1]], [[0, 1]]), 0.05, ADD_REMOVE, "epsilon") == (40, 40)
    # The sum of values up to 50 gets fifty times the noise of the count beside it.
    assert LAPLACE.scales_for(workload([[1, 1]], [[50, 7]]), 0.05, ADD_REMOVE, "epsilon") == (
        40,
        2000,
    )
    assert LAPLACE.scales_for(workload([[1, 1]]), 0.05, Adjacency("add_remove", 3), "epsilon") == (
        60,
    )


def test_columns_too_wide_to_multiply_out_stay_within_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (loss_tensor, cell_loss):
        monkeypatch.setattr(module, "CELL_LIMIT", 8)
    w = Workload("t", (column([[1, 0, 1]], "a"), column([[3, 0, 1]], "b"), column([[7, 0]], "c")))
    scales = LAPLACE.scales_for(w, "0.01", ADD_REMOVE, "epsilon")
    loss = LAPLACE.loss(w, scales, ADD_REMOVE, "epsilon")
    assert isinstance(loss, CellLoss)
    assert len(loss.tensors) > 1
    assert loss.exact  # over unrelated axes the sum of the maxima is the maximum
    assert 10**10 - 3 <= loss.bound <= 10**10


def test_noise_beyond_the_integers_is_refused() -> None:
    with pytest.raises(InvalidParameterValue, match="too small"):
        LAPLACE.scales_for(workload([[2**50, 1]]), 0.05, ADD_REMOVE, "epsilon")


@pytest.mark.parametrize(
    "scales", [(math.nan,), (math.inf,), (-1.0,), (0.0,), (1e300,), (), (1, 2)]
)
def test_wrong_scales_have_no_cost(scales: tuple[float, ...]) -> None:
    for relation in (ADD_REMOVE, Adjacency("replace")):
        with pytest.raises(InvalidParameterValue):
            LAPLACE.loss(workload([[1, 0]]), scales, relation, "epsilon")


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_coefficients_that_could_overflow_are_refused(neighbours: Neighbours) -> None:
    for big in (2**62, -(2**63)):
        with pytest.raises(StatementTooComplex):
            LAPLACE.loss(workload([[big, 1], [big, 1]]), (1.0,), Adjacency(neighbours), "epsilon")


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_large_coefficients_count_by_row_and_not_by_cell(neighbours: Neighbours) -> None:
    wide, relation = workload([[-(2**57), *[2**57] * 63]]), Adjacency(neighbours)
    assert LAPLACE.loss(wide, (2.0**52,), relation, "epsilon").bound == units(
        exact_cost(wide, (2.0**52,), relation)
    )
    with pytest.raises(StatementTooComplex):
        LAPLACE.loss(workload([[2**57]] * 8), (2.0**52,), relation, "epsilon")


def test_a_relation_is_checked() -> None:
    wrong: Any = "substitute"
    with pytest.raises(ValueError, match="neighbours"):
        Adjacency(wrong)
    with pytest.raises(ValueError, match="at least one"):
        Adjacency("replace", 0)
