"""What is known about many rows at once equals what is known about each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.gate.noisy_arrays import answer_array
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, Noises
from tallyveil.knowledge import Answers, Error, Known, total
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.mechanisms import mechanism

LEVEL = Fraction("0.9")
LAWS = (DiscreteLaplaceLaw(0.5), DiscreteLaplaceLaw(20.0), DiscreteGaussianLaw(1e3))
WEIGHTS = [
    NoiseWeights(np.array(own), Noises.of(DiscreteLaplaceLaw, [3.0] * len(own)))
    for own in ([0.5, 0.5], [0.3], [0.1, 0.2, 0.7])
]
LARGE = st.sampled_from([2**53 + 1, 2**61, -(2**63), 2**70])
VALUES = st.one_of(st.integers(-50, 50), LARGE)


def moved(known: Known, by: int | None) -> Known:
    return known if by is None else known.reporting(known.rounded + by)


def released(value: int, laws: tuple[int, ...], by: int | None) -> Known:
    return moved(Known.with_noise(value, *(LAWS[n] for n in laws)), by)


def estimated(value: float, weights: int, beside: Known, by: int | None) -> Known:
    own = WEIGHTS[weights]
    estimate = Estimate(value, np.arange(len(own.values)), own)
    return moved(replace(total([Known.estimated(estimate), beside]), reported=None), by)


def in_range(value: int, scale: float) -> Known:
    return Known.in_range("truncated_geometric(n=9)", scale, value)


MOVED = st.one_of(st.none(), st.integers(-90, 90))
BESIDE = st.sampled_from([Known.with_noise(0), Known.with_noise(-4), Known.with_noise(7, LAWS[0])])
HALVES = st.integers(-40, 40).map(lambda n: n / 4)
ROWS: st.SearchStrategy[list[Known | None]] = st.lists(
    st.one_of(
        st.none(),
        st.builds(released, VALUES, st.sampled_from([(), (0,), (1,), (2,), (0, 1)]), MOVED),
        st.builds(estimated, HALVES, st.integers(0, 2), BESIDE, MOVED),
        st.builds(in_range, st.integers(0, 9), st.sampled_from([1.0, 2.0])),
    ),
    min_size=1,
    max_size=9,
)


def same(found: Sequence[Known | None], expected: Sequence[Known | None]) -> bool:
    return [*map(repr, found)] == [*map(repr, expected)]


@given(ROWS, st.data())
def test_rows_of_any_kind(rows: list[Known | None], data: st.DataObject) -> None:
    found = Answers.listed(rows)
    known = [row for row in rows if row is not None]
    assert same(found, rows)
    assert found.known_rows == len(known)
    assert {row.error for row in known} == {*found.used_errors}
    assert found.by_error(lambda error: error.deviation) == [
        row and row.error.deviation for row in rows
    ]
    assert found.all_exact == all(row is not None and row.error.exact for row in rows)
    below = [n for n, row in enumerate(rows) if row is not None and row.rounded < 0]
    assert found.negative == below
    order = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True))
    assert same(found.take(order), [rows[n] for n in order])
    assert same(found[1:], rows[1:])
    nothing = (None, None, None)
    ends = [tuple(nothing if row is None else row.interval(LEVEL)) for row in rows]
    assert [*zip(*map(list, found.intervals(LEVEL)), strict=True)] == ends
    values, spread = found.variances
    for row, value, own in zip(rows, values.tolist(), spread.tolist(), strict=True):
        if row is None or not row.error.additive:
            assert math.isnan(value)
            assert math.isnan(own)
        else:
            assert (value, own) == (float(row.value), row.error.variance)


@given(ROWS, ROWS, st.data())
def test_rows_are_replaced_by_others(
    rows: list[Known | None], others: list[Known | None], data: st.DataObject
) -> None:
    height = min(len(rows), len(others))
    rows, others = rows[:height], others[:height]
    own, other = Answers.listed(rows), Answers.listed(others)
    which = np.array(data.draw(st.lists(st.booleans(), min_size=height, max_size=height)))
    found = own.where(which, other)
    assert same(found, [b if put else a for a, b, put in zip(rows, others, which, strict=True)])
    assert {row.error for row in found if row is not None} == {*found.used_errors}

    def wider(one: Error | None, two: Error | None) -> bool:
        return one is not None and two is not None and one.deviation > two.deviation

    expected = [wider(a and a.error, b and b.error) for a, b in zip(rows, others, strict=True)]
    assert own.preferred(other, wider).tolist() == expected


@given(ROWS)
def test_extensions_of_intervals(rows: list[Known | None]) -> None:
    furthest = 0.0
    for row in rows:
        if row is not None and row.error.additive:
            half = row.error.half_width(LEVEL)
            off = (row.rounded - row.value - half, row.value - half - row.rounded)
            furthest = max(furthest, *off)
    assert Answers.listed(rows).extension(LEVEL) == (furthest if furthest >= 1 else 0)


@given(st.lists(VALUES, min_size=1, max_size=9), st.sampled_from(LAWS), st.data())
def test_rows_with_noise_of_one_law_beside_exact_ones(
    values: list[int], law: DiscreteLaplaceLaw, data: st.DataObject
) -> None:
    numbers = range(len(values))
    exact = data.draw(st.sets(st.sampled_from(numbers), max_size=len(values) - 1))
    noisy = np.array([n for n in numbers if n not in exact])
    own = Answers.with_noise([values[n] for n in noisy], law).among(len(values), noisy)
    known = Answers.exact({n: values[n] for n in exact}, len(values))
    whole = own.where(known.known, known)
    assert same(
        whole, [Known.with_noise(values[n], *([] if n in exact else [law])) for n in numbers]
    )
    assert whole.of_one_noise
    assert whole.holds(lambda error: error.exact).tolist() == [n in exact for n in numbers]
    told = whole.reporting(noisy.tolist(), [values[n] - 60 for n in noisy])
    assert [row and row.rounded for row in told] == told.rounded
    raised = [max(value, 0) for value in told.rounded]
    assert [row and row.rounded for row in told.raised] == raised
    for rows in (whole, told):
        ends = rows.intervals(LEVEL)
        each = [*zip(*(row.interval(LEVEL) for row in rows if row is not None), strict=True)]
        assert [*map(list, ends)] == [*map(list, each)]
        for fast, slow in zip(ends, each, strict=True):
            array = answer_array(fast, Fraction(1, 3), pa.float64())
            assert array == answer_array(slow, Fraction(1, 3), pa.float64())


@given(ROWS, st.data())
def test_a_column_is_assembled_from_parts(rows: list[Known | None], data: st.DataObject) -> None:
    """These have no values to report yet."""
    every = [row for row in rows if row is None or row.reported is None]
    whole, numbers = Answers.listed(every), range(len(every))
    chosen = data.draw(st.lists(st.sampled_from(numbers), unique=True) if every else st.just([]))
    left = [n for n in numbers if n not in chosen]
    some = [np.array(own, dtype=np.int64) for own in (chosen, left[1:])]
    found = Answers.assembled(len(every), [(own, whole.take(own.tolist())) for own in some])
    assert same(found, [None if n in left[:1] else row for n, row in enumerate(every)])


def test_one_answer_in_a_range_for_each_value() -> None:
    found = Answers.released_by(mechanism("truncated_geometric(n=9)"), 2.0, (3, 4, 3))
    assert [row.value for row in found if row is not None] == [3, 4, 3]
    assert len(found.used_errors) == 2
    assert Answers.released_by(mechanism("laplace"), 0.0, (3,)).all_exact
