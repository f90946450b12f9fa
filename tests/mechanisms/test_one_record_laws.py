"""The one-record mechanisms have the laws they state, and these are private."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.records import (
    ClampedLaplace,
    RandomisedResponse,
    SeriesNoise,
    SetResponse,
)
from tallyveil.mechanisms.records.record_response import DRAWS, odds_below
from tests.goodness import surprise
from tests.pairs import alternately

EPSILONS = [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(5), Fraction(40), Fraction(400)]


def test_the_reference_of_ten_values_at_epsilon_one() -> None:
    law = RandomisedResponse(10, Fraction(1))
    assert law.change / DRAWS == pytest.approx(0.0853367, abs=5e-8)
    assert law.kept / DRAWS == pytest.approx(0.2319693, abs=5e-8)
    assert law.expected_error == pytest.approx(0.768031, abs=5e-7)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_exponential_is_bounded_from_below(epsilon: Fraction) -> None:
    """Against the series in rational numbers, whose tail is below twice the next term."""
    x, below = min(epsilon, Fraction(45)), odds_below(epsilon)
    assert float(below) == pytest.approx(math.exp(x), rel=1e-14)
    series = sum((x**k / math.factorial(k) for k in range(260)), Fraction(0))
    tail = x**260 / math.factorial(260) * 2
    assert series - Fraction(1, 2**180) < below < series + tail


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cells", [2, 3, 117, 10**6])
def test_randomised_response_is_private_and_no_more_than_it_must(
    cells: int, epsilon: Fraction
) -> None:
    law = RandomisedResponse(cells, epsilon)
    odds = odds_below(epsilon)
    assert law.kept + (cells - 1) * law.change == DRAWS
    assert law.change < law.kept <= odds * law.change
    one_less = law.change - 1
    assert one_less == 0 or DRAWS - (cells - 1) * one_less > odds * one_less


@pytest.mark.parametrize("cells", [1, 2, 3, 10])
def test_every_draw_leads_where_the_law_says(cells: int) -> None:
    """At the edges of all 2⁶⁴ draws' intervals: P draws to each other value, the rest to its own.

    The oracle counts in Python's integers.
    """
    law = RandomisedResponse(cells, Fraction(1, 2))
    edges = {edge + step for n in range(cells) for edge in [n * law.change] for step in (-1, 0, 1)}
    draws = sorted(d for d in {*edges, 0, DRAWS - 1} if 0 <= d < DRAWS)
    for code in range(cells):
        others = [other for other in range(cells) if other != code]
        expected = [
            others[draw // law.change] if draw < (cells - 1) * law.change else code
            for draw in draws
        ]
        codes = np.full(len(draws), code, dtype=np.int64)
        assert law.outcome(codes, np.array(draws, dtype=np.uint64)).tolist() == expected


MAKERS: list[Callable[[Fraction], object]] = [
    lambda epsilon: RandomisedResponse(10**6, epsilon),
    lambda epsilon: ClampedLaplace(10**6, epsilon),
    lambda epsilon: SetResponse((2,) * 19, epsilon),
    lambda epsilon: SeriesNoise(2, 1000, epsilon),
]


@pytest.mark.parametrize("make", MAKERS)
def test_an_epsilon_that_is_none_or_hardly_any(make: Callable[[Any], object]) -> None:
    for epsilon in (0, -1, math.nan, math.inf, Fraction(-1, 2)):
        with pytest.raises(InvalidParameterValue):
            make(epsilon)
    with pytest.raises(InvalidParameterValue, match="too small"):
        make(Fraction(1, 10**14))


def matrix(law: ClampedLaplace) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """P[y, x] by the sums of the definition: noise term by term, then the flag."""
    n, kept = law.cells - 2, law.flag.kept / DRAWS
    a = math.exp(-1 / law.scale) if law.scale else 0.0
    noise = np.zeros((n + 1, n + 1))
    for x in range(n + 1):
        for k in range(-6000, 6001) if a else [0]:
            noise[min(max(x + k, 0), n), x] += (1 - a) / (1 + a) * a ** abs(k)
    found = np.zeros((n + 2, n + 2))
    found[: n + 1, : n + 1] = kept * noise
    found[: n + 1, n + 1] = (1 - kept) * noise[:, law.middle]
    found[n + 1] = [1 - kept] * (n + 1) + [kept]
    return found


@pytest.mark.parametrize(
    ("epsilon", "cells"),
    alternately([Fraction(1, 5), Fraction(1), Fraction(6)], [2, 3, 4, 5, 8, 21]),
)
def test_the_clamped_laplace_is_private_and_unbiased(cells: int, epsilon: Fraction) -> None:
    law = ClampedLaplace(cells, epsilon)
    p = matrix(law)
    assert p.sum(axis=0) == pytest.approx(1)
    ratios = p[:, :, None] / p[:, None, :]
    assert ratios.max() <= math.exp(epsilon) * (1 + 1e-9)
    grid = np.arange(cells - 1)
    ends = grid + 0.0
    ends[0] -= law.end_shift
    ends[-1] += law.end_shift
    kept = law.flag.kept / DRAWS
    if cells > 2:
        assert ends @ p[:-1, :-1] == pytest.approx(kept * grid, abs=1e-9)
    far = np.abs(np.subtract.outer(grid, grid))
    distance = np.full((cells, cells), float(law.diameter))
    distance[:-1, :-1] = far
    distance[-1, -1] = 0
    assert law.expected_error == pytest.approx((distance * p).sum(axis=0).max())


def test_the_bound_is_that_of_a_bounded_domain() -> None:
    """b ≥ diam(D)/ε (METRIC Ex. 5): reached where the middle is one of the values."""
    assert ClampedLaplace(102, Fraction(2)).scale == 50
    assert ClampedLaplace(101, Fraction(2)).scale == 50


# Chi-square with 10⁻⁶ of false alarm at each of six cases.
@pytest.mark.parametrize("code", [0, 2, 5])
@pytest.mark.parametrize("make", [RandomisedResponse, ClampedLaplace])
def test_what_is_drawn_has_the_law(
    make: type[RandomisedResponse] | type[ClampedLaplace], code: int
) -> None:
    law = make(6, Fraction(2))
    if isinstance(law, ClampedLaplace):
        expected = dict(enumerate(matrix(law)[:, code].tolist()))
    else:
        expected = dict.fromkeys(range(6), law.change / DRAWS) | {code: law.kept / DRAWS}
    assert surprise(law.perturb(np.full(40_000, code, dtype=np.int64)).tolist(), expected) > 1e-6
