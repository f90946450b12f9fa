"""Tensors whose coordinates share entries say what they would with an entry for each."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accountant.budgets.meter import CellMeter
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.loss_tensor import Tensor
from tallyveil.mechanisms.losses.privacy_loss import privacy_loss
from tallyveil.workload.workload import Column
from tests.matrices import factor

SIZES = {"a": 3, "b": 4, "c": 2}


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    axes = tuple(sorted(draw(st.sets(st.sampled_from([*SIZES])))))
    codes = {}
    for name in axes:
        if draw(st.booleans()):
            own = draw(st.lists(st.integers(0, 2), min_size=SIZES[name], max_size=SIZES[name]))
            codes[name] = np.unique(own, return_inverse=True)[1].astype(np.int64)
    shape = [int(codes[n].max()) + 1 if n in codes else SIZES[n] for n in axes]
    size = int(np.prod(shape))
    entries = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    values = np.array(entries, dtype=np.int64).reshape(shape)
    return Tensor(axes, values, draw(st.integers(0, 9)), codes=codes)


def alike(own: Tensor, other: Tensor) -> None:
    whole = own.whole
    assert whole.axes == other.axes
    assert np.array_equal(whole.values, other.values)
    assert own.sizes == other.sizes == dict(zip(other.axes, other.values.shape, strict=True))
    assert (own.highest, own.outside) == (other.highest, other.outside)
    assert own.two_highest == other.two_highest
    assert own.mean == float(np.mean(other.values))


@given(tensors(), tensors(), st.sets(st.sampled_from([*SIZES])))
def test_shared_entries_change_nothing(one: Tensor, other: Tensor, kept: set[str]) -> None:
    alike(one, one.whole)
    alike(one.plus(other), one.whole.plus(other.whole))
    alike(one.plus(other).plus(one), one.whole.plus(other.whole).plus(one.whole))
    alike(one.folded(kept), one.whole.folded(kept))
    cells = [*one.whole.values.ravel().tolist(), one.outside]
    assert one.two_highest == max(map(sum, itertools.combinations(cells, 2)))


@given(tensors())
def test_kinds_are_spread_over_coordinates(one: Tensor) -> None:
    kinds = {name: np.arange(2 * size) // 2 for name, size in SIZES.items()}
    spread = one.spread(kinds)
    values = one.whole.values
    for n, name in enumerate(one.axes):
        values = values.take(kinds[name], axis=n)
    alike(spread, Tensor(one.axes, values, one.outside))


def test_days_ahead_have_one_entry() -> None:
    found = []
    for days in (40, 3652):
        meter = CellMeter("epsilon")
        for day in range(30):
            here, ward = np.zeros((1, days)), np.zeros((1, 50))
            here[0, day], ward[0, : 1 + day] = 1, 1
            column = Column((factor(here, ("day",)), factor(ward, ("ward",))))
            loss = privacy_loss([column], [Fraction(1)], Adjacency("add_remove"), "epsilon")
            meter = meter.after(loss)
        (group,) = meter.tally.groups
        found.append((group.values.tolist(), meter.spent))
        assert group.sizes == {"day": days, "ward": 50}
    assert found[0] == found[1]
    assert len(found[0][0]) == 31
