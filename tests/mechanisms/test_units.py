"""Exact arithmetic on losses: nothing is lost to rounding, and nonsense is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.alike import coded
from tallyveil.arrays import IntArray
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.units import CEILING, from_units, loss_units, positive, units


def summed(moves: Sequence[IntArray], rates: Sequence[Fraction]) -> IntArray:
    """Few are worked out in another way than many, with the same result."""
    few = loss_units(moves, rates)
    many = loss_units([np.broadcast_to(m, (40, *m.shape)).copy() for m in moves], rates)
    assert (many == few).all()
    return few


rates = st.fractions(min_value=Fraction(1, 10**6), max_value=10**4)


scales = st.floats(2.0**-20, 2.0**40)
wide_moves = st.integers(0, 2**13) | st.integers(0, 2**59) | st.sampled_from([0, 2**31 - 1, 2**31])
axis = st.lists(wide_moves, min_size=1, max_size=4)


@given(
    st.lists(
        st.tuples(
            axis,
            st.integers(0, 2),
            rates | scales.map(lambda s: 1 / Fraction(s)) | scales.map(lambda s: Fraction(s) ** 2),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_losses_along_several_axes_are_summed_exactly(
    terms: list[tuple[list[int], int, Fraction]],
) -> None:
    """Whatever the sizes of moves and rates, and however the moves are spread over the axes."""
    shapes = [[1, 1, 1] for _ in terms]
    for shape, (values, at, _) in zip(shapes, terms, strict=True):
        shape[at] = len(values)
        same = [v for v, place, _ in terms if place == at]
        shape[at] = min(map(len, same))
    moves = [
        np.array(values[: max(shape)], dtype=np.int64).reshape(shape)
        for shape, (values, _, _) in zip(shapes, terms, strict=True)
    ]
    got = summed(moves, [rate for _, _, rate in terms])
    spread = [np.broadcast_to(m, got.shape).ravel().tolist() for m in moves]
    for value, *element in zip(got.ravel().tolist(), *spread, strict=True):
        total = sum(m * rate for m, (_, _, rate) in zip(element, terms, strict=True))
        assert value == min(CEILING, math.ceil(10**12 * total))


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2**40 + 1, 3**30)])
def test_many_losses_are_those_of_each_cell(rate: Fraction) -> None:
    """A matrix of all pairs, beside lines, a number and fewer axes."""
    random = np.random.default_rng(3)
    shapes = ((5, 300, 70), (300, 70), (5, 1, 1), (1, 300, 1), (), (5, 300, 70))
    moves = [random.integers(0, 2**40, shape) for shape in shapes]
    rates = [rate / (n + 1) / 2**40 for n in range(len(moves))]
    got = loss_units(moves, rates)
    spread = [np.broadcast_to(move, got.shape) for move in moves]
    for cell in zip(*(random.integers(0, n, 300).tolist() for n in got.shape), strict=True):
        total = sum(int(move[cell]) * own for move, own in zip(spread, rates, strict=True))
        assert got[cell] == math.ceil(10**12 * total)


@given(st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**40)), min_size=1, max_size=4))
def test_a_sum_that_is_all_but_an_integer_is_rounded_up_exactly(
    pairs: list[tuple[int, int]],
) -> None:
    """Σ n/d − ⌊Σ n/d⌋, and its complement to 1: sums that a rounded one would miss."""
    parts = [Fraction(n, d) for n, d in pairs]
    missing = 1 - sum(parts) % 1
    ones = [np.ones(1, dtype=np.int64)] * (len(parts) + 1)
    for extra in (missing, missing + Fraction(1, 10**30), missing - Fraction(1, 10**30)):
        if extra > 0:
            rates = [part / 10**12 for part in (*parts, extra)]
            assert summed(ones, rates).tolist() == [min(CEILING, math.ceil(sum(parts) + extra))]


def test_the_costs_of_the_papers_example() -> None:
    """B = (α./S)ᵀ |H| (BAYES eq. 71), exactly, of the H of eq. 20 and the α of eq. 22."""
    h = [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
         [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, 1], [0, 1, 0, 1]]  # fmt: skip
    rates = [Fraction(1, scale) for scale in (20, 10, 20, 10, 10, 40, 40, 10)]
    assert [from_units(int(s)) for s in summed(list(np.array(h)), rates)] == [
        Fraction(1, 10), Fraction(11, 40), Fraction(1, 4), Fraction(3, 8),
    ]  # fmt: skip


def test_a_third_three_times_is_one() -> None:
    one = np.ones(1, dtype=np.int64)
    assert summed([one] * 3, [Fraction(1, 3)] * 3).tolist() == [10**12]
    assert summed([one], [Fraction(1, 3)]).tolist() == [333333333334]


def test_many_numbers_are_added_up() -> None:
    """As for a record outside the cube, of a statement with many columns."""
    rates = [Fraction(1, 7 * (n + 1)) for n in range(20)]
    got = loss_units([np.array(3, dtype=np.int64)] * len(rates), rates)
    assert int(got) == math.ceil(3 * 10**12 * sum(rates))


@pytest.mark.parametrize("rate", [Fraction(10**99), Fraction(10**99, 7), Fraction(1, 10**99)])
def test_a_rate_of_any_size_is_added_up(rate: Fraction) -> None:
    moves = np.array([0, 1, 2**59], dtype=np.int64)
    most = CEILING if rate > 1 else 1
    assert summed([moves], [rate]).tolist() == [0, most, most]
    assert summed([moves[:1]], [rate]).tolist() == [0]


@given(st.lists(st.integers(0, 2**62), min_size=1))
def test_codes_stand_for_the_values(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    codes, distinct = coded(array)
    assert distinct.tolist() == sorted(set(values))
    assert distinct[codes].tolist() == values


def test_a_float_means_its_decimal_text() -> None:
    assert positive(0.05, "epsilon") == Fraction(1, 20)
    assert positive("0.05", "epsilon") == positive(Decimal("0.05"), "epsilon") == Fraction(1, 20)
    assert units(positive(0.1, "epsilon")) == 10**11


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 0, 0.0, -0.05, "nan", "inf", "x", "", "1/0"]
)
def test_what_is_not_positive_and_finite_is_refused(value: float | str) -> None:
    with pytest.raises(InvalidParameterValue, match="epsilon"):
        positive(value, "epsilon")


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal("-1")])
def test_decimals_that_are_no_numbers_are_refused(value: Decimal) -> None:
    with pytest.raises(InvalidParameterValue):
        positive(value, "epsilon")


@pytest.mark.parametrize("text", ["1e-400000000", "1E+99999", "1e1_000_000_000"])
def test_an_exponent_nobody_means_is_not_spelt_out(text: str) -> None:
    with pytest.raises(InvalidParameterValue, match="too large an exponent"):
        positive(text, "epsilon")
