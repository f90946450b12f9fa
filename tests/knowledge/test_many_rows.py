"""What is known about many rows at once equals what is known about each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.gate.noisy_arrays import answer_array
from tallyveil.knowledge import Released, by_law, chosen, intervals, unknown
from tallyveil.knowledge.answers.many import Alike, answers_of, reporting, variances
from tallyveil.mechanisms import mechanism

VALUES = st.lists(
    st.one_of(st.integers(-50, 50), st.sampled_from([2**61, -(2**63), 2**70])),
    min_size=1,
    max_size=9,
)


@given(VALUES, st.sampled_from([0.5, 20.0, 1e6]), st.sampled_from(["laplace", "gaussian"]))
def test_rows_with_noise_of_one_law(values: list[int], scale: float, name: str) -> None:
    rows = answers_of(mechanism(name), scale, tuple(values))
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


@given(VALUES, st.data())
def test_exact_rows_and_reported_values_among_them(values: list[int], data: st.DataObject) -> None:
    """As when each row is looked at by itself."""
    numbers = range(len(values))
    exact = data.draw(st.sets(st.sampled_from(numbers), max_size=len(values) - 1))
    noisy = [n for n in numbers if n not in exact]
    told = [values[n] + data.draw(st.integers(-9, 9)) for n in noisy]
    own = answers_of(mechanism("laplace"), 20.0, [values[n] for n in noisy])
    assert isinstance(own, Alike)
    whole = own.among(noisy, {n: values[n] for n in exact})
    laws = own[0].parts[0].laws
    each = tuple(Released(values[n], () if n in exact else laws) for n in numbers)
    assert tuple(whole) == each
    for one, other in zip(variances(whole), variances(each), strict=True):
        assert one.tolist() == other.tolist()
    rows, others = reporting(whole, noisy, told), reporting(each, noisy, told)
    assert isinstance(rows, Alike)
    assert tuple(rows) == tuple(others)
    level = Fraction("0.9")
    for ends, expected in zip(intervals(rows, level), intervals(others, level), strict=True):
        assert list(ends) == list(expected)
    order = list(reversed(numbers))
    assert tuple(chosen(rows, order)) == tuple(chosen(others, order))
    assert set(by_law(rows)) == set(by_law(others))


def test_exact_rows_and_ranged_ones_are_looked_at_one_by_one() -> None:
    assert not isinstance(answers_of(mechanism("laplace"), 0.0, (3,)), Alike)
    ranged = answers_of(mechanism("truncated_geometric(n=9)"), 2.0, (3, 4))
    assert [row.value for row in ranged] == [3, 4]
    assert np.array(intervals(ranged, Fraction("0.9"))).shape == (3, 2)
