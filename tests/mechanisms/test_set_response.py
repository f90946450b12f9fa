"""Sets: their law by brute force, that it is private, and that no other one errs by less."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from tallyveil.mechanisms.noise.exact_draws import LARGEST_BOUND, uniform_below
from tallyveil.mechanisms.records import RandomisedResponse, SetResponse
from tallyveil.mechanisms.records.record_response import odds_below
from tallyveil.sanitise import least_error
from tests.goodness import surprise

SHAPES = [(2,), (2, 2), (2, 2, 2), (2, 2, 2, 2), (3, 2), (3, 3, 2), (3, 3, 3)]
EPSILONS = [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(5), Fraction(40), Fraction(400)]


def values(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*map(range, shape)))


def distance(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


def brute(law: SetResponse) -> list[list[Fraction]]:
    """P[A][B] from the definition: K draws within the radius, P beyond it."""
    sets = values(law.shape)
    return [
        [
            Fraction(law.kept if distance(a, b) <= law.radius else law.change, law.draws)
            for b in sets
        ]
        for a in sets
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_all_ratios_of_all_sets(shape: tuple[int, ...], epsilon: Fraction) -> None:
    law = SetResponse(shape, epsilon)
    table = brute(law)
    assert law.draws <= LARGEST_BOUND
    assert all(sum(row) == 1 for row in table)
    odds = odds_below(epsilon)
    for output in range(law.cells):
        chances = [row[output] for row in table]
        assert max(chances) <= odds * min(chances)
    for a, row in zip(values(shape), table, strict=True):
        error = sum(
            (p * distance(a, b) for b, p in zip(values(shape), row, strict=True)), Fraction(0)
        )
        assert law.expected_error == pytest.approx(float(error))
    for column in range(len(shape)):
        kept, changed = law.marginal(column)
        for value in range(shape[column]):
            [chance] = {
                sum(p for b, p in zip(values(shape), row, strict=True) if b[column] == value)
                for a, row in zip(values(shape), table, strict=True)
                if a[column] == 0
            }
            assert chance == (kept if value == 0 else changed)


@pytest.mark.parametrize("shape", [(2,), (2, 2), (2, 2, 2), (3, 2), (3, 3)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
def test_no_private_mechanism_errs_by_less(shape: tuple[int, ...], epsilon: Fraction) -> None:
    """Against all ε-DP matrices P[A, B] at once: the least largest error, by linear programming."""
    sets = values(shape)
    n = len(sets)
    objective = np.zeros(n * n + 1)
    objective[-1] = 1
    rows = [(a, other, b) for a in range(n) for other in range(n) if a != other for b in range(n)]
    bounds = lil_matrix((len(rows) + n, n * n + 1))
    for r, (a, other, b) in enumerate(rows):
        bounds[r, a * n + b] = 1
        bounds[r, other * n + b] = -math.exp(epsilon)
    for a in range(n):
        for b in range(n):
            bounds[len(rows) + a, a * n + b] = distance(sets[a], sets[b])
        bounds[len(rows) + a, n * n] = -1
    sums = lil_matrix((n, n * n + 1))
    for a in range(n):
        sums[a, a * n : (a + 1) * n] = 1
    found = linprog(
        objective, bounds.tocsr(), np.zeros(len(rows) + n), sums.tocsr(), np.ones(n), (0, None)
    )
    law = SetResponse(shape, epsilon)
    assert law.expected_error == pytest.approx(found.fun, rel=1e-6)
    assert law.expected_error >= least_error(law.values, law.diameter, epsilon) * (1 - 1e-12)


@pytest.mark.parametrize("elements", [3, 8, 12])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4), Fraction(12)])
def test_it_errs_by_less_than_flipping_elements_and_than_keeping_sets(
    elements: int, epsilon: Fraction
) -> None:
    law = SetResponse((2,) * elements, epsilon)
    flips = elements / (1 + math.exp(epsilon / elements))
    whole = RandomisedResponse(2**elements, epsilon)
    mean_of_others = elements * 2 ** (elements - 1) / (2**elements - 1)
    assert law.expected_error < flips
    assert law.expected_error <= whole.expected_error * mean_of_others * (1 + 1e-9)


def test_a_radius_of_nought_is_randomised_response() -> None:
    law = SetResponse((2, 2, 2), Fraction(8))
    response = RandomisedResponse(8, Fraction(8))
    assert law.radius == 0
    assert law.kept / law.draws == pytest.approx(response.kept / 2**64)


@pytest.mark.parametrize("shape", [(2,), (2, 2, 2), (3, 2), (3, 3, 2)])
def test_every_draw_leads_where_the_law_says(shape: tuple[int, ...]) -> None:
    """At the edges of all T draws: each place's shift, column by column in Python's integers."""
    law = SetResponse(shape, Fraction(1))
    widths = [law.kept] * law.near + [law.change] * (law.cells - law.near)
    edges = [sum(widths[:n]) for n in range(law.cells + 1)]
    assert edges[-1] == law.draws
    draws = [d for n in range(law.cells) for d in (edges[n], edges[n + 1] - 1)]
    for code, own in enumerate(values(shape)):
        codes = np.full(len(draws), code, dtype=np.int64)
        outputs = law.outcome(codes, np.array(draws, dtype=np.uint64)).tolist()
        assert outputs[::2] == outputs[1::2]
        reached = outputs[::2]
        assert sorted(reached) == list(range(law.cells))
        near = set(reached[: law.near])
        assert near == {n for n, b in enumerate(values(shape)) if distance(own, b) <= law.radius}


# Chi-square with 10⁻⁶ of false alarm at each of six cases.
@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 2)])
@pytest.mark.parametrize("code", [0, 3, 5])
def test_what_is_drawn_has_the_law(shape: tuple[int, ...], code: int) -> None:
    law = SetResponse(shape, Fraction(1))
    outputs = law.perturb(np.full(40_000, code, dtype=np.int64)).tolist()
    assert surprise(outputs, dict(enumerate(map(float, brute(law)[code])))) > 1e-6


@pytest.mark.parametrize("shape", [(), (2, 1)])
def test_what_is_no_set(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="needs at least one element"):
        SetResponse(shape, Fraction(1))


def test_numbers_below_a_bound_are_uniform() -> None:
    """Chi-square at 10⁻⁶ where a word modulo the bound would favour the lower half: a third of all
    words lie beyond the only multiple of ⅔ · 2⁶⁴.
    """
    bound, draws = 2**64 // 3 * 2, 30_000
    found = uniform_below(np.full(draws, bound, dtype=np.uint64)).astype(object)
    assert found.max() < bound
    assert surprise([int(v) * 10 // bound for v in found], dict.fromkeys(range(10), 0.1)) > 1e-6
    small = uniform_below(np.array([1, 2, 3] * 2000, dtype=np.uint64)).reshape(-1, 3)
    assert [len(set(column)) for column in small.T.tolist()] == [1, 2, 3]
