"""Designs against closed forms and golden values, which an independent program computed.

Errors are at ε = 1 or ρ = 1, of a record more or less.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest

from tallyveil.inference.designs.lattice import Design, Lattice, Measure
from tallyveil.inference.designs.p_identity import p_identity
from tallyveil.inference.designs.root import root, variances


def marginals(sizes: list[int], sets: Iterable[Iterable[int]]) -> Lattice:
    asked = [
        tuple(1 if a in own else n for a, n in enumerate(sizes)) for own in map(frozenset, sets)
    ]
    return Lattice(tuple((1, n) for n in sizes), tuple(asked))


def every(number: int, ways: int) -> Iterable[tuple[int, ...]]:
    return itertools.combinations(range(number), ways)


def total(lattice: Lattice, design: Design) -> float:
    return float(lattice.heights @ np.array(design.variances))


GROUPS = marginals([100], [(0,), ()])
TWO = marginals([4] * 5, every(5, 2))
THREE = marginals([4] * 5, every(5, 3))
CUBE = marginals([10] * 3, [own for ways in range(4) for own in every(3, ways)])
MONTHS = Lattice(((1, 16, 128),), ((1,), (16,), (128,)))
ROLLUP = marginals([8, 16, 20], [(0, 1, 2), (0, 1), (0,), ()])


@pytest.mark.parametrize(
    ("lattice", "expected", "worst"),
    [
        (GROUPS, 59.4593769, 5.42543409),
        (TWO, 474.029582, 2.96268489),
        (THREE, 1694.99668, 2.64843232),
        (CUBE, 1745.50169, 25.6068),
        (marginals([10] * 5, every(5, 2)), 4078.5105, 4.0785105),
        (MONTHS, 101.132355, 6.68114729),
        (ROLLUP, 1956.5, None),
    ],
    ids=["groups", "two", "three", "cube", "two_of_ten", "months", "rollup"],
)
def test_contrasts(lattice: Lattice, expected: float, worst: float | None) -> None:
    design = lattice.contrasts("total")
    assert total(lattice, design) == pytest.approx(expected, rel=3e-4)  # λ has 12 bits
    assert lattice.bound("rho") == pytest.approx(expected, rel=3e-5)
    cost = sum(
        design.precisions[size] * share / 2
        for size, share in zip(lattice.levels, lattice.shares.tolist(), strict=True)
        if size in design.precisions
    )
    assert cost == pytest.approx(1, rel=3e-4)
    if worst is not None:
        assert max(design.variances) == pytest.approx(worst, rel=5e-4)


@pytest.mark.parametrize(
    ("lattice", "measure", "expected"),
    [
        (GROUPS, "epsilon", 342.004474),
        (GROUPS, "rho", 59.4593769),
        (TWO, "epsilon", 15136.0203),
        (TWO, "rho", 530),
        (THREE, "epsilon", 20480),
        (THREE, "rho", 1880),
        (CUBE, "epsilon", 15525.7775),
        (CUBE, "rho", 1745.50169),
        (MONTHS, "epsilon", 760.772117),
        (marginals([10] * 5, every(5, 2)), "epsilon", 171200),
    ],
)
def test_unions(lattice: Lattice, measure: Measure, expected: float) -> None:
    design = lattice.union(measure, "total")
    assert total(lattice, design) == pytest.approx(expected, rel=1e-4)
    each = np.array([*design.precisions.values()])
    cost = np.sqrt(2 * each).sum() if measure == "epsilon" else each.sum() / 2
    assert cost == pytest.approx(1)


@pytest.mark.parametrize(("lattice", "expected"), [(CUBE, 2222.4), (ROLLUP, 3733), (MONTHS, 152.3)])
def test_no_row_is_worse_than_directly(lattice: Lattice, expected: float) -> None:
    number = len(lattice.asked)
    direct_errors: dict[Measure, float] = {"rho": number / 2, "epsilon": 2.0 * number**2}
    for measure, direct in direct_errors.items():
        targets = [direct] * number
        design = lattice.union(measure, "auto", targets)
        assert max(design.variances) <= direct * 1.002
        if measure == "rho":
            assert total(lattice, design) == pytest.approx(expected, rel=2e-3)
            contrasts = lattice.contrasts("auto", targets)
            assert max(contrasts.variances) <= direct * 1.002
            assert total(lattice, contrasts) == pytest.approx(expected, rel=2e-3)


def test_weights_of_groupings() -> None:
    """1-way tables of weight 10, and all 2-way ones, of five attributes of 4 values."""
    sets = [*every(5, 1), *every(5, 2)]
    plain = marginals([4] * 5, sets)
    lattice = Lattice(plain.chains, plain.asked, (10.0,) * 5 + (1.0,) * 10)
    contrasts = lattice.contrasts("total")
    assert lattice.times @ contrasts.variances == pytest.approx(1300.37404, rel=3e-4)
    assert lattice.bound("rho") == pytest.approx(1300.37404, rel=3e-5)
    union = lattice.union("epsilon", "total")
    assert lattice.times @ union.variances == pytest.approx(50655.6203, rel=1e-4)


def test_the_worst_row() -> None:
    assert max(CUBE.contrasts("worst").variances) == pytest.approx(3.00525921, rel=1e-3)
    assert max(THREE.contrasts("worst").variances) == pytest.approx(2.64843232, rel=1e-3)


def test_a_lattice_against_dense_algebra() -> None:
    """Of a union: q (Σ w_k GᵀG)⁺ qᵀ for the groupings' rows G."""
    lattice = marginals([2, 3, 4], [(0, 1), (1, 2), (0,)])
    design = lattice.union("rho", "total")

    def rows(sizes: tuple[int, ...]) -> np.ndarray:
        found = np.ones((1, 1))
        for size, n in zip(sizes, (2, 3, 4), strict=True):
            found = np.kron(found, np.eye(n) if size == 1 else np.ones((1, n)))
        return found

    precision = sum(w * rows(size).T @ rows(size) for size, w in design.precisions.items())
    inverse = np.linalg.pinv(precision, rcond=1e-10)
    for size, variance in zip(lattice.asked, design.variances, strict=True):
        own = np.diag(rows(size) @ inverse @ rows(size).T)
        assert own == pytest.approx(variance, rel=1e-9)


