"""Laws of errors against closed forms in 60 digits, direct convolution, and the paper's example."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import (
    LAWS,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ErrorLaw,
    NoiseLaw,
    Noises,
)
from tallyveil.inference.laws.error_law import _least
from tallyveil.inference.laws.spectrum import _denominator

Family = type[NoiseLaw]
TOLERANCE = 1e-9
DISCRETE = [DiscreteLaplaceLaw, DiscreteGaussianLaw]


def laplace_tail(scales: list[float], n: int) -> float:
    """P(|X| > n) of a sum of discrete Laplace noises of distinct scales, by partial fractions of
    its generating function: P(X = k) = Σ_i c_i a_i^|k|, a = e^{−1/b},
    c_i = (1−a_i)/(1+a_i) Π_{j≠i} (1−a_j)² / ((1 − a_j/a_i)(1 − a_i a_j))."""
    with mpmath.workdps(120):
        a = [mpmath.e ** (-1 / mpmath.mpf(b)) for b in scales]
        total = mpmath.mpf(0)
        for i, own in enumerate(a):
            weight = (1 - own) / (1 + own)
            for other in a[:i] + a[i + 1 :]:
                weight *= (1 - other) ** 2 / ((1 - other / own) * (1 - own * other))
            total += 2 * weight * own ** (n + 1) / (1 - own)
        return float(total)


def pmf(law: Family, scale: float) -> dict[int, float]:
    reach = math.ceil(36 * scale) + 2
    if law is DiscreteLaplaceLaw:
        a = math.exp(-1 / scale)
        return {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-reach, reach + 1)}
    weights = {k: math.exp(-0.5 * (k / scale) ** 2) for k in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {k: w / total for k, w in weights.items()}


def points(coefficients: list[float], laws: list[Family], scales: list[float]) -> np.ndarray:
    """The values |X| can take and their probabilities, by enumeration."""
    values, weights = np.zeros(1), np.ones(1)
    for a, law, scale in zip(coefficients, laws, scales, strict=True):
        single = pmf(law, scale)
        steps = a * np.array(list(single), dtype=float)
        values = np.add.outer(values, steps).ravel()
        weights = np.multiply.outer(weights, np.array(list(single.values()))).ravel()
        keep = weights > 1e-16
        values, weights = values[keep], weights[keep]
    return np.array([np.abs(values), weights])


@given(
    st.lists(st.integers(-250, 400), min_size=1, max_size=9, unique=True),
    st.floats(0.02, 6),
    st.sampled_from([0.5, 1.0, 5.0]),
)
def test_sums_of_laplace_noise_have_their_closed_form(
    exponents: list[int], at: float, unit: float
) -> None:
    scales = [unit * 1.01**e for e in exponents]
    law = ErrorLaw(np.ones(len(scales)), Noises.of(DiscreteLaplaceLaw, scales))
    n = math.floor(at * math.sqrt(law.variance))
    exact = 1 - laplace_tail(scales, n)
    bounds = law.within(n)
    assert bounds.lower <= exact + 1e-15
    assert exact <= bounds.upper + 1e-15
    assert bounds.upper - bounds.lower <= TOLERANCE


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("narrow", [1 / 64, 3e-2, 0.4, 0.99])
def test_a_half_width_is_never_too_narrow_nor_a_step_too_wide(
    confidence: float, narrow: float
) -> None:
    scales = [30.0, 30 * narrow, 20 * narrow]
    h = ErrorLaw(np.ones(3), Noises.of(DiscreteLaplaceLaw, scales)).half_width(confidence)
    assert laplace_tail(scales, round(h)) <= 1 - confidence
    assert 1 - confidence - 2 * TOLERANCE < laplace_tail(scales, round(h) - 1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([-2.0, -0.5, 1.0, 1 / 3, 0.7, math.sqrt(2)]),
            st.sampled_from(DISCRETE),
            st.floats(0.1, 1.2),
        ),
        min_size=1,
        max_size=3,
    ),
    st.floats(0, 5),
)
def test_discrete_noise_is_what_enumeration_says(
    terms: list[tuple[float, Family, float]], at: float
) -> None:
    coefficients, laws, scales = (list(column) for column in zip(*terms, strict=True))
    noises = Noises(np.array([law.number for law in laws], dtype=np.int8), np.array(scales))
    law = ErrorLaw(np.array(coefficients), noises)
    values, weights = points(coefficients, laws, scales)
    deviation = math.sqrt(law.variance)
    assert deviation**2 == pytest.approx((values**2 * weights).sum(), rel=1e-9)
    h = at * deviation
    # Rounding errors must not decide on which side of h a point of the law lies.
    below, above = values < h - 1e-9 * deviation, values <= h + 1e-9 * deviation
    loose, strict = law.within(h), law.within(h, strict=True)
    assert strict.lower <= weights[above].sum() + 1e-12
    assert weights[below].sum() <= loose.upper + 1e-12
    half = law.half_width(0.9)
    assert weights[values <= half * (1 + 1e-12)].sum() >= 0.9 - 1e-12
    rounding = 1e-12 * max(abs(a) for a in coefficients)
    resolution = law.half_width(1 - 2e-6) / 1000 + rounding
    assert weights[values < half * (1 - 1e-9) - resolution].sum() < 0.9


@pytest.mark.parametrize("law", DISCRETE)
def test_equal_steps_are_exact_to_the_tolerance(law: Family) -> None:
    scales = [2.0, 3.0, 0.7]
    error = ErrorLaw(np.full(3, 1 / 3), Noises.of(law, scales))
    values, weights = points([1.0, 1.0, 1.0], [law] * 3, scales)
    for steps in range(30):
        exact = weights[np.rint(values) <= steps].sum()
        bounds = error.within((steps + 0.5) / 3)
        assert bounds.lower <= exact <= bounds.upper + 1e-15
        assert bounds.upper - bounds.lower <= TOLERANCE
    h = round(3 * error.half_width(0.95))
    assert weights[np.rint(values) <= h].sum() >= 0.95 > weights[np.rint(values) < h].sum()


def test_wide_gaussian_noise_is_nearly_normal() -> None:
    error = ErrorLaw(np.array([0.6, -0.8]), Noises.of(DiscreteGaussianLaw, [500.0, 500.0]))
    assert error.half_width(0.95) == pytest.approx(500 * 1.959963984540054, rel=2e-3)


@pytest.mark.parametrize("guess", [1e-9, 0.1, 0.4, 0.5, 0.7, 0.9, 50.0])
def test_a_half_width_is_found_from_any_guess(guess: float) -> None:
    found = _least(lambda h: 1 - math.exp(-h), 0.3, guess, 1.0, 1e-12)
    assert found == pytest.approx(-math.log(0.7), rel=1e-10)
    assert 1 - math.exp(-found) >= 0.3
    assert _least(lambda h: 0.4 + h / 2, 0.3, guess, 1.0, 1e-12) == 0


def test_terms_on_a_lattice_but_for_rounding_errors_are_as_on_it() -> None:
    """A history's estimate has such coefficients, and dust from rounding beside them."""
    rng = np.random.default_rng(12)
    scales = np.concatenate([[40.0, 30.0, 20.0, 7.0], rng.uniform(5, 100, 500)])
    exact = np.concatenate([[1.0, 1.0, -0.5, 0.25], np.zeros(500)])
    dust = exact + 1e-12 * rng.normal(size=504)
    clean = ErrorLaw(exact, Noises.of(DiscreteLaplaceLaw, scales))
    dusty = ErrorLaw(dust, Noises.of(DiscreteLaplaceLaw, scales))
    for confidence in (0.5, 0.95, 0.999):
        h = clean.half_width(confidence)
        assert h <= dusty.half_width(confidence) <= h * (1 + 1e-8)
    between = clean.half_width(0.9) + 0.1
    one, other = clean.within(between), dusty.within(between)
    assert other.upper - other.lower <= TOLERANCE
    assert max(one.lower, other.lower) <= min(one.upper, other.upper)


