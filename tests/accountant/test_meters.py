"""What every meter must do, each against all cells or all pairs of cells, one by one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accountant.budgets.meter import Meter, meter_for
from tallyveil.mechanisms import Adjacency, Measure, Neighbours, mechanism
from tallyveil.mechanisms.losses import (
    cell_classes,
    cell_loss,
    cell_weights,
    loss_tensor,
    pair_loss,
)
from tallyveil.mechanisms.units import CEILING
from tallyveil.workload.workload import Column, Workload

LAPLACE = mechanism("laplace")


def metered(history: list[Any], relation: Adjacency, measure: Measure = "epsilon") -> Meter:
    meter = meter_for(relation, measure)
    for release in history:
        meter = meter.after(LAPLACE.loss(release.workload, release.scales, relation, measure))
    return meter


EVERY_METER = pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
EVERY_MEASURE = pytest.mark.parametrize("measure", ["epsilon", "rho"])


def relations(neighbours: Neighbours) -> st.SearchStrategy[Adjacency]:
    return st.builds(Adjacency, st.just(neighbours), st.integers(1, 3), st.booleans())


@EVERY_METER
@EVERY_MEASURE
@given(data=st.data())
def test_the_worst_off_is_found_exactly(
    cubes: Any, neighbours: Neighbours, measure: Measure, data: st.DataObject
) -> None:
    relation, history = data.draw(relations(neighbours)), data.draw(cubes.histories)
    meter = metered(history, relation, measure)
    assert meter.spent == cubes.truth(history, relation, measure)
    assert meter.exact


@EVERY_METER
@EVERY_MEASURE
@given(data=st.data())
def test_a_bound_is_never_too_low_never_falls_and_never_exceeds_the_sum(
    cubes: Any, neighbours: Neighbours, measure: Measure, data: st.DataObject
) -> None:
    relation, history = data.draw(relations(neighbours)), data.draw(cubes.histories)
    limit = data.draw(st.sampled_from([2, 4, 6]))
    with pytest.MonkeyPatch.context() as patch:
        for module in (loss_tensor, cell_loss, cell_classes, pair_loss, cell_weights):
            patch.setattr(module, "CELL_LIMIT", limit)
        patch.setattr(cell_classes, "CLASS_LIMIT", limit)
        meter, before, alone = meter_for(relation, measure), 0, 0
        losses = [release.units(relation, measure) for release in history]
        for n, release in enumerate(history, start=1):
            meter = meter.after(LAPLACE.loss(release.workload, release.scales, relation, measure))
            exact = max(sum(loss[key] for loss in losses[:n]) for key in losses[0])
            assert meter.spent >= max(exact, before)
            alone += metered([release], relation, measure).spent
            assert meter.spent <= alone
            # Rounding group by group adds less than a unit for each column.
            slack = sum(len(r.columns) for r in history[:n])
            assert not meter.exact or meter.spent <= exact + slack
            before = meter.spent


@EVERY_METER
@EVERY_MEASURE
@given(data=st.data())
def test_a_release_never_costs_more_after_others_than_alone(
    cubes: Any, neighbours: Neighbours, measure: Measure, data: st.DataObject
) -> None:
    relation, history = data.draw(relations(neighbours)), data.draw(cubes.histories)
    alone = [metered([release], relation, measure).spent for release in history]
    assert metered(history, relation, measure).spent <= sum(alone)


@EVERY_METER
def test_nothing_spent_is_nothing(neighbours: Neighbours) -> None:
    meter = meter_for(Adjacency(neighbours), "epsilon")
    assert meter.spent == 0
    assert meter.exact


@EVERY_METER
def test_a_dry_run_changes_nothing(cubes: Any, neighbours: Neighbours) -> None:
    relation = Adjacency(neighbours)
    release = cubes.release((cubes.column(["hue"], [[1, 0]]),), (20.0,))
    loss = LAPLACE.loss(release.workload, release.scales, relation, "epsilon")
    meter = meter_for(relation, "epsilon").after(loss)
    meter.after(loss)
    assert meter.spent == 5 * 10**10


def test_a_loss_under_another_relation_is_an_error(cubes: Any) -> None:
    release = cubes.release((cubes.column(["hue"], [[1, 0]]),), (20.0,))
    for mine, other in (("add_remove", "replace"), ("replace", "add_remove")):
        loss = LAPLACE.loss(release.workload, release.scales, Adjacency(other), "epsilon")
        with pytest.raises(TypeError):
            meter_for(Adjacency(mine), "epsilon").after(loss)


@EVERY_METER
def test_beyond_any_budget_the_count_stops_instead_of_wrapping(
    cubes: Any, neighbours: Neighbours
) -> None:
    release = cubes.release((cubes.column(["hue"], [[10**9, 1]]),), (1e-9,))
    assert metered([release] * 40, Adjacency(neighbours)).spent >= CEILING


def test_disjoint_predicates_share(cubes: Any) -> None:
    history = [cubes.release((cubes.column(["hue"], [row]),), (20.0,)) for row in ([1, 0], [0, 1])]
    assert metered(history, Adjacency("add_remove")).spent == 5 * 10**10


def test_unrelated_axes_stay_apart_and_exact(cubes: Any) -> None:
    history = [
        cubes.release((cubes.column(["hue"], [[1, 0]]),), (10.0,)),
        cubes.release((cubes.column(["age"], [[0, 1, 0]]),), (10.0,)),
    ]
    meter: Any = metered(history, Adjacency("add_remove"))
    assert [group.axes for group in meter.tally.groups] == [("hue",), ("age",)]
    assert (meter.spent, meter.exact) == (2 * 10**11, True)


def test_the_number_of_records_is_public_only_if_the_cube_holds_all(cubes: Any) -> None:
    everyone = cubes.release((cubes.column([], [[1]]),), (20.0,))
    assert metered([everyone], Adjacency("replace", complete=True)).spent == 0
    assert metered([everyone], Adjacency("replace", complete=False)).spent == 5 * 10**10
    # A unit of up to two rows can be replaced by one of fewer.
    assert metered([everyone], Adjacency("replace", 2, complete=True)).spent == 10**11


def test_a_record_can_leave_one_group_for_another(cubes: Any) -> None:
    groups = cubes.release((cubes.column(["age"], np.eye(3, dtype=int)),), (20.0,))
    assert metered([groups], Adjacency("replace", complete=True)).spent == 10**11


@EVERY_MEASURE
@given(data=st.data())
def test_both_bounds_hold_for_every_pair(cubes: Any, measure: Measure, data: st.DataObject) -> None:
    relation, history = data.draw(relations("replace")), data.draw(cubes.histories)
    loss: Any = LAPLACE.loss(history[0].workload, history[0].scales, relation, measure)
    exact = cubes.truth(history[:1], relation, measure)
    for bound in (loss.from_zero, loss.from_midrange):
        assert sum(t.two_highest for t in bound) >= exact


@pytest.mark.parametrize(("measure", "apart"), [("epsilon", 4), ("rho", 16)])
def test_each_bound_is_tight_where_it_should_be(cubes: Any, measure: Measure, apart: int) -> None:
    def loss(dense: Any) -> Any:
        return pair_loss.PairLoss((cubes.column(["age"], dense),), (Fraction(1),), True, measure)

    one, eye = loss([[3, -1, 1]]), loss(np.eye(3, dtype=int))
    assert sum(t.two_highest for t in one.from_midrange) == one.bound == apart * 10**12
    assert sum(t.two_highest for t in eye.from_zero) == eye.bound == 2 * 10**12


def test_coefficients_of_both_signs_are_squared_together(cubes: Any) -> None:
    """(2 − (−1))² is more than 2² + 1²."""
    mixed = pair_loss.PairLoss((cubes.column(["age"], [[2, -1, 0]]),), (Fraction(1),), True, "rho")
    assert mixed.bound == 9 * 10**12
    assert sum(t.two_highest for t in mixed.from_zero) >= 9 * 10**12


def test_a_loss_in_another_measure_is_an_error(cubes: Any) -> None:
    release = cubes.release((cubes.column(["hue"], [[1, 0]]),), (20.0,))
    for neighbours in ("add_remove", "replace"):
        relation = Adjacency(neighbours)
        for mine, other in (("epsilon", "rho"), ("rho", "epsilon")):
            loss = LAPLACE.loss(release.workload, release.scales, relation, other)
            with pytest.raises(TypeError, match="on a meter for"):
                meter_for(relation, mine).after(loss)


def test_a_large_group_by_is_charged_beside_the_exact_part() -> None:
    n = 3000
    ids = np.arange(n)
    groups = Column.joint(("zip",), (n,), n, ids, ids.copy(), np.ones(n, dtype=np.int64))
    zero = np.zeros(1, dtype=np.int64)
    one = Column.joint(("hue",), (2,), 1, zero, zero, zero + 1)
    relation = Adjacency("replace")
    meter = meter_for(relation, "epsilon")
    for column in (one, groups, one):
        meter = meter.after(LAPLACE.loss(Workload("t", (column,)), (20.0,), relation, "epsilon"))
    assert (meter.spent, meter.exact) == (4 * 5 * 10**10, False)


def test_dense_rows_over_many_cells_are_bounded_rather_than_compared() -> None:
    n = 800
    rows, where = np.nonzero(np.tri(n, dtype=np.int64))
    below = Column.joint(("age",), (n,), n, rows, where, np.ones(len(rows), dtype=np.int64))
    loss: Any = LAPLACE.loss(Workload("t", (below,)), (1.0,), Adjacency("replace"), "epsilon")
    assert not loss.exact
    # All rows tell cell 0 from no record at all, and the midrange bound finds just that.
    assert loss.bound == n * 10**12