def prefixes(n: int) -> np.ndarray:
    return np.tril(np.ones((n, n)))


def ranges(n: int) -> np.ndarray:
    ends = [(a, b) for a in range(n) for b in range(a, n)]
    return np.array([(np.arange(n) >= a) & (np.arange(n) <= b) for a, b in ends], dtype=float)


@pytest.mark.parametrize(
    ("rows", "optimum", "within"),
    [
        (prefixes(16), 22.8326784, 1.01),
        (prefixes(64), 133.187917, 1.07),  # of the SVD bound
        (prefixes(256), 781.829780, 1.05),
        (ranges(64), 5512.19075, 1.001),
    ],
    ids=["16", "64", "256", "ranges"],
)
def test_roots(rows: np.ndarray, optimum: float, within: float) -> None:
    bought = root(rows)
    own = variances(rows, bought) * (bought**2).sum(axis=0).max() / 2
    assert optimum <= own.sum() <= optimum * within
    assert np.abs(bought).max() <= 4096


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (prefixes(16), 211.61658),
        (prefixes(64), 1812.78517),
        (prefixes(256), 13_980),
        (ranges(64), 64125.3376),
    ],
    ids=["16", "64", "256", "ranges"],
)
def test_p_identities(rows: np.ndarray, expected: float) -> None:
    bought = p_identity(rows)
    assert (np.abs(bought).sum(axis=0) == 4096).all()
    own = 2 * 4096**2 * variances(rows, bought)
    assert own.sum() == pytest.approx(expected, rel=2e-3)


def test_weights_of_rows() -> None:
    """A row of weight 4 counts as one with doubled coefficients does."""
    rows, weights = prefixes(16), np.where(np.arange(16) % 3 == 0, 4.0, 1.0)
    doubled = rows * np.sqrt(weights)[:, None]
    assert (root(rows, weights) == root(doubled)).all()
    assert (p_identity(rows, weights) == p_identity(doubled)).all()


def test_the_worst_row_of_prefixes() -> None:
    """The optimum is γ₂²/2 = 1.452628 in ρ."""
    bought = root(prefixes(16), worst=True)
    own = variances(prefixes(16), bought) * (bought**2).sum(axis=0).max() / 2
    assert 1.452627 <= own.max() <= 1.452628 * 1.03