def test_many_terms_agree_with_few_of_the_same_law() -> None:
    """10⁴ terms of which nearly all are tiny: the cumulants stand for them."""
    rng = np.random.default_rng(7)
    sizes = np.concatenate([[3.0, 2.0, 1.0], rng.uniform(0, 1e-3, 10_000)])
    for law in LAWS:
        error = ErrorLaw(sizes, Noises.of(law, np.full(len(sizes), 10.0)))
        rest = math.sqrt(ErrorLaw(sizes[3:], Noises.of(law, np.full(10_000, 10.0))).variance)
        laws = np.array([law.number] * 3 + [DiscreteGaussianLaw.number], dtype=np.int8)
        few = ErrorLaw(np.array([3.0, 2.0, 1.0, rest / 10]), Noises(laws, np.full(4, 10.0)))
        assert error.half_width(0.95) == pytest.approx(few.half_width(0.95), rel=1e-3)


def test_one_noise_has_the_interval_it_had_alone() -> None:
    for scale in (0.3, 20.0, 1e7):
        law = ErrorLaw(np.array([2.0, 0.0]), Noises.of(DiscreteLaplaceLaw, [scale, 5.0]))
        assert law.half_width(0.95) == 2 * DiscreteLaplaceLaw(scale).half_width(0.95)


