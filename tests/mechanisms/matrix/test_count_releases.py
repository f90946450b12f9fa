"""Drawing from a matrix exactly, and what an output then says."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix import count_matrix
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix, draw
from tallyveil.mechanisms.matrix.credible import posterior
from tallyveil.mechanisms.matrix.designing import choose
from tallyveil.mechanisms.matrix.explicit import explicit_fair, geometric, uniform
from tallyveil.mechanisms.noise import exact_draws


class Source:
    """Gives the first 64 bits of each of some uniform numbers, and then those that follow."""

    def __init__(self, patch: pytest.MonkeyPatch, numbers: list[Fraction]) -> None:
        words = [[math.floor(number * 2**bits) for bits in (64, 128, 192)] for number in numbers]
        first = np.array([one[0] for one in words], dtype=np.uint64)
        self._later = iter([bits % 2**64 for one in words for bits in one[1:]])
        patch.setattr(count_matrix, "random_words", lambda count: first[:count])
        patch.setattr(exact_draws.secrets, "randbits", lambda bits: next(self._later))

    @property
    def used_up(self) -> bool:
        return next(self._later, None) is None


MATRICES = [
    geometric(3, "1/2"),
    explicit_fair(4, "2/3"),
    uniform(2, "1/2"),
    uniform(7, "1/2"),
    CountMatrix("constant", "1/2", [[0, 1, 0]] * 3),
    choose(6, "0.9", ["CM"]),
]


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("away", [Fraction(0), Fraction(1, 2**60), Fraction(1, 2**70)])
def test_each_output_has_its_interval_of_uniform_numbers(
    monkeypatch: pytest.MonkeyPatch, matrix: CountMatrix, away: Fraction
) -> None:
    """At both ends of all intervals, so the law is checked exactly and not by sampling; where 64
    bits do not tell, by more of them."""
    for truth, column in enumerate(matrix.weights):
        sums = list(itertools.accumulate(column, initial=0))
        for output, weight in enumerate(column):
            if weight:
                ends = (Fraction(one, matrix.total) for one in sums[output : output + 2])
                low, high = (Fraction(math.ceil(end * 2**180), 2**180) for end in ends)
                for number in (low + away, high - max(away, Fraction(2, 2**180))):
                    Source(monkeypatch, [number])
                    assert draw(matrix, [truth]) == (output,)


def test_more_bits_are_drawn_only_where_64_do_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = uniform(2, "1/2")
    source = Source(monkeypatch, [Fraction(1, 3) - Fraction(1, 2**100), Fraction(1, 2)])
    assert draw(matrix, [1, 1]) == (0, 1)
    assert not source.used_up
    assert draw(uniform(1, "1/2"), [0, 1]) == (0, 1)  # 2⁶³ belongs to the second half


@pytest.mark.parametrize(("truth", "end"), [(-5, 0), (10**30, 4), (5, 4)])
def test_truths_outside_the_range_count_as_its_ends(
    monkeypatch: pytest.MonkeyPatch, truth: int, end: int
) -> None:
    grid = [Fraction(2 * i + 1, 128) for i in range(64)]
    Source(monkeypatch, grid)
    assert draw(MATRICES[1], [truth] * 64) == draw(MATRICES[1], [end] * 64)


def test_releases_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = exact_draws.os.urandom
    monkeypatch.setattr(exact_draws.os, "urandom", lambda size: asked.append(size) or real(size))
    # 200 draws of 101 values are not all alike (10⁻¹⁰⁰ and less).
    assert len(set(draw(uniform(100, "1/2"), [50] * 200))) > 1
    assert asked == [1600]


def test_no_truths_have_no_outputs() -> None:
    assert draw(MATRICES[0], []) == ()


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
    off = sum((j - output) ** 2 * p for j, p in enumerate(row)) / sum(row)
    assert after.squared_error(output) == off
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


@pytest.mark.parametrize("confidence", [math.nan, math.inf, 0, 1, -0.5, 1.5, "x"])
def test_confidence_is_between_zero_and_one(confidence: float) -> None:
    with pytest.raises(InvalidParameterValue, match="confidence"):
        posterior(MATRICES[0], 1).interval(confidence)


def test_an_output_that_never_comes_says_nothing() -> None:
    constant = CountMatrix("constant", "1/2", [[0, 1, 0]] * 3)
    assert posterior(constant, 1).squared_error(1) == Fraction(2, 3)
    output: Any
    for output in (0, 2, 3, -1, 1.0):
        with pytest.raises(InvalidParameterValue, match="never answers"):
            posterior(constant, output)
