"""Translates w − λC: their least cost against references, and what they guarantee by brute force
over all small tables that agree on C."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.invariants import Span, Translate, centres, translated
from tallyveil.mechanisms import Adjacency, Measure, Neighbours
from tallyveil.mechanisms.losses.privacy_loss import privacy_loss
from tallyveil.mechanisms.units import UNIT
from tallyveil.workload.workload import Column
from tests import matrices

SIZES = {"a": 3, "b": 4, "c": 2}


def dense(axes: Sequence[str], matrix: Sequence[Sequence[int]], sizes: dict[str, int]) -> Column:
    return matrices.column(matrix, axes, [sizes[axis] for axis in axes])


def groups(*axes: str, sizes: dict[str, int] = SIZES) -> Column:
    return Column(tuple(dense([a], np.eye(sizes[a]).tolist(), sizes).factors[0] for a in axes))


def cell(*axes: str, sizes: dict[str, int] = SIZES) -> Column:
    first = [dense([a], [[1] + [0] * (sizes[a] - 1)], sizes).factors[0] for a in axes]
    return Column(tuple(first))


def least(
    asked: Column,
    declared: Sequence[Column],
    sizes: dict[str, int],
    measure: Measure = "epsilon",
    neighbours: Neighbours = "add_remove",
) -> float:
    """The least cost at ε = 1 of a step, or ρ = 1 of a squared one."""
    found = [cost(asked, None, declared, measure, neighbours)]
    for one in candidates(asked, declared, sizes, measure):
        found.append(cost(asked, one, declared, measure, neighbours))
    return float(min(found))


def candidates(
    asked: Column, declared: Sequence[Column], sizes: dict[str, int], measure: Measure
) -> list[Translate]:
    numbers = np.arange(sum(column.height for column in declared))
    return centres(asked, Span(declared, sizes), numbers, squares=measure == "rho")


def cost(
    asked: Column,
    translate: Translate | None,
    declared: Sequence[Column],
    measure: Measure,
    neighbours: Neighbours,
) -> Fraction:
    rows, rate = asked, Fraction(1)
    if translate is not None:
        found = translated(asked, translate, declared)
        assert found is not None
        rows = found
        rate = Fraction(1, translate.denominator ** (2 if measure == "rho" else 1))
    relation = Adjacency(neighbours, complete=True)
    return Fraction(privacy_loss([rows], [rate], relation, measure).bound, UNIT)


TOTAL = {n: [dense(["x"], [[1] * n], {"x": n})] for n in (4, 8, 116)}
PREFIXES = dense(["x"], np.tril(np.ones((8, 8)))[:7].tolist(), {"x": 8})
MARGINS = [groups("a"), groups("b")]
THREE = [groups("a", "b"), groups("a", "c"), groups("b", "c")]
CAMPUS = {"building": 20, "hour": 14, "group": 24}
BOTH = [groups("building", "hour", sizes=CAMPUS), groups("building", "group", sizes=CAMPUS)]

REFERENCES = {
    "one cell of a total": (cell("x", sizes={"x": 4}), TOTAL[4], {"x": 4}, 0.5),
    "two of four": (dense(["x"], [[1, 1, 0, 0]], {"x": 4}), TOTAL[4], {"x": 4}, 0.5),
    "a sum": (dense(["x"], [list(range(116))], {"x": 116}), TOTAL[116], {"x": 116}, 57.5),
    "prefixes": (PREFIXES, TOTAL[8], {"x": 8}, 3.5),
    "all groups": (groups("x", sizes={"x": 4}), TOTAL[4], {"x": 4}, 1),
    "3×4 under both margins": (cell("a", "b"), MARGINS, SIZES, 0.25),
    "a weighted row of 3×4": (
        Column((cell("a").factors[0], dense(["b"], [[3, 1, 0, -2]], SIZES).factors[0])),
        MARGINS,
        SIZES,
        1.25,
    ),
    "3×4 under one margin": (cell("a", "b"), MARGINS[:1], SIZES, 0.5),
    "3×4×2 under three one-way margins": (
        cell("a", "b", "c"),
        [*MARGINS, groups("c")],
        SIZES,
        1 / 3,
    ),
    "3×4×2 under all two-way margins": (cell("a", "b", "c"), THREE, SIZES, 0.125),
    "campus": (cell("building", "hour", "group", sizes=CAMPUS), BOTH, CAMPUS, 0.25),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_rows_cost_what_the_references_say(name: str) -> None:
    asked, declared, sizes, expected = REFERENCES[name]
    assert least(asked, declared, sizes) == pytest.approx(expected, abs=1e-9)


def test_rows_in_rho_cost_the_squared_radius_of_the_smallest_ball() -> None:
    three = dense(["x"], np.eye(4)[:3].tolist(), {"x": 4})
    for asked, declared, sizes, expected in (
        (groups("x", sizes={"x": 4}), TOTAL[4], {"x": 4}, 3 / 4),
        (three, TOTAL[4], {"x": 4}, 2 / 3),
        (PREFIXES, TOTAL[8], {"x": 8}, 1.75),
        (groups("a", "b"), MARGINS, SIZES, 1 / 2),
        (Column((cell("a").factors[0], groups("b").factors[0])), MARGINS, SIZES, 3 / 16),
    ):
        assert least(asked, declared, sizes, "rho") == pytest.approx(expected, rel=2e-3)


def test_where_records_are_replaced_a_cell_under_both_margins_costs_half() -> None:
    assert least(cell("a", "b"), MARGINS, SIZES, neighbours="replace") == pytest.approx(0.5)
    one = cell("x", sizes={"x": 4})
    assert least(one, TOTAL[4], {"x": 4}, neighbours="replace") == 1


def small(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows asked, and declared ones, over five cells."""
    random = np.random.default_rng(seed)
    asked = random.integers(-2, 4, (1 + seed % 3, 5))
    asked[:, 0] += ~asked.any(axis=1)
    declared = random.integers(0, 2, (1 + seed % 2, 5))
    declared[:, 1] = 1
    return asked, declared


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_no_tables_that_agree_are_told_apart_better_than_is_charged(
    seed: int, measure: Measure
) -> None:
    """Laplace noise of scale 1 on w tells x from x' by Σ_i |w_i(x − x')|, Gaussian noise by
    Σ_i (w_i(x − x'))²/2, whatever λ is charged. At most that is Σ_j |x_j − x'_j| ε_j, or
    (Σ_j |x_j − x'_j| √ρ_j)², of what cell j is charged, and so at most the charge times records
    moved, or times its square. And it is more for some tables that do not agree, where the charge
    is less than that of the row as asked: an undeclared total does not excuse it."""
    rows, exact = small(seed)
    asked, declared = dense(["x"], rows, {"x": 5}), [dense(["x"], exact, {"x": 5})]
    tables = [np.array(x) for x in itertools.product(range(2), repeat=5)]
    differences = [x - y for x, y in itertools.permutations(tables, 2)]
    power = 2 if measure == "rho" else 1
    plain = cost(asked, None, declared, measure, "add_remove")
    for translate in candidates(asked, declared, {"x": 5}, measure):
        charge = cost(asked, translate, declared, measure, "add_remove")
        over = []
        for d in differences:
            loss = sum(abs(int(v)) ** power for v in rows @ d)
            allowed = charge * int(np.abs(d).sum()) ** power
            if (exact @ d).any():
                over.append(loss > allowed)
            else:
                assert loss <= allowed
        if charge < plain:
            assert any(over)


