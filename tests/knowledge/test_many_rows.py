"""What is said of many rows at once is what is said of each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.gate.noisy_arrays import answer_array
from tallyveil.knowledge import by_law, chosen, intervals, unknown
from tallyveil.knowledge.many import Alike, bought
from tallyveil.mechanisms import mechanism

VALUES = st.lists(
    st.one_of(st.integers(-50, 50), st.sampled_from([2**61, -(2**63), 2**70])),
    min_size=1,
    max_size=9,
)


@given(VALUES, st.sampled_from([0.5, 20.0, 1e6]), st.sampled_from(["laplace", "gaussian"]))
def test_rows_with_noise_of_one_law(values: list[int], scale: float, name: str) -> None:
    rows = bought(mechanism(name), scale, tuple(values))
    assert isinstance(rows, Alike)
    each, level = tuple(rows), Fraction("0.95")
    assert [row.rounded for row in each] == values
    for ends, others in zip(intervals(rows, level), intervals(each, level), strict=True):
        assert list(ends) == list(others)
        kind = pa.float64()
        assert answer_array(ends, Fraction(1, 3), kind) == answer_array(
            others, Fraction(1, 3), kind
        )
    assert [row.law for row in by_law(rows).values()] == [row.law for row in by_law(each).values()]
    assert (unknown(rows), unknown((*each, None))) == (0, 1)
    order = list(reversed(range(len(values))))
    assert tuple(chosen(rows, order)) == tuple(chosen(each, order))
    assert tuple(rows[1:]) == each[1:]


def test_exact_rows_and_ranged_ones_are_looked_at_one_by_one() -> None:
    assert not isinstance(bought(mechanism("laplace"), 0.0, (3,)), Alike)
    ranged = bought(mechanism("truncated_geometric(n=9)"), 2.0, (3, 4))
    assert [row.value for row in ranged] == [3, 4]
    assert np.array(intervals(ranged, Fraction("0.9"))).shape == (3, 2)
