"""ρ against ε and δ: the reference values, a second way to work them out, and the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.noise.statement_scales import analytic_scale, lemma_13_scale
from tallyveil.mechanisms.zcdp import epsilon_of, rho_for

rhos = st.floats(1e-9, 1e3).map(lambda r: Fraction(repr(r)))
deltas = st.floats(1e-30, 1e-3).map(lambda d: Fraction(repr(d)))


@pytest.mark.parametrize(
    ("rho", "epsilon"), [("0.01", 0.62169), ("0.1", 2.14194), ("0.5", 5.22153)]
)
def test_the_reference_values(rho: str, epsilon: float) -> None:
    """MATH §2 at δ = 1e-6; the simple formula ρ + 2√(ρ ln 1/δ) gives 0.75338, 2.45079, 5.75652."""
    assert epsilon_of(rho, "1e-6") == pytest.approx(epsilon, abs=5.1e-6)
    simple = float(rho) + 2 * math.sqrt(float(rho) * math.log(1e6))
    assert epsilon_of(rho, "1e-6") < simple


@given(rhos, deltas)
def test_it_is_the_least_over_all_orders(rho: Fraction, delta: Fraction) -> None:
    def at(log: float) -> float:
        a1 = math.exp(log)
        t = -math.log(delta) - math.log(a1) - (1 + a1) * math.log1p(1 / a1)
        return (1 + a1) * float(rho) + t / a1

    found = minimize_scalar(at, bounds=(-15, 30), method="bounded", options={"xatol": 1e-12})
    assert epsilon_of(rho, delta) <= max(0.0, float(found.fun)) * (1 + 1e-9)
    # No order, least of all the best, gives less.
    least = min(at(x) for x in np.linspace(-15, 30, 2000))
    assert epsilon_of(rho, delta) <= max(0.0, least) * (1 + 1e-12)
    assert epsilon_of(rho, delta) >= float(found.fun) * (1 - 1e-6)


@given(rhos, deltas)
def test_there_and_back_is_on_the_safe_side(rho: Fraction, delta: Fraction) -> None:
    epsilon = epsilon_of(rho, delta)
    if epsilon > 0:
        assert rho_for(epsilon, delta) == pytest.approx(float(rho), rel=1e-7)
    budget = Fraction(repr(max(epsilon, 1e-9)))
    assert epsilon_of(rho_for(budget, delta), delta) <= float(budget) * (1 + 1e-15)


def test_nothing_spent_is_nothing() -> None:
    assert epsilon_of(0, "1e-9") == 0


@pytest.mark.parametrize("delta", [0, 1, -1e-9, math.nan, math.inf, 2])
def test_a_delta_lies_between_nought_and_one(delta: float) -> None:
    for call in (epsilon_of, rho_for, analytic_scale, lemma_13_scale):
        with pytest.raises(InvalidParameterValue, match="delta"):
            call(1, delta)


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, "x"])
def test_amounts_are_positive_numbers(amount: float) -> None:
    for call in (epsilon_of, rho_for, analytic_scale, lemma_13_scale):
        with pytest.raises(InvalidParameterValue):
            call(amount, "1e-9")