@pytest.mark.parametrize("seed", range(0, 12, 3))
def test_the_charge_of_a_row_is_reached(seed: int) -> None:
    """By tables that agree: the least charge is the greatest w·z of Cz = 0, ‖z‖₁ = 1, and that is
    one of the z of fewest cells."""
    rows, exact = small(seed)
    asked, declared = dense(["x"], rows, {"x": 5}), [dense(["x"], exact, {"x": 5})]
    reached = Fraction(0)
    for size in range(1, 4):
        for cells in itertools.combinations(range(5), size):
            for values in itertools.product(range(-3, 4), repeat=size):
                z = np.zeros(5, dtype=np.int64)
                z[list(cells)] = values
                if z.any() and not (exact @ z).any():
                    moved = int(np.abs(z).sum())
                    reached = max(reached, Fraction(abs(int(rows[0] @ z)), moved))
    assert least(asked, declared, {"x": 5}) == pytest.approx(float(reached), abs=1e-6)


def test_rows_of_a_product_are_translated_by_rows_of_their_own() -> None:
    """λ is given by row; what is left is worked out in integers, and agrees with w − λC."""
    asked = groups("a", "b")
    (translate,) = candidates(asked.take(np.array([0, 5])), MARGINS, SIZES, "epsilon")
    found = translated(asked.take(np.array([0, 5])), translate, MARGINS)
    assert found is not None
    (factor,) = found.factors
    left = np.zeros((2, 12))
    left[factor.rows, factor.cells] = factor.coefficients
    left /= translate.denominator
    whole = np.vstack([np.kron(np.eye(3), np.ones(4)), np.kron(np.ones(3), np.eye(4))])
    weights = np.zeros((2, 7))
    values = translate.numerators / translate.denominator
    np.add.at(weights, (translate.rows, translate.declared), values)
    assert np.allclose(left, np.eye(12)[[0, 5]] - weights @ whole)


def test_rows_that_are_not_published_give_no_translate() -> None:
    (translate,) = candidates(cell("x", sizes={"x": 4}), TOTAL[4], {"x": 4}, "epsilon")
    with pytest.raises(ValueError, match="not published"):
        translated(cell("x", sizes={"x": 4}), translate, [])
    with pytest.raises(ValueError, match="denominator"):
        Translate(translate.rows, translate.declared, translate.numerators, 0)


def test_a_translate_is_by_the_rows_that_are_given() -> None:
    """The same λ of other published rows is another row, and costs another cell."""
    asked, number = cell("a"), np.zeros(1, dtype=np.int64)
    translate = Translate(number, number, number + 1, 2)
    for published in ([1, 1, 1], [1, 1, 0]):
        found = translated(asked, translate, (dense(["a"], [published], SIZES),))
        assert found is not None
        (factor,) = found.factors
        row = np.zeros(SIZES["a"], dtype=np.int64)
        row[factor.cells] = factor.coefficients
        assert row.tolist() == [2 - published[0], -published[1], -published[2]]
    with pytest.raises(ValueError, match="not published"):
        translated(asked, translate, ())


def test_a_cell_of_thousands_takes_milliseconds() -> None:
    """10,000 cells that 200 crossing totals tell apart: by symmetry a program of four cells."""
    sizes = {"a": 100, "b": 100}
    span = Span([groups("a", sizes=sizes), groups("b", sizes=sizes)], sizes)
    numbers = np.arange(200)
    spent = []
    for _ in range(5):
        start = time.process_time()
        centres(cell("a", "b", sizes=sizes), span, numbers, squares=False)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.5  # of as many cells as there are it takes many seconds


@pytest.mark.parametrize("measure", ["epsilon", "rho"])
def test_a_column_of_no_rows_has_none(measure: Measure) -> None:
    empty = Column.joint(("a",), (3,), 0, *np.zeros((3, 0), dtype=np.int64))
    assert candidates(empty, [groups("a")], SIZES, measure) == []
