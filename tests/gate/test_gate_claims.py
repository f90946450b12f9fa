"""dp_stddev, dp_probability and dp.nonnegative, against laws summed up point by point."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
import pytest

from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw, Noises
from tallyveil.knowledge import Known, total
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.mechanisms import CountMechanism, mechanism

BOUNDS = [(None, None), (None, 3), (3, None), (0, 0), (3, 3), (-2, 4), (5, 40), (-900, 900)]


@lru_cache
def pmf(law: NoiseLaw) -> dict[int, float]:
    """P(K = k), from the definition, but for a part below 1e-15."""
    if not law.scale:
        return {0: 1.0}
    scale = mpmath.mpf(law.scale)
    reach = math.ceil(36 * law.scale) + 1
    if isinstance(law, DiscreteLaplaceLaw):
        weights = {k: mpmath.exp(-abs(k) / scale) for k in range(-reach, reach + 1)}
    else:
        weights = {k: mpmath.exp(-(k**2) / (2 * scale**2)) for k in range(-reach, reach + 1)}
    whole = mpmath.fsum(weights.values())
    return {k: float(w / whole) for k, w in weights.items()}


def law_of_sum(laws: list[NoiseLaw], weights: list[Fraction]) -> dict[Fraction, float]:
    """P(Σ A_k N_k = x)."""
    return _law_of_sum(tuple(laws), tuple(weights))


@lru_cache
def _law_of_sum(laws: tuple[NoiseLaw, ...], weights: tuple[Fraction, ...]) -> dict[Fraction, float]:
    parts, total = math.lcm(*(weight.denominator for weight in weights)), {0: 1.0}
    for law, weight in zip(laws, weights, strict=True):
        following: dict[int, float] = {}
        terms = [(int(weight * parts) * k, q) for k, q in pmf(law).items()]
        for (x, p), (step, q) in itertools.product(total.items(), terms):
            at = x + step
            following[at] = following.get(at, 0.0) + p * q
        total = {x: p for x, p in following.items() if p > 1e-18}
    return {Fraction(x, parts): p for x, p in total.items()}


def mass(error: dict[Fraction, float], value: Fraction, low: int | None, high: int | None) -> float:
    """Of the truths value − X, rounded to the nearest, half each where there are two."""
    total = 0.0
    for x, p in error.items():
        truth = value - x
        least = Fraction(-(10**9)) if low is None else Fraction(2 * low - 1, 2)
        most = Fraction(10**9) if high is None else Fraction(2 * high + 1, 2)
        if least < truth < most:
            total += p
        elif truth in (least, most):
            total += p / 2
    return total


def deviation(group: list[Known]) -> float:
    return total(group).error.deviation


def probability(group: list[Known], low: int | None, high: int | None) -> float:
    return total(group).probability(low, high)


def estimated(
    value: Fraction, laws: list[NoiseLaw], weights: list[Fraction], first: int = 0
) -> Any:
    noises = Noises.concatenated([Noises.of(type(law), law.scale) for law in laws])
    numbers = np.arange(first, first + len(laws), dtype=np.int64)
    return Known.estimated(
        Estimate(float(value), numbers, NoiseWeights(np.array(list(map(float, weights))), noises))
    )


LAPLACE, GAUSSIAN = DiscreteLaplaceLaw(2.5), DiscreteGaussianLaw(3.0)


@pytest.mark.parametrize(
    "laws", [[LAPLACE], [GAUSSIAN], [LAPLACE, LAPLACE], [LAPLACE, GAUSSIAN, None]], ids=str
)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_added_noise_has_the_mass_of_its_law(
    laws: list[NoiseLaw | None], low: int | None, high: int | None
) -> None:
    """None is no noise."""
    group: list[Known] = [
        Known.with_noise(n + 1, *(() if law is None else (law,))) for n, law in enumerate(laws)
    ]
    value = Fraction(sum(range(1, len(laws) + 1)))
    noises = [law for law in laws if law is not None]
    error = law_of_sum(noises, [Fraction(1)] * len(noises))
    truth = mass(error, value, low, high)
    assert truth - 1e-9 <= probability(group, low, high) <= truth + 1e-12
    variance = math.fsum(p * float(x) ** 2 for x, p in error.items())
    assert deviation(group) == pytest.approx(math.sqrt(variance), rel=1e-9)


# With weights in whole-number proportion and with others; the second has values half-way.
ESTIMATES = [
    (Fraction(10, 3), [LAPLACE, LAPLACE], [Fraction(1, 3), Fraction(2, 3)], 1e-9),
    (Fraction(7, 2), [LAPLACE, DiscreteLaplaceLaw(0.7)], [Fraction(1, 2), Fraction(1, 2)], 1e-9),
    (Fraction(3), [LAPLACE], [Fraction(1)], 1e-9),
    (Fraction(13, 4), [GAUSSIAN, LAPLACE], [Fraction(1, 4), Fraction(3, 4)], 5e-3),
]


@pytest.mark.parametrize(("value", "laws", "weights", "off"), ESTIMATES)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_an_estimate_less_its_error_is_rounded_as_its_value_is(
    value: Fraction,
    laws: list[NoiseLaw],
    weights: list[Fraction],
    off: float,
    low: int | None,
    high: int | None,
) -> None:
    error = law_of_sum(laws, weights)
    one = estimated(value, laws, weights)
    truth = mass(error, value, low, high)
    assert truth - off <= probability([one], low, high) <= truth + 1e-9
    variance = math.fsum(p * float(x) ** 2 for x, p in error.items())
    assert deviation([one]) == pytest.approx(math.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize(("value", "laws", "weights", "off"), ESTIMATES)
def test_the_claims_of_single_truths_are_disjoint_and_add_up(
    value: Fraction, laws: list[NoiseLaw], weights: list[Fraction], off: float
) -> None:
    one = estimated(value, laws, weights)
    sum_of_all = math.fsum(probability([one], k, k) for k in range(-120, 121))
    assert 1 - 241 * off <= sum_of_all <= 1 + 1e-6


def test_noises_that_two_estimates_share_count_once() -> None:
    """(K + L)/2 and (K − L)/2 add up to K."""
    half = Fraction(1, 2)
    plus = estimated(Fraction(5, 2), [LAPLACE, LAPLACE], [half, half])
    minus = estimated(Fraction(1, 2), [LAPLACE, LAPLACE], [half, -half])
    for low, high in BOUNDS:
        alone = probability([Known.with_noise(3, LAPLACE)], low, high)
        assert probability([plus, minus], low, high) == pytest.approx(alone, abs=1e-9)
    assert deviation([plus, minus]) == pytest.approx(math.sqrt(LAPLACE.variance), rel=1e-12)


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_own_noise_beside_an_estimate_may_be_a_part_of_it(
    low: int | None, high: int | None
) -> None:
    """Whether the row's noise is another one, the estimate's own or its opposite."""
    one = estimated(Fraction(2), [LAPLACE], [Fraction(1)])
    group: list[Known] = [Known.with_noise(1, LAPLACE), one]
    found = probability(group, low, high)
    for laws, weights in (
        ([LAPLACE, LAPLACE], [Fraction(1), Fraction(1)]),
        ([LAPLACE], [Fraction(2)]),
        ([LAPLACE], [Fraction(0)]),
    ):
        error = law_of_sum(laws, weights)
        assert found <= mass(error, Fraction(3), low, high) + 1e-9
        spread = math.sqrt(math.fsum(p * float(x) ** 2 for x, p in error.items()))
        assert deviation(group) >= spread * (1 - 1e-12)
    if (low, high) in ((None, None), (-900, 900)):
        assert found > 1 - 1e-9


def test_a_rough_estimate_is_believed_no_more_than_it_deserves() -> None:
    exact = estimated(Fraction(3), [LAPLACE, LAPLACE], [Fraction(1), Fraction(1)])
    weights = exact.estimate.weights
    rough = Known.estimated(
        Estimate(
            exact.value, exact.estimate.numbers, NoiseWeights(weights.values, weights.noises, True)
        )
    )
    for low, high in BOUNDS:
        assert probability([rough], low, high) <= probability([exact], low, high) + 1e-9
    assert probability([rough], -30, 36) > 0.99


def test_what_is_exact_is_certain() -> None:
    group: list[Known] = [Known.with_noise(4), Known.with_noise(0)]
    assert [probability(group, low, high) for low, high in BOUNDS] == [1, 0, 1, 0, 0, 1, 0, 1]
    assert probability([], 0, 0) == 1
    assert deviation(group) == deviation([]) == 0


def test_a_public_range_gives_its_posterior_and_no_sums() -> None:
    noise = mechanism("fair(n=9)")
    assert isinstance(noise, CountMechanism)
    matrix = noise.matrix(2.0)
    for value in range(10):
        row = Known.in_range(noise.name, 2.0, value)
        weights = [matrix.probability(value, truth) for truth in range(10)]
        posterior = [w / sum(weights) for w in weights]
        truth = sum(posterior[2:6])
        assert truth - Fraction(1, 10**15) <= Fraction(probability([row], 2, 5)) <= truth
        squared = sum(p * (truth - value) ** 2 for truth, p in enumerate(posterior))
        assert deviation([row]) == pytest.approx(math.sqrt(squared), rel=1e-12)
    with pytest.raises(TypeError):
        deviation([row, row])


# Through the gate