def test_confidence_near_one_is_met_by_chernoffs_bound() -> None:
    scales = [3.0, 2.0, 1.0]
    law = ErrorLaw(np.ones(3), Noises.of(DiscreteLaplaceLaw, scales))
    h = law.half_width(Fraction(10**12 - 1, 10**12))
    assert 1e-15 < laplace_tail(scales, math.floor(h)) <= 1e-12


def test_what_is_known_exactly_is_certain() -> None:
    for law in (ErrorLaw(np.zeros(1), Noises.of(DiscreteLaplaceLaw, [3.0])),
                ErrorLaw(np.ones(1), Noises.of(DiscreteGaussianLaw, [0.0]))):  # fmt: skip
        assert law.half_width(0.99) == 0
        assert law.within(0.0) == (1, 1)
        assert law.within(0.0, strict=True) == (0, 0)
        assert law.cdf(0.0) == (1, 1)
        assert law.cdf(-1.0) == (0, 0)
        assert law.quantile(0.05) == law.quantile(0.95) == 0


def test_a_law_is_consistent_with_itself() -> None:
    law = ErrorLaw(np.ones(3), Noises.of(DiscreteLaplaceLaw, [30.0, 20.0, 10.0]))
    half = law.half_width(0.9)
    assert law.within(half).lower >= 0.9
    assert law.within(half - 1).upper < 0.9
    assert law.quantile(0.95) == pytest.approx(half, abs=1)
    assert law.quantile(0.05) == -law.quantile(0.95)
    assert law.quantile(0.5) == 0
    assert law.cdf(math.inf) == (1, 1)
    assert law.cdf(0).lower > 0.5 > law.cdf(-1).upper


def test_intervals_that_are_not_strict_hold_their_ends() -> None:
    law = ErrorLaw(np.ones(1), Noises.of(DiscreteLaplaceLaw, [2.0]))
    a = math.exp(-0.5)
    single = (1 - a) / (1 + a)
    assert law.within(0).lower == pytest.approx(single, abs=1e-9)
    assert law.within(0.9) == law.within(0)
    assert law.within(1, strict=True) == law.within(0)
    assert law.cdf(-1).lower == pytest.approx((1 - single) / 2, abs=1e-9)
    assert law.cdf(-0.5) == law.cdf(0, strict=True) == law.cdf(-1)


@pytest.mark.parametrize("wrong", [math.nan, 0.0, 1.0, -1.0, 95.0])
def test_a_wrong_confidence_is_refused(wrong: float) -> None:
    law = ErrorLaw(np.ones(2), Noises.of(DiscreteLaplaceLaw, [1.0, 2.0]))
    for use in (law.half_width, law.quantile):
        with pytest.raises(InvalidParameterValue):
            use(wrong)


def test_wrong_laws_are_refused() -> None:
    for scale in (math.nan, -1.0, math.inf):
        with pytest.raises(InvalidParameterValue):
            Noises.of(DiscreteLaplaceLaw, [scale])
    with pytest.raises(InvalidParameterValue):
        Noises(np.array([9], dtype=np.int8), np.ones(1))
    for coefficients in (np.array([math.nan]), np.array([math.inf]), np.ones(2)):
        with pytest.raises(InvalidParameterValue):
            ErrorLaw(coefficients, Noises.of(DiscreteLaplaceLaw, [1.0]))
    law = ErrorLaw(np.ones(1), Noises.of(DiscreteLaplaceLaw, [1.0]))
    with pytest.raises(InvalidParameterValue):
        law.within(math.nan)


@pytest.mark.parametrize("laws", [[0, 0], [0, 1, 0, 1], [1, 1, 1], [0, 1]], ids=str)
def test_the_quick_bounds_hold_the_law(laws: list[int]) -> None:
    """Chernoff's bounds lie around the law's own, and never beyond 1/2 on the other side of 0."""
    noises = Noises(np.array(laws, dtype=np.int8), np.linspace(1.0, 4.0, len(laws)))
    error = ErrorLaw(np.linspace(1.0, 0.3, len(laws)), noises)
    spread = math.sqrt(error.variance)
    for x in (-math.inf, -9.0, -3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0, 9.0, math.inf):
        quick, own = error.outer_cdf(x * spread), error.cdf(x * spread)
        assert quick.lower <= own.lower + 1e-9
        assert own.upper - 1e-9 <= quick.upper
        assert quick.upper - quick.lower <= 0.5
    assert error.outer_cdf(-9 * spread).upper < 0.01


def test_denominators_are_found_but_for_rounding_errors() -> None:
    random = np.random.default_rng(1)
    for _ in range(300):
        q = int(random.integers(1, 1001))
        ratio = Fraction(int(random.integers(1, q + 1)), q)
        assert _denominator(float(ratio) + random.uniform(-8e-10, 8e-10)) == ratio.denominator
    assert _denominator(math.sqrt(0.5)) is None
    assert _denominator(1 / 1001) is None
