"""(ε, δ) by way of pure ε: against hockey-stick sums, closed forms, and the other way to charge."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from mpmath import log, mp, mpf

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.records import ClampedLaplace, RandomisedResponse, SetResponse
from tallyveil.mechanisms.records.record_response import DRAWS, odds_below
from tallyveil.mechanisms.zcdp import pure_epsilon, rho_for

DELTAS = ["1e-9", "1e-6", "0.01", "0.3", "0.999999"]


@pytest.mark.parametrize("epsilon", ["0.001", "1", "40"])
@pytest.mark.parametrize("delta", [*DELTAS, "1e-70", "1e-3000", f"0.{'9' * 30}"])
def test_it_is_rounded_down_and_by_little(epsilon: str, delta: str) -> None:
    with mp.workprec(20_000):
        exact = mpf(epsilon) - log(1 - mpf(delta))
        found = pure_epsilon(epsilon, delta)
        assert found >= Fraction(epsilon)
        assert 0 <= exact - mpf(found.numerator) / mpf(found.denominator) < mpf("1e-49")


def laws(pure: Fraction) -> dict[str, list[list[Fraction]]]:
    """P[x][y] of randomised response and of sets, as the integers say."""
    response = RandomisedResponse(5, pure)
    sets = SetResponse((2, 2, 2), pure)
    bits = list(product(range(2), repeat=3))
    return {
        "response": [
            [Fraction(response.kept if x == y else response.change, DRAWS) for y in range(5)]
            for x in range(5)
        ],
        "set": [
            [
                Fraction(
                    sets.kept
                    if sum(a != b for a, b in zip(x, y, strict=True)) <= sets.radius
                    else sets.change,
                    sets.draws,
                )
                for y in bits
            ]
            for x in bits
        ],
    }


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("delta", DELTAS)
def test_the_hockey_stick_is_at_most_delta(epsilon: Fraction, delta: str) -> None:
    """Σ_y max(0, P(y|x) − e^ε P(y|x′)) for all pairs, e^ε from below."""
    factor = odds_below(epsilon)
    for law in laws(pure_epsilon(epsilon, delta)).values():
        for p, q in product(law, repeat=2):
            excess = sum(max(Fraction(0), a - factor * b) for a, b in zip(p, q, strict=True))
            assert excess <= Fraction(delta)


@pytest.mark.parametrize("epsilon", ["0.5", "2"])
@pytest.mark.parametrize("delta", ["0.01", "0.3"])
def test_laplace_noise_of_example_5(epsilon: str, delta: str) -> None:
    """METRIC Ex. 5 on a grid 0 … n: of all pairs and events, at b = diam/ε′.

    The law is that of numbers in `ClampedLaplace`: P(y|x) = (1−a)/(1+a) · a^|y−x|, and at the ends
    a^|y−x|/(1+a). Three tenths of δ would not do.
    """
    n = 400
    pure = float(pure_epsilon(epsilon, delta))
    law = ClampedLaplace(n + 2, pure_epsilon(epsilon, delta))
    assert law.scale == pytest.approx(n / pure)
    grid = np.arange(n + 1)
    a = math.exp(-1 / law.scale)
    chances = np.where((grid == 0) | (grid == n), 1.0, 1 - a) / (1 + a)
    table = chances * a ** np.abs(grid[:, None] - grid)
    assert table.sum(axis=1) == pytest.approx(1)
    worst = max(
        float(np.maximum(0, table - math.exp(float(epsilon)) * row).sum(axis=1).max())
        for row in table
    )
    assert 0.3 * float(delta) < worst <= float(delta)


def test_randomised_response_of_example_6_is_pure_too() -> None:
    """p = (1−δ)/(m + e^ε) is 1/(m + e^ε″) at ε″ = ln((e^ε + mδ)/(1−δ)) ≥ ε − ln(1−δ)."""
    for m, epsilon, delta in product([1, 9, 500], [0.3, 1.0, 5.0], [1e-6, 0.01, 0.5]):
        relaxed = math.log((math.exp(epsilon) + m * delta) / (1 - delta))
        p = (1 - delta) / (m + math.exp(epsilon))
        assert 1 / (m + math.exp(relaxed)) == pytest.approx(p)
        assert relaxed >= float(pure_epsilon(repr(epsilon), repr(delta)))


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "3", "10"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-6", "1e-3", "1e-2", "0.1"])
def test_setting_delta_apart_costs_a_budget_more_than_it_saves(epsilon: str, delta: str) -> None:
    for share in (Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
        apart = Fraction(delta) * share
        lost = rho_for(epsilon, delta) - rho_for(epsilon, Fraction(delta) - apart)
        for part in (Fraction(1, 100), Fraction(1, 3), Fraction(1)):
            asked = Fraction(epsilon) * part
            assert (pure_epsilon(asked, apart) ** 2 - asked**2) / 2 < lost


@pytest.mark.parametrize("delta", ["0", "1", "-0.1", "2", "nan", "inf"])
def test_a_delta_that_is_none(delta: str) -> None:
    with pytest.raises(InvalidParameterValue):
        pure_epsilon("1", delta)
