"""ρ against ε and δ: the reference values, a second way to work them out, and the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms import delta_of, epsilon_of, rho_for
from tallyveil.mechanisms.gaussian_scales import Calibration, discrete_delta, gaussian_scale
from tallyveil.mechanisms.geometric import alpha_of, scale_of_alpha

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
    assert delta_of(rho, epsilon_of(rho, "1e-6")) == pytest.approx(1e-6, rel=1e-9)


@given(rhos, deltas)
@settings(deadline=None, max_examples=60)
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
@settings(deadline=None, max_examples=60)
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
    for call in (lambda: epsilon_of(1, delta), lambda: rho_for(1, delta)):
        with pytest.raises(InvalidParameterValue, match="delta"):
            call()
    with pytest.raises(InvalidParameterValue):
        gaussian_scale(1, delta)


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, "x"])
def test_amounts_are_positive_numbers(amount: float) -> None:
    for call in (
        lambda: epsilon_of(amount, "1e-9"),
        lambda: rho_for(amount, "1e-9"),
        lambda: delta_of(amount, 1),
        lambda: delta_of(1, amount),
        lambda: gaussian_scale(amount, "1e-9"),
        lambda: gaussian_scale(1, "1e-9", amount),
    ):
        with pytest.raises(InvalidParameterValue):
            call()


@pytest.mark.parametrize(
    ("calibration", "scale"),
    [("analytic", 4.22468), ("discrete", 4.23078), ("zcdp", 4.53088), ("subspace", 4.84909)],
)
def test_the_scales_of_one_release(calibration: Calibration, scale: float) -> None:
    assert gaussian_scale(1, "1e-6", 1, calibration) == pytest.approx(scale, abs=1e-5)
    assert gaussian_scale("0.5", "1e-6", 3, calibration) >= 3 * gaussian_scale(1, "1e-6")


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.2, 1e-3), (4.0, 1e-9)])
def test_the_discrete_scale_holds_by_the_hockey_stick(epsilon: float, delta: float) -> None:
    scale = gaussian_scale(epsilon, delta, 1, "discrete")
    k = np.arange(-3000, 3001, dtype=np.float64)
    p = np.exp(-((k / scale) ** 2) / 2)
    p /= p.sum()
    beyond = np.maximum(0, p[:-1] - math.exp(epsilon) * p[1:]).sum()
    assert beyond <= delta
    assert discrete_delta(epsilon, scale, 1) == pytest.approx(beyond, rel=1e-6)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(InvalidParameterValue, match="no calibration"):
        gaussian_scale(1, "1e-6", 1, "optimal")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterValue, match="whole number"):
        gaussian_scale(1, "1e-6", "1/2", "discrete")


@given(st.floats(1e-6, 1 - 1e-9))
def test_alpha_and_scale_say_the_same(alpha: float) -> None:
    scale = scale_of_alpha(alpha)
    assert alpha_of(scale) >= alpha * (1 - 1e-15)
    assert alpha_of(scale) == pytest.approx(alpha, rel=1e-9)


@pytest.mark.parametrize("alpha", [0, 1, -0.5, math.nan, math.inf])
def test_alpha_lies_between_nought_and_one(alpha: float) -> None:
    with pytest.raises(InvalidParameterValue, match="alpha"):
        scale_of_alpha(alpha)
