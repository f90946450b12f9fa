"""Coefficients to integers: exact where they can be, on a stated grid where they cannot."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import DatatypeMismatch, InvalidParameterValue
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.domain.integer_units import GRID_BITS, MAX_COEFFICIENT
from tallyveil.rewriter.domain.linearise import factor, groups
from tallyveil.workload.workload import Factor

DOMAIN = Domain(
    "t",
    (
        Attribute("a", "range", "INTEGER", (0, 1, 2)),
        Attribute("b", "range", "INTEGER", (0, 1)),
        Attribute("c", "range", "INTEGER", (0, 1, 2, 3)),
    ),
)
ALL = frozenset({"a", "b", "c"})


def _factor(
    values: list[Any], kind: pa.DataType, axes: frozenset[str] = ALL
) -> tuple[Factor, Fraction]:
    cells = np.arange(len(values), dtype=np.int64)
    rows = np.zeros(len(values), dtype=np.int64)
    return factor(DOMAIN, axes, 1, rows, cells, pa.chunked_array([pa.array(values, kind)]))


def _dense(made: Factor, unit: Fraction) -> dict[tuple[int, ...], Fraction]:
    """The coefficient of every cell of the three axes, wherever the column has them."""
    places = [
        tuple(np.unravel_index(cell, made.shape)) if made.shape else ()
        for cell in made.cells.tolist()
    ]
    at = dict(zip(places, made.coefficients.tolist(), strict=True))
    names = DOMAIN.names
    kept = [names.index(axis) for axis in made.axes]
    return {cell: unit * at.get(tuple(cell[k] for k in kept), 0) for cell in np.ndindex(3, 2, 4)}


@given(st.lists(st.integers(-(10**6), 10**6), min_size=24, max_size=24))
def test_integers_are_exact_and_primitive(values: list[int]) -> None:
    made, unit = _factor(values, pa.int64())
    assert list(_dense(made, unit).values()) == values
    assert math.gcd(*made.coefficients.tolist()) in (0, 1)


@given(st.lists(st.decimals(-999, 999, places=3), min_size=24, max_size=24))
def test_decimals_are_exact(values: list[Decimal]) -> None:
    made, unit = _factor(values, pa.decimal128(18, 3))
    assert list(_dense(made, unit).values()) == [Fraction(v) for v in values]


decimals = st.decimals(-9, 9, places=18) | st.integers(-(10**15), 10**15).map(Decimal)


@given(st.lists(decimals, min_size=1, max_size=24), st.sampled_from([0, 3, 18]))
def test_decimals_are_as_exact_beyond_64_bits(values: list[Decimal], scale: int) -> None:
    """In units of the least place that any of them has, of which the largest is at most 2^52."""
    values = [
        value.quantize(Decimal(1).scaleb(-scale), context=Context(prec=60)) for value in values
    ]
    padded = values + [Decimal(0)] * (24 - len(values))
    exact = [Fraction(v) for v in padded]
    denominator = math.lcm(*(q.denominator for q in exact))
    if max(map(abs, exact)) * denominator > MAX_COEFFICIENT:
        with pytest.raises(InvalidParameterValue, match="has the value"):
            _factor(padded, pa.decimal128(38, scale))
        return
    made, unit = _factor(padded, pa.decimal128(38, scale))
    assert list(_dense(made, unit).values()) == exact


@given(st.lists(st.floats(-1e12, 1e12), min_size=24, max_size=24))
def test_doubles_are_within_the_grid(values: list[float]) -> None:
    made, unit = _factor(values, pa.float64())
    largest = max(map(abs, values))
    for found, value in zip(_dense(made, unit).values(), values, strict=True):
        assert abs(found - Fraction(value)) <= Fraction(largest) / 2 ** (GRID_BITS - 1)
    assert np.abs(made.coefficients).max(initial=0) <= MAX_COEFFICIENT


@given(
    st.lists(
        st.floats(allow_nan=False, allow_infinity=False)
        | st.floats(-1000, 1000, allow_subnormal=False).map(lambda x: round(x * 8) / 8)
        | st.sampled_from([5e-324, 2.0**-1022, 2.0**52, 2.0**53 + 2, 0.5, -0.0]),
        min_size=1,
        max_size=8,
    )
)
def test_doubles_are_the_integers_that_fractions_give(values: list[float]) -> None:
    """⌊v/g⌉ for the grid g: the finest binary place of the values, or 2^-40 of the largest."""
    made, unit = _factor(values + [0.0] * (24 - len(values)), pa.float64())
    exact = [Fraction(v) for v in values]
    grid = Fraction(1, math.lcm(*(q.denominator for q in exact)))
    largest = max(map(abs, exact))
    if largest / grid > MAX_COEFFICIENT:
        grid = Fraction(2) ** (math.frexp(float(largest))[1] - GRID_BITS)
    found = list(_dense(made, unit).values())
    assert found[: len(values)] == [round(q / grid) * grid for q in exact]


@given(
    st.sets(st.sampled_from("abc")),
    st.lists(st.integers(-2, 2), min_size=24, max_size=24),
)
def test_an_axis_stays_exactly_if_it_matters(axes: set[str], values: list[int]) -> None:
    """A function of some axes only comes out over no others, whatever was mentioned."""
    chosen = sorted(axes)
    numbers = {name: i for i, name in enumerate("abc")}
    table = {}
    full = []
    for cell in np.ndindex(3, 2, 4):
        key = tuple(cell[numbers[name]] for name in chosen)
        full.append(table.setdefault(key, values[len(table)]))
    made, unit = _factor(full, pa.int64())
    assert list(_dense(made, unit).values()) == full
    for axis in made.axes:
        position = numbers[axis]
        assert any(
            full[np.ravel_multi_index(cell, (3, 2, 4))]
            != full[np.ravel_multi_index(_moved(cell, position), (3, 2, 4))]
            for cell in np.ndindex(3, 2, 4)
        )
    assert set(made.axes) <= axes


def _moved(cell: tuple[int, ...], position: int) -> tuple[int, ...]:
    size = (3, 2, 4)[position]
    return (*cell[:position], (cell[position] + 1) % size, *cell[position + 1 :])


@given(
    st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=48, max_size=48),
    st.permutations(range(48)),
    st.booleans(),
)
def test_the_order_of_the_coefficients_makes_no_difference(
    values: list[int], order: list[int], even: bool
) -> None:
    """DuckDB gives them in any order. Two rows over all cells, or over those that are not 0."""
    if even:  # along b
        values = np.array(values).reshape(2, 3, 2, 4)[:, :, [0, 0]].ravel().tolist()
    rows, cells = (np.arange(48) // 24).astype(np.int64), (np.arange(48) % 24).astype(np.int64)
    present = np.array([place for place in order if values[place]], dtype=np.int64)
    shuffled = pa.chunked_array([pa.array([values[place] for place in present], pa.int64())])
    made, unit = factor(DOMAIN, ALL, 2, rows[present], cells[present], shuffled)
    places = made.rows * made.size + made.cells
    assert (np.diff(places) > 0).all()
    assert not (even and "b" in made.axes and any(values))
    for row in (0, 1):
        here = made.rows == row
        own = Factor(
            made.axes, made.shape, 1, np.zeros_like(made.rows[here]),
            made.cells[here], made.coefficients[here],
        )  # fmt: skip
        assert list(_dense(own, unit).values()) == values[24 * row : 24 * row + 24]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(InvalidParameterValue, match="somewhere in the public domain"):
        _factor([value] * 24, pa.float64())


def test_what_is_too_fine_is_refused() -> None:
    with pytest.raises(InvalidParameterValue, match="2\\^52"):
        _factor([Decimal(1), Decimal(10**20 + 1)] * 12, pa.decimal128(38, 0))


def test_other_types_are_refused() -> None:
    with pytest.raises(DatatypeMismatch, match="numbers only"):
        _factor(["x"] * 24, pa.string())


def test_groups_stand_in_the_order_of_the_domain() -> None:
    cells = np.array([5, 0, 3, 1, 4, 2], dtype=np.int64)
    keys = pa.chunked_array([pa.array(["b", "a", "b", None, "a", "b"])])
    rows, first = groups([keys], cells)
    assert rows.tolist() == [2, 0, 2, 1, 0, 2]
    assert cells[first].tolist() == [0, 1, 2]


@pytest.mark.parametrize("alike", [True, False])
def test_many_entries_in_any_order_are_sorted(alike: bool) -> None:
    random = np.random.default_rng(7)
    domain = Domain("t", (Attribute("x", "range", "INTEGER", tuple(range(100_000))),))
    cells = random.permutation(100_000)[:90_000]
    rows = random.integers(0, 700, len(cells))
    values = np.full(len(cells), 3) if alike else random.integers(1, 5, len(cells))
    given = pa.chunked_array([pa.array(values)])
    made, unit = factor(domain, frozenset("x"), 700, rows, cells, given)
    order = np.lexsort((cells, rows))
    assert (made.rows == rows[order]).all()
    assert (made.cells == cells[order]).all()
    assert (made.coefficients * int(unit) == values[order]).all()


@pytest.mark.parametrize("depends", ["a", "b", "ab", ""])
def test_of_all_cells_in_any_order_those_axes_stay_that_matter(depends: str) -> None:
    random, size = np.random.default_rng(8), 400
    axes = (Attribute(name, "range", "INTEGER", tuple(range(size))) for name in "ab")
    cells = random.permutation(size * size)
    along = dict(zip("ab", np.divmod(cells, size), strict=True))
    values = 1 + sum((along[name] for name in depends), np.zeros_like(cells))
    given = pa.chunked_array([values[:70_000], values[70_000:]])
    kind = pa.decimal128(30, 0)
    made, _ = factor(
        Domain("t", tuple(axes)), frozenset("ab"), 1, 0 * cells, cells, given.cast(kind)
    )
    assert made.axes == tuple(depends)
    laid = np.arange(size)
    expected = 1 + (np.add.outer(laid, laid).ravel() if depends == "ab" else laid)
    assert made.coefficients.tolist() == (expected.tolist() if depends else [1])
    assert made.cells.tolist() == list(range(len(made.coefficients)))


def test_more_entries_than_are_sorted_at_once_stand_in_order() -> None:
    random, many = np.random.default_rng(9), (1 << 20) + 70_000
    rows, cells = random.integers(0, 900, many), np.arange(many)
    domain = Domain("t", (Attribute("x", "range", "INTEGER", tuple(range(many))),))
    made, _ = factor(domain, frozenset("x"), 900, rows, cells, pa.chunked_array([cells % 7 + 1]))
    order = np.argsort(rows, kind="stable")
    assert (made.rows == rows[order]).all()
    assert (made.cells == order).all()
    assert (made.coefficients == order % 7 + 1).all()


@given(
    st.lists(st.one_of(st.integers(-5, 5), st.sampled_from([2**62, -(2**63), None])), max_size=30),
    st.randoms(use_true_random=False),
)
def test_groups_of_integers_are_those_of_their_values(
    values: list[int | None], random: Random
) -> None:
    cells = list(range(len(values)))
    random.shuffle(cells)
    keys = pa.chunked_array([pa.array(values, pa.int64())])
    rows, first = groups([keys], np.array(cells, dtype=np.int64))
    in_order = dict.fromkeys(value for _, value in sorted(zip(cells, values, strict=True)))
    expected = {value: number for number, value in enumerate(in_order)}
    assert rows.tolist() == [expected[value] for value in values]
    assert [values[row] for row in first.tolist()] == list(in_order)


def test_zero_is_one_group_whatever_its_sign() -> None:
    cells = np.arange(3, dtype=np.int64)
    rows, _ = groups([pa.chunked_array([pa.array([0.0, -0.0, 1.0])])], cells)
    assert rows.tolist() == [0, 0, 1]
