"""What a statement costs each cell is what its rows say of the cell, added up one by one."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.cell_loss import CellLoss
from tallyveil.mechanisms.losses.privacy_loss import privacy_loss, sensitivity
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.units import UNIT
from tallyveil.workload.workload import Column, Factor
from tests.matrices import factor

SIZES = {"a": 5, "b": 3, "c": 2}
RELATION = Adjacency("add_remove")


@st.composite
def factors(draw: st.DrawFn, axes: tuple[str, ...]) -> Factor:
    """Few different coefficients, so that coordinates are often alike."""
    shape = tuple(SIZES[axis] for axis in axes)
    height = draw(st.integers(1, 2))
    whole = draw(
        st.lists(
            st.sampled_from([0, 0, 1, 1, -2]),
            min_size=height * math.prod(shape),
            max_size=height * math.prod(shape),
        )
    )
    return factor(np.reshape(whole, (height, -1)), axes, shape)


@st.composite
def columns(draw: st.DrawFn) -> Column:
    groups = draw(
        st.sampled_from(
            [(("a",), ("b",), ("c",)), (("a", "b"), ("c",)), (("a", "c"),), (("b",),), ()]
        )
    )
    return Column(tuple(draw(factors(axes)) for axes in groups))


def moved(column: Column, record: dict[str, int], p: int) -> int:
    """Σ_i |C_ij|^p at the record's cell."""
    total = 1
    for own in column.factors:
        at = tuple(record[axis] for axis in own.axes)
        total *= int((np.abs(own.dense().reshape(-1, *own.shape)[:, *at]) ** p).sum())
    return total


@given(
    st.lists(st.tuples(columns(), st.fractions(Fraction(1, 10**6), 10)), min_size=1, max_size=5),
    st.sampled_from(["epsilon", "rho"]),
)
def test_a_cell_pays_for_what_the_rows_say_of_it(
    asked: list[tuple[Column, Fraction]], measure: Measure
) -> None:
    own, rates = [column for column, _ in asked], [rate for _, rate in asked]
    loss = privacy_loss(own, rates, RELATION, measure)
    assert isinstance(loss, CellLoss)
    (tensor,) = loss.tensors
    for place in itertools.product(*map(range, SIZES.values())):
        record = dict(zip(SIZES, place, strict=True))
        exact = sum(
            moved(column, record, power(measure)) * rate
            for column, rate in zip(own, rates, strict=True)
        )
        entry = tensor.whole.values[tuple(record[axis] for axis in tensor.axes)]
        assert entry == math.ceil(exact * UNIT)


@given(
    st.lists(columns(), min_size=8, max_size=12),
    st.fractions(Fraction(1, 10**6), 10),
    st.sampled_from(["epsilon", "rho"]),
)
def test_many_columns_of_one_rate_cost_a_cell_their_sum(
    own: list[Column], rate: Fraction, measure: Measure
) -> None:
    loss = privacy_loss(own, [rate] * len(own), RELATION, measure)
    assert isinstance(loss, CellLoss)
    (tensor,) = loss.tensors
    for place in itertools.product(*map(range, SIZES.values())):
        record = dict(zip(SIZES, place, strict=True))
        steps = sum(moved(column, record, power(measure)) for column in own)
        entry = tensor.whole.values[tuple(record[axis] for axis in tensor.axes)]
        assert entry == math.ceil(steps * rate * UNIT)


@given(
    st.lists(columns(), min_size=1, max_size=4),
    st.lists(st.lists(st.sampled_from([1, 2, 3]), min_size=4, max_size=4), min_size=2, max_size=4),
    st.sampled_from(["epsilon", "rho"]),
)
def test_columns_that_are_asked_at_several_rates_cost_what_they_do_alone(
    own: list[Column], every: list[list[int]], measure: Measure
) -> None:
    """Scales are found at other rates than those charged; what is cached of one serves the next."""
    for rates in every:
        at = [Fraction(1, rate) for rate in rates[: len(own)]]
        loss = privacy_loss(own, at, RELATION, measure)
        copies = [Column(column.factors) for column in own]
        alone = privacy_loss(copies, at, RELATION, measure)
        assert isinstance(loss, CellLoss)
        assert isinstance(alone, CellLoss)
        for one, other in zip(loss.tensors, alone.tensors, strict=True):
            assert one.axes == other.axes
            assert np.array_equal(one.values, other.values)
            assert (one.outside, one.exact, one.alike) == (other.outside, other.exact, other.alike)


@given(columns(), st.sampled_from(["epsilon", "rho"]))
def test_the_sensitivity_is_that_of_the_cell_that_moves_most(
    column: Column, measure: Measure
) -> None:
    records = (
        dict(zip(SIZES, place, strict=True))
        for place in itertools.product(*map(range, SIZES.values()))
    )
    most = max(moved(column, record, power(measure)) for record in records)
    assert sensitivity(column, RELATION, measure) == most
