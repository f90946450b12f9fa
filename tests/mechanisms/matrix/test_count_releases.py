"""Drawing from a matrix exactly, and what an output then says."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix import (
    CountMatrix,
    choose,
    draw,
    explicit_fair,
    geometric,
    posterior,
    sampling,
    uniform,
)


class Fixed:
    """A source that says what it is told to, and remembers what it was asked."""

    def __init__(self, value: int) -> None:
        self.value = value
        self.asked: list[int] = []

    def randrange(self, stop: int, /) -> int:
        self.asked.append(stop)
        return self.value


MATRICES = [geometric(3, "1/2"), explicit_fair(4, "2/3"), uniform(2, "1/2")]


@pytest.mark.parametrize("matrix", MATRICES)
def test_every_uniform_integer_leads_to_its_output(matrix: CountMatrix) -> None:
    """All of the source's values, so the law is checked exactly and not by sampling."""
    for truth in range(matrix.n + 1):
        counts = [0] * (matrix.n + 1)
        for value in range(matrix.total):
            counts[draw(matrix, truth, Fixed(value))] += 1
        assert tuple(counts) == matrix.weights[truth]


def test_large_totals_are_exact_at_every_edge() -> None:
    matrix = choose(6, "0.9", ["CM"])
    for truth, column in enumerate(matrix.weights):
        low = 0
        for output, weight in enumerate(column):
            assert draw(matrix, truth, Fixed(low)) == output
            assert draw(matrix, truth, Fixed(low + weight - 1)) == output
            low += weight
        assert low == matrix.total


def test_one_draw_asks_for_one_integer_below_the_total() -> None:
    matrix = MATRICES[1]
    for truth in (0, 2, 4):
        source = Fixed(0)
        draw(matrix, truth, source)
        assert source.asked == [matrix.total]


@pytest.mark.parametrize(("truth", "end"), [(-5, 0), (10**30, 4), (5, 4)])
def test_truths_outside_the_range_count_as_its_ends(truth: int, end: int) -> None:
    matrix = MATRICES[1]
    for value in range(matrix.total):
        assert draw(matrix, truth, Fixed(value)) == draw(matrix, end, Fixed(value))


def test_releases_come_from_the_operating_system() -> None:
    assert isinstance(sampling.SYSTEM, random.SystemRandom)
    # 200 draws of 101 values are not all alike (10⁻¹⁰⁰ and less).
    matrix = uniform(100, "1/2")
    assert len({draw(matrix, 50) for _ in range(200)}) > 1


@given(
    st.integers(1, 9),
    st.fractions(Fraction(1, 20), Fraction(19, 20), max_denominator=20),
    st.fractions(Fraction(1, 100), Fraction(99, 100)),
    st.data(),
)
def test_the_interval_is_the_narrowest_that_is_likely_enough(
    n: int, alpha: Fraction, confidence: Fraction, data: st.DataObject
) -> None:
    matrix = data.draw(st.sampled_from([geometric, explicit_fair, uniform]))(n, alpha)
    output = data.draw(st.integers(0, n))
    row = [matrix.probability(output, j) for j in range(n + 1)]
    after = posterior(matrix, output)
    assert after.mean == sum(j * p for j, p in enumerate(row)) / sum(row)
    mass = {
        (low, high): sum(row[low : high + 1]) / sum(row)
        for low in range(n + 1)
        for high in range(low, n + 1)
    }
    for (low, high), probability in mass.items():
        assert after.probability(low, high) == probability
    best = min(
        (high - low, -probability, low)
        for (low, high), probability in mass.items()
        if probability >= confidence
    )
    assert after.interval(confidence) == (best[2], best[2] + best[0])


def test_nothing_is_beyond_the_range() -> None:
    after = posterior(MATRICES[0], 1)
    assert after.probability(-10, 10) == 1
    assert after.probability(2, 1) == after.probability(-5, -1) == after.probability(4, 9) == 0


@pytest.mark.parametrize("confidence", [math.nan, math.inf, 0, 1, -0.5, 1.5, "x"])
def test_confidence_is_between_zero_and_one(confidence: float) -> None:
    with pytest.raises(InvalidParameterValue, match="confidence"):
        posterior(MATRICES[0], 1).interval(confidence)


def test_an_output_that_never_comes_says_nothing() -> None:
    constant = CountMatrix("constant", "1/2", [[0, 1, 0]] * 3)
    assert posterior(constant, 1).mean == 1
    output: Any
    for output in (0, 2, 3, -1, 1.0):
        with pytest.raises(InvalidParameterValue, match="never answers"):
            posterior(constant, output)
